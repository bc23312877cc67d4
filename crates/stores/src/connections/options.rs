//! The address and login of a server: the parts of a store URL that all stores on servers share.
//!
//! Invariant: a password leaves this module only as a value of [`Login`]; no error repeats it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use sessile_core::{Error, ErrorKind, Result};

use crate::registry::{OptionHelp, option};
use crate::store_url::{StoreUrl, invalid};

pub const USER: OptionHelp =
    option("user", "user name at a unix socket (a host takes it before the @)");
pub const DATABASE: OptionHelp =
    option("database", "name of the database at a unix socket (a host takes it as the path)");
pub const PASSWORD_FILE: OptionHelp =
    option("password_file", "file that holds the password; keeps it out of the URL");
pub const CLEAR_PASSWORD: OptionHelp = option(
    "clear_password",
    "1: tell the password to a server that asks for it over TCP without TLS (default 0)",
);
pub const CONNECT_TIMEOUT_MS: OptionHelp =
    option("connect_timeout_ms", "longest time for one attempt to connect (default 1000)");
pub const RESPONSE_TIMEOUT_MS: OptionHelp =
    option("response_timeout_ms", "longest time for an operation, besides its wait (default 5000)");

#[derive(Clone, Copy)]
pub struct Timeouts {
    pub connect: Duration,
    pub response: Duration,
}

