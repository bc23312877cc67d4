//! The server: from a store URL to connections.
//!
//! Invariant: a password leaves this module only inside the client crate's own type. Dropping a
//! connection of this client closes this process's descriptors and sends nothing (no QUIT, no TLS
//! alert), as a fork demands.

use redis::io::tcp::TcpSettings;
use redis::{
    Client, ClientTlsConfig, Connection, ConnectionAddr, ConnectionLike, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, RedisResult, TlsCertificates,
};
use sessile_core::{Error, Result};

use super::failure::translate;
use crate::connections::key_value::PREFIX;
use crate::connections::options::{
    Address, CONNECT_TIMEOUT_MS, Login, PASSWORD_FILE, RESPONSE_TIMEOUT_MS, Timeouts, USER, is_unix,
};
use crate::connections::pool::PooledConnection;
use crate::connections::tls::{
    TLS_CA_FILE, TLS_CERT_FILE, TLS_KEY_FILE, TlsFiles, install_tls_provider, not_pem,
};
use crate::locks::token::LOCK_TTL_MS;
use crate::registry::{OptionHelp, option};
use crate::store_url::{StoreUrl, invalid};

pub const HELP: &[OptionHelp] = &[
    // The first two are about our own keys.
    LOCK_TTL_MS,
    PREFIX,
    USER,
    PASSWORD_FILE,
    option("db", "number of the database, for redis+unix (redis:// takes it as the path)"),
    CONNECT_TIMEOUT_MS,
    RESPONSE_TIMEOUT_MS,
    TLS_CA_FILE,
    TLS_CERT_FILE,
    TLS_KEY_FILE,
];

/// The options of a connection, independent of the owner of the keys.
pub const OF_CONNECTION: &[OptionHelp] = HELP.split_at(2).1;

pub struct ClientSettings {
    client: Client,
    pub timeouts: Timeouts,
}

impl ClientSettings {
    pub fn parse(url: &StoreUrl) -> Result<ClientSettings> {
        Ok(ClientSettings { timeouts: Timeouts::parse(url)?, client: client(url)? })
    }
}

impl PooledConnection for Connection {
    type Settings = ClientSettings;
    type Failure = RedisError;

    fn open(settings: &ClientSettings) -> RedisResult<Connection> {
        let Timeouts { connect, response } = settings.timeouts;
        let connection = settings.client.get_connection_with_timeout(connect)?;
        connection.set_read_timeout(Some(response))?;
        connection.set_write_timeout(Some(response))?;
        Ok(connection)
    }

    fn is_reusable(&self) -> bool {
        self.is_open()
    }

    fn translate(_: &ClientSettings, failure: RedisError) -> Error {
        translate(failure)
    }
}

fn client(url: &StoreUrl) -> Result<Client> {
    let encrypted = url.scheme() == "rediss";
    if !encrypted {
        TlsFiles::refuse(url, "write rediss://")?;
    }
    let address = match Address::parse(url, 6_379)? {
        Address::Unix(path) => ConnectionAddr::Unix(path),
        Address::Tcp { host, port } if encrypted => {
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
        }
        Address::Tcp { host, port } => ConnectionAddr::Tcp(host, port),
    };
    let info = address.into_connection_info().map_err(translate)?;
    let info = info
        .set_redis_settings(login(url)?)
        .set_tcp_settings(TcpSettings::default().set_nodelay(true));
    if !encrypted {
        return Client::open(info).map_err(translate);
    }
    install_tls_provider();
    let files = TlsFiles::parse(url)?;
    let client_tls =
        files.client.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
    Client::build_with_tls(info, TlsCertificates { client_tls, root_cert: files.authority })
        .map_err(not_pem)
}

fn login(url: &StoreUrl) -> Result<RedisConnectionInfo> {
    let Login { user, password } = Login::parse(url)?;
    if user.is_some() && password.is_none() {
        return Err(invalid("a user needs a password").advice("add it, or password_file=/path"));
    }
    let info = RedisConnectionInfo::default().set_skip_set_lib_name().set_db(db(url)?);
    let info = match password {
        Some(password) => info.set_password(password),
        None => info,
    };
    Ok(match user {
        Some(user) => info.set_username(user),
        None => info,
    })
}

fn db(url: &StoreUrl) -> Result<i64> {
    let text = match (is_unix(url), url.text("db")) {
        (true, text) => text.unwrap_or(""),
        (false, None) => url.parts().path().trim_start_matches('/'),
        (false, Some(_)) => {
            return Err(invalid("option db is for redis+unix only")
                .advice("write redis://user:password@host:port/db"));
        }
    };
    let number = if text.is_empty() { Ok(0) } else { text.parse::<u32>() };
    let malformed = |_| invalid("the database must be a whole number").advice("write 0");
    number.map(i64::from).map_err(malformed)
}

#[cfg(test)]
mod tests {
    use sessile_core::ErrorKind;

    use super::*;

    #[test]
    fn urls_that_contradict_themselves_are_refused_without_their_password() {
        for url in [
            "redis://u:s3cret@host/x",
            "redis://u:s3cret@host/-1",
            "redis://u:s3cret@host/?db=1",
            "redis://u:s3cret@host/?password_file=/dev/null",
            "redis://u:s3cret@host/?tls_ca_file=/dev/null",
            "rediss://u:s3cret@host/?tls_ca_file=/nowhere/ca.pem",
            "rediss://u:s3cret@host/?tls_cert_file=/dev/null",
            "redis:///0",
            "redis://u@host/",
            "redis+unix:relative",
            "redis+unix:/x?password_file=/nowhere",
        ] {
            let error =
                StoreUrl::parse(url).and_then(|url| ClientSettings::parse(&url)).err().expect(url);
            assert!(matches!(error.kind(), ErrorKind::InvalidUrl | ErrorKind::Denied), "{url}");
            assert!(!format!("{error:#}").contains("s3cret"), "{url}");
        }
    }

    #[test]
    fn a_password_is_percent_decoded_and_a_database_read() {
        let url = StoreUrl::parse("redis://shop:p%40ss@[::1]:6380/3").unwrap();
        let settings = ClientSettings::parse(&url).unwrap();
        let info = settings.client.get_connection_info();
        assert_eq!(info.redis_settings().password(), Some("p@ss"));
        assert_eq!(info.redis_settings().username(), Some("shop"));
        assert_eq!(info.redis_settings().db(), 3);
        assert_eq!(info.addr(), &ConnectionAddr::Tcp("::1".into(), 6380));
    }
}
