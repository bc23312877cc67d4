//! From a store URL to connection settings.
//!
//! Invariant: a password leaves this module only inside the client crate's own type; no error repeats it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use redis::io::tcp::TcpSettings;
use redis::{Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, TlsCertificates};
use sessile_core::{Error, ErrorKind, Limits, Result};

use super::failure::translate;
use crate::registry::OptionHelp;
use crate::store_url::{StoreUrl, invalid};

/// The options of this store, for the registry.
pub(super) const HELP: &[OptionHelp] = &[
    OptionHelp { name: "lock_ttl_ms", help: "a lock whose holder died is free after this (default 60000)" },
    OptionHelp { name: "prefix", help: "first part of every key name (default sessile)" },
    OptionHelp { name: "user", help: "user name, for redis+unix (redis:// takes it before the @)" },
    OptionHelp { name: "password_file", help: "file that holds the password; keeps it out of the URL" },
    OptionHelp { name: "db", help: "number of the database, for redis+unix (redis:// takes it as the path)" },
    OptionHelp { name: "connect_timeout_ms", help: "longest time for one connection attempt (default 1000)" },
    OptionHelp { name: "response_timeout_ms", help: "longest time for one answer (default 5000)" },
    OptionHelp { name: "tls_ca_file", help: "PEM of the authority that signed the server (default: the system's)" },
    OptionHelp { name: "tls_cert_file", help: "PEM of a client certificate; needs tls_key_file" },
    OptionHelp { name: "tls_key_file", help: "PEM of the client's key" },
];

const PREFIX_BYTES_MAX: usize = 64;

/// Settings of one opened store.
pub(super) struct Options {
    pub(super) client: Client,
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
    pub(super) lock_ttl: Duration,
    pub(super) prefix: String,
}

impl Options {
    /// # Errors
    ///
    /// `InvalidUrl` for what contradicts itself or is malformed, `Denied` for a file that cannot be read.
    pub(super) fn parse(url: &StoreUrl) -> Result<Options> {
        let hour_ms = u64::try_from(Limits::TOMBSTONE_TTL.as_millis()).unwrap_or(u64::MAX);
        let millis = |name, default, range| url.number(name, default, range).map(Duration::from_millis);
        Ok(Options {
            connect_timeout: millis("connect_timeout_ms", 1_000, 1..=60_000)?,
            response_timeout: millis("response_timeout_ms", 5_000, 1..=600_000)?,
            lock_ttl: millis("lock_ttl_ms", 60_000, 10..=hour_ms)?,
            prefix: prefix(url)?,
            client: client(url)?,
        })
    }
}

fn prefix(url: &StoreUrl) -> Result<String> {
    let prefix = url.text("prefix").unwrap_or("sessile");
    // No braces (they would move the hash tag) and no glob characters (they would widen a listing).
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':');
    if prefix.is_empty() || prefix.len() > PREFIX_BYTES_MAX || !prefix.bytes().all(allowed) {
        return Err(invalid("option prefix must be 1 to 64 characters of A-Z a-z 0-9 _ - . :"));
    }
    Ok(prefix.to_owned())
}

fn client(url: &StoreUrl) -> Result<Client> {
    let tls = url.scheme() == "rediss";
    let tls_options = ["tls_ca_file", "tls_cert_file", "tls_key_file"];
    if !tls && let Some(name) = tls_options.into_iter().find(|name| url.text(name).is_some()) {
        return Err(invalid(format!("option {name} needs TLS")).advice("write rediss://"));
    }
    let address = address(url)?;
    let settings = TcpSettings::default().set_nodelay(true);
    let info = address.into_connection_info().map_err(translate)?;
    let info = info.set_redis_settings(login(url)?).set_tcp_settings(settings);
    if !tls {
        return Client::open(info).map_err(translate);
    }
    // Named here and not left to the features of whoever links us: with two providers in one program,
    // rustls refuses to choose. If the program has installed its own, that one is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client_tls = match (pem(url, "tls_cert_file")?, pem(url, "tls_key_file")?) {
        (Some(client_cert), Some(client_key)) => Some(ClientTlsConfig { client_cert, client_key }),
        (None, None) => None,
        _ => return Err(invalid("tls_cert_file and tls_key_file go together")),
    };
    let certificates = TlsCertificates { client_tls, root_cert: pem(url, "tls_ca_file")? };
    Client::build_with_tls(info, certificates)
        .map_err(|error| invalid("a TLS file is not usable PEM").advice("check the tls_ options").source(error))
}

