//! From a store URL to connection settings.
//!
//! Invariant: a password leaves this module only inside the client crate's own type; no error repeats it. What is common
//! to all servers is read by [`crate::connecting`].

use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, TlsCertificates};
use sessile_core::Result;

use super::failure::translate;
use crate::connecting::{self, Address, Login, Timeouts, TlsFiles, is_unix};
use crate::key_value;
use crate::registry::OptionHelp;
use crate::store_url::{StoreUrl, invalid};

/// The options of this store, for the registry.
pub(super) const HELP: &[OptionHelp] = &[
    // The first two are about our own keys.
    key_value::LOCK_TTL_MS,
    key_value::PREFIX,
    OptionHelp { name: "user", help: "user name, for redis+unix (redis:// takes it before the @)" },
    connecting::PASSWORD_FILE,
    OptionHelp { name: "db", help: "number of the database, for redis+unix (redis:// takes it as the path)" },
    connecting::CONNECT_TIMEOUT_MS,
    connecting::RESPONSE_TIMEOUT_MS,
    connecting::TLS_CA_FILE,
    connecting::TLS_CERT_FILE,
    connecting::TLS_KEY_FILE,
];

/// Those of them that a connection takes, whoever the keys belong to.
pub(super) const OF_CONNECTION: &[OptionHelp] = HELP.split_at(2).1;

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
        Options::with_prefix(url, key_value::prefix(url, PREFIX_BYTES_MAX)?)
    }

    /// The same with a prefix that was read elsewhere: that of another program has another form.
    pub(super) fn with_prefix(url: &StoreUrl, prefix: String) -> Result<Options> {
        let timeouts = Timeouts::parse(url)?;
        Ok(Options {
            connect_timeout: timeouts.connect,
            response_timeout: timeouts.response,
            lock_ttl: key_value::lock_ttl(url)?,
            prefix,
            client: client(url)?,
        })
    }
}

fn client(url: &StoreUrl) -> Result<Client> {
    let tls = url.scheme() == "rediss";
    if !tls {
        TlsFiles::refuse(url, "write rediss://")?;
    }
    let address = match Address::parse(url, 6_379)? {
        Address::Unix(path) => ConnectionAddr::Unix(path),
        Address::Tcp { host, port } if tls => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
        Address::Tcp { host, port } => ConnectionAddr::Tcp(host, port),
    };
    let settings = TcpSettings::default().set_nodelay(true);
    let info = address.into_connection_info().map_err(translate)?;
    let info = info.set_redis_settings(settings_of_login(url)?).set_tcp_settings(settings);
    if !tls {
        return Client::open(info).map_err(translate);
    }
    connecting::install_tls_provider();
    let files = TlsFiles::parse(url)?;
    let client_tls = files.client.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
    Client::build_with_tls(info, TlsCertificates { client_tls, root_cert: files.authority })
        .map_err(|error| invalid("a TLS file is not usable PEM").advice("check the tls_ options").source(error))
}

fn settings_of_login(url: &StoreUrl) -> Result<RedisConnectionInfo> {
    let Login { user, password } = Login::parse(url)?;
    if user.is_some() && password.is_none() {
        return Err(invalid("a user needs a password").advice("add it, or password_file=/path"));
    }
    let mut info = RedisConnectionInfo::default().set_skip_set_lib_name().set_db(db(url)?);
    if let Some(user) = user {
        info = info.set_username(user);
    }
    if let Some(password) = password {
        info = info.set_password(password);
    }
    Ok(info)
}

fn db(url: &StoreUrl) -> Result<i64> {
    let unix = is_unix(url);
    if !unix && url.text("db").is_some() {
        return Err(invalid("option db is for redis+unix only").advice("write redis://user:password@host:port/db"));
    }
    let text = if unix { url.text("db").unwrap_or("") } else { url.parts().path().trim_start_matches('/') };
    if text.is_empty() {
        return Ok(0);
    }
    let number = text.parse::<u32>().map_err(|_| invalid("the database must be a whole number").advice("write 0"))?;
    Ok(i64::from(number))
}

#[cfg(test)]
mod tests {
    use sessile_core::ErrorKind;

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
