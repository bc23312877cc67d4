//! From a store URL to connection settings.
//!
//! Invariant: no error repeats a password, and nothing here prints it.

use sessile_core::Result;

use crate::connections::hosts::Hosts;
use crate::connections::options::{
    Address, CLEAR_PASSWORD, CONNECT_TIMEOUT_MS, DATABASE, Login, PASSWORD_FILE,
    RESPONSE_TIMEOUT_MS, Timeouts, USER, database, is_unix,
};
use crate::connections::tls::{Host, TLS, TLS_CA_FILE, TLS_CERT_FILE, TLS_KEY_FILE};
use crate::locks::host;
use crate::registry::{OptionHelp, option};
use crate::store_url::{StoreUrl, invalid};

pub const HELP: &[OptionHelp] = &[
    option("table", "name of the table (default sessile); its companions begin with the same word"),
    option("schema", "schema of the table (default: the first of the user's search_path)"),
    TLS,
    USER,
    DATABASE,
    PASSWORD_FILE,
    CLEAR_PASSWORD,
    CONNECT_TIMEOUT_MS,
    RESPONSE_TIMEOUT_MS,
    TLS_CA_FILE,
    TLS_CERT_FILE,
    TLS_KEY_FILE,
];

const DEFAULT_PORT: u16 = 5_432;
/// The server cuts names at 63 bytes; the companions of the table have longer ones.
const NAME_BYTES_MAX: usize = 40;

/// Settings of one opened store. Without `Debug`, which would print the password.
pub struct Options {
    pub hosts: Hosts<Host>,
    pub timeouts: Timeouts,
    pub user: String,
    pub password: Option<String>,
    /// Whether the password itself may be sent: over TLS, to a unix socket, or because the URL says
    /// so.
    pub may_tell_password: bool,
    /// The server takes the name of the user when there is none.
    pub database: Option<String>,
    pub table: String,
    pub schema: Option<String>,
}

impl Options {
    pub fn parse(url: &StoreUrl) -> Result<Options> {
        let hosts = hosts(url)?;
        let has_tls = hosts.iter().any(|host| host.tls.is_some());
        let Login { user, password } = Login::parse(url)?;
        let advice =
            "write postgres://user@host/database or postgres+unix:/path?user=name&database=name";
        Ok(Options {
            timeouts: Timeouts::parse(url)?,
            table: name(url, "table")?.unwrap_or_else(|| "sessile".to_owned()),
            schema: name(url, "schema")?,
            database: Some(database(url, "postgres")?).filter(|name| !name.is_empty()),
            user: user.ok_or_else(|| invalid("the URL names no user").advice(advice))?,
            password,
            may_tell_password: has_tls || is_unix(url) || url.switch(CLEAR_PASSWORD.name)?,
            hosts: Hosts::new(hosts),
        })
    }

    /// `sessile PID HOST`, by which others name the holder of a lock. The server cuts it at 63
    /// bytes.
    pub fn name_of_this_process() -> String {
        format!("sessile {} {}", std::process::id(), host::name())
    }
}

fn hosts(url: &StoreUrl) -> Result<Vec<Host>> {
    let mut hosts = Host::all(url, DEFAULT_PORT)?;
    for host in &mut hosts {
        if let Address::Unix(path) = &mut host.address
            && path.is_dir()
        {
            // Other clients ask for the directory.
            path.push(format!(".s.PGSQL.{DEFAULT_PORT}"));
        }
    }
    Ok(hosts)
}

/// An identifier that needs no quotes, so that it reads the same in a shell.
fn name(url: &StoreUrl, option: &str) -> Result<Option<String>> {
    let Some(name) = url.text(option) else { return Ok(None) };
    let first = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let all = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !first || !all || name.len() > NAME_BYTES_MAX {
        return Err(invalid(format!(
            "option {option} must be 1 to {NAME_BYTES_MAX} characters of a-z, 0-9 and _"
        )));
    }
    Ok(Some(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: &str) -> Result<Options> {
        StoreUrl::parse(url).and_then(|url| Options::parse(&url))
    }

    fn addresses(url: &str) -> Vec<Address> {
        let hosts = hosts(&StoreUrl::parse(url).unwrap()).unwrap();
        hosts.into_iter().map(|host| host.address).collect()
    }

    #[test]
    fn urls_that_contradict_themselves_are_refused_without_their_password() {
        for url in [
            "postgres://u:s3cret@host/x?table=A",
            "postgres://u:s3cret@host/x?table=a%20b",
            "postgres://u:s3cret@host/x?schema=1a",
            "postgres://u:s3cret@host/x?database=y",
            "postgres://u:s3cret@host/x?tls=maybe",
            "postgres://u:s3cret@host/x?tls_ca_file=/dev/null",
            "postgres://u:s3cret@host/x?tls=on&tls_ca_file=/dev/null",
            "postgres://u:s3cret@host/x?tls=on&tls_cert_file=/dev/null",
            "postgres://u:s3cret@host/x?connect_timeout_ms=0",
            "postgres://host/x",
            "postgres+unix:/run/s?database=x",
            "postgres+unix:/run/s?user=u&tls=on",
            "postgres+unix:relative?user=u",
        ] {
            let error = options(url).err().map(|error| format!("{error:#} {error:?}"));
            assert!(
                error.as_ref().is_some_and(|error| !error.contains("s3cret")),
                "{url}: {error:?}"
            );
        }
    }

    #[test]
    fn a_login_is_decoded_and_a_directory_of_sockets_will_do() {
        let url = "postgresql://shop:p%40ss@[::1]:6543,b/my%20shop?table=carts&schema=web";
        let parsed = options(url).unwrap();
        let tcp = |host: &str, port| Address::Tcp { host: host.into(), port };
        assert_eq!(addresses(url), [tcp("::1", 6_543), tcp("b", 5_432)]);
        assert!(parsed.hosts.failover().is_some());
        assert_eq!(parsed.password.as_deref(), Some("p@ss"));
        assert_eq!((parsed.user.as_str(), parsed.database.as_deref()), ("shop", Some("my shop")));
        assert_eq!((parsed.table.as_str(), parsed.schema.as_deref()), ("carts", Some("web")));
        let url = "postgres+unix:/tmp?user=shop";
        assert_eq!(addresses(url), [Address::Unix("/tmp/.s.PGSQL.5432".into())]);
        assert!(options(url).unwrap().hosts.failover().is_none());
    }
}