fn address(url: &StoreUrl) -> Result<ConnectionAddr> {
    if url.scheme() == "redis+unix" {
        return Ok(ConnectionAddr::Unix(url.path()?));
    }
    let host = match url.parts().host() {
        // Without the brackets that an address of version 6 has in a URL.
        Some(url::Host::Ipv6(address)) => address.to_string(),
        Some(host) if !host.to_string().is_empty() => host.to_string(),
        _ => return Err(invalid("the URL names no host").advice("write redis://host:6379/0 or redis+unix:/path")),
    };
    let port = url.parts().port().unwrap_or(6_379);
    Ok(match url.scheme() {
        "rediss" => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
        _ => ConnectionAddr::Tcp(host, port),
    })
}

fn login(url: &StoreUrl) -> Result<RedisConnectionInfo> {
    let unix = url.scheme() == "redis+unix";
    let decoded = |text: &str, what: &str| {
        let text = percent_decode_str(text).decode_utf8().map(String::from);
        text.map_err(|_| invalid(format!("the {what} in the URL is not UTF-8")))
    };
    let (mut user, mut password) = (url.text("user").map(str::to_owned), None);
    if !unix {
        if user.is_some() || url.text("db").is_some() {
            return Err(invalid("options user and db are for redis+unix only")
                .advice("write redis://user:password@host:port/db"));
        }
        user = Some(decoded(url.parts().username(), "user name")?).filter(|user| !user.is_empty());
        password = url.parts().password().map(|password| decoded(password, "password")).transpose()?;
    }
    if let Some(path) = url.text("password_file") {
        if password.is_some() {
            return Err(invalid("the URL has both a password and a password_file").advice("leave one out"));
        }
        let text = String::from_utf8(file(Path::new(path), "password_file")?)
            .map_err(|_| invalid("the password_file is not UTF-8"))?;
        password = Some(text.trim_end_matches(['\r', '\n']).to_owned());
    }
    if user.is_some() && password.is_none() {
        return Err(invalid("a user needs a password").advice("add it, or password_file=/path"));
    }
    let mut info = RedisConnectionInfo::default().set_skip_set_lib_name().set_db(db(url, unix)?);
    if let Some(user) = user {
        info = info.set_username(user);
    }
    if let Some(password) = password {
        info = info.set_password(password);
    }
    Ok(info)
}

fn db(url: &StoreUrl, unix: bool) -> Result<i64> {
    let text = if unix { url.text("db").unwrap_or("") } else { url.parts().path().trim_start_matches('/') };
    if text.is_empty() {
        return Ok(0);
    }
    let number = text.parse::<u32>().map_err(|_| invalid("the database must be a whole number").advice("write 0"))?;
    Ok(i64::from(number))
}

fn pem(url: &StoreUrl, name: &str) -> Result<Option<Vec<u8>>> {
    url.text(name).map(|path| file(&PathBuf::from(path), name)).transpose()
}

fn file(path: &Path, option: &str) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        let why = format!("the {option} {} cannot be read", path.display());
        Error::new(ErrorKind::Denied, why).advice("check its path and permissions").source(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        let error = StoreUrl::parse(url).and_then(|url| Options::parse(&url)).err().expect("refused");
        assert!(matches!(error.kind(), ErrorKind::InvalidUrl | ErrorKind::Denied));
        format!("{error:#}")
    }

    #[test]
    fn urls_that_contradict_themselves_are_refused_without_their_password() {
        for url in [
            "redis://u:s3cret@host/x",
            "redis://u:s3cret@host/-1",
            "redis://u:s3cret@host/?prefix=a*",
            "redis://u:s3cret@host/?db=1",
            "redis://u:s3cret@host/?lock_ttl_ms=0",
            "redis://u:s3cret@host/?password_file=/dev/null",
            "redis://u:s3cret@host/?tls_ca_file=/dev/null",
            "rediss://u:s3cret@host/?tls_ca_file=/nowhere/ca.pem",
            "rediss://u:s3cret@host/?tls_cert_file=/dev/null",
            "redis:///0",
            "redis://u@host/",
            "redis+unix:relative",
            "redis+unix:/x?password_file=/nowhere",
        ] {
            assert!(!refused(url).contains("s3cret"), "{url}");
        }
    }

    #[test]
    fn a_password_is_percent_decoded_and_a_database_read() {
        let url = StoreUrl::parse("redis://shop:p%40ss@[::1]:6380/3").unwrap();
        let options = Options::parse(&url).unwrap();
        let info = options.client.get_connection_info();
        assert_eq!(info.redis_settings().password(), Some("p@ss"));
        assert_eq!(info.redis_settings().username(), Some("shop"));
        assert_eq!(info.redis_settings().db(), 3);
        assert_eq!(info.addr(), &ConnectionAddr::Tcp("::1".into(), 6380));
    }
}