impl Timeouts {
    pub fn parse(url: &StoreUrl) -> Result<Timeouts> {
        let millis =
            |name, default, range| url.number(name, default, range).map(Duration::from_millis);
        Ok(Timeouts {
            connect: millis(CONNECT_TIMEOUT_MS.name, 1_000, 1..=60_000)?,
            response: millis(RESPONSE_TIMEOUT_MS.name, 5_000, 1..=600_000)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    Unix(PathBuf),
    /// `host` of an IPv6 address is without brackets.
    Tcp {
        host: String,
        port: u16,
    },
}

impl Address {
    /// Schemes that end in `+unix` name a socket by its path, all others a host and perhaps a port.
    pub fn parse(url: &StoreUrl, default_port: u16) -> Result<Address> {
        if !url.further_hosts().is_empty() {
            let why = format!("{}:// takes one host", url.scheme());
            return Err(invalid(why).advice("leave out the other hosts (docs/hosts.md)"));
        }
        Address::first(url, default_port)
    }

    /// The servers of a URL that may name several.
    pub fn all(url: &StoreUrl, default_port: u16) -> Result<Vec<Address>> {
        let hosts = std::iter::once(url).chain(url.further_hosts());
        hosts.map(|host| Address::first(host, default_port)).collect()
    }

    /// The first server of a URL that may name several.
    pub fn first(url: &StoreUrl, default_port: u16) -> Result<Address> {
        if is_unix(url) {
            return Ok(Address::Unix(url.path()?));
        }
        let host = url.parts().host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            let advice = format!("write {}://host:{default_port}/", url.scheme());
            return Err(invalid("the URL names no host").advice(advice));
        }
        Ok(Address::Tcp { host, port: url.parts().port().unwrap_or(default_port) })
    }
}

/// `host:port`, or a path.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "{}", path.display()),
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

pub fn is_unix(url: &StoreUrl) -> bool {
    url.scheme().ends_with("+unix")
}

/// Without `Debug`, which would print the password.
#[derive(Clone)]
pub struct Login {
    pub user: Option<String>,
    pub password: Option<String>,
}

impl Login {
    /// From `user:password@` before a host, from the options `user` and `password_file` at a
    /// socket.
    pub fn parse(url: &StoreUrl) -> Result<Login> {
        let (mut user, mut password) = (url.text("user").map(str::to_owned), None);
        if !is_unix(url) {
            if user.is_some() {
                let scheme = url.scheme();
                return Err(invalid(format!(
                    "option user is for unix sockets; {scheme}:// takes it before the @"
                ))
                .advice(format!("write {scheme}://user:password@host")));
            }
            user =
                Some(decoded(url.parts().username(), "user name")?).filter(|user| !user.is_empty());
            password =
                url.parts().password().map(|password| decoded(password, "password")).transpose()?;
        }
        if let Some(path) = url.text(PASSWORD_FILE.name) {
            if password.is_some() {
                return Err(invalid("the URL has both a password and a password_file")
                    .advice("leave one out"));
            }
            let text = String::from_utf8(file(path, PASSWORD_FILE.name)?)
                .map_err(|_| invalid("the password_file is not UTF-8"))?;
            password = Some(text.trim_end_matches(['\r', '\n']).to_owned());
        }
        Ok(Login { user, password })
    }
}

/// The database that a URL names: its path, or the option `database` at a socket. `scheme` is that
/// of a host. Errors: `InvalidUrl` for the option beside a host.
pub fn database(url: &StoreUrl, scheme: &str) -> Result<String> {
    match url.text("database") {
        option if is_unix(url) => Ok(option.unwrap_or_default().to_owned()),
        None => decoded(url.parts().path().trim_start_matches('/'), "database"),
        Some(_) => Err(invalid(format!("option database is for {scheme}+unix only"))
            .advice(format!("write {scheme}://user@host/database"))),
    }
}

/// `what` names the part of the URL in the error.
pub fn decoded(text: &str, what: &str) -> Result<String> {
    let text = percent_decode_str(text).decode_utf8().map(String::from);
    text.map_err(|_| invalid(format!("the {what} in the URL is not UTF-8")))
}

pub(super) fn file(path: &str, option: &str) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        let why = format!("the {option} {path} cannot be read");
        Error::new(ErrorKind::Denied, why).advice("check its path and permissions").source(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> StoreUrl {
        StoreUrl::parse(text).unwrap()
    }

    #[test]
    fn a_host_a_port_and_a_socket_are_told_apart() {
        let address = |text: &str| Address::parse(&parse(text), 7).unwrap();
        let tcp = |host: &str, port| Address::Tcp { host: host.into(), port };
        assert_eq!(address("x://db.example/"), tcp("db.example", 7));
        assert_eq!(address("x://u:p@[::1]:9/"), tcp("::1", 9));
        assert_eq!(
            address("x+unix:/run/my%20socket?user=u"),
            Address::Unix("/run/my socket".into())
        );
        assert_eq!(
            Address::all(&parse("postgres://a,b:8/"), 7).unwrap(),
            [tcp("a", 7), tcp("b", 8)]
        );
        for text in ["x:///nohost", "x+unix:relative", "x+unix://host/path", "redis://a,b:8/0"] {
            assert_eq!(
                Address::parse(&parse(text), 7).unwrap_err().kind(),
                &ErrorKind::InvalidUrl,
                "{text}"
            );
        }
    }

    #[test]
    fn a_login_is_decoded_and_comes_from_where_its_scheme_has_it() {
        let login =
            |text: &str| Login::parse(&parse(text)).map(|login| (login.user, login.password));
        let both = |user: &str, password: &str| (Some(user.to_owned()), Some(password.to_owned()));
        assert_eq!(login("x://shop:p%40ss@host").unwrap(), both("shop", "p@ss"));
        assert_eq!(login("x://host").unwrap(), (None, None));
        assert_eq!(login("x+unix:/s?user=shop").unwrap(), (Some("shop".into()), None));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "from a file \n").unwrap();
        let path = file.path().display();
        assert_eq!(
            login(&format!("x+unix:/s?user=u&password_file={path}")).unwrap(),
            both("u", "from a file ")
        );
        for text in [
            "x://host?user=u",
            "x://u:s3cret@host?password_file=/dev/null",
            "x://host?password_file=/nowhere",
        ] {
            let error = login(text).unwrap_err();
            assert!(!format!("{error:#}").contains("s3cret"), "{text}");
        }
    }
}
