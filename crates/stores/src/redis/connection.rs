//! One connection to the server: from a store URL to answers.
//!
//! The client crate has the commands, the values and the parser of answers. The socket is ours, so
//! that every request ends at its deadline: the crate bounds each read, of which a request may need
//! many.
//!
//! Invariants: a connection on which a request failed is never used again, because what comes next
//! on it may be the answer to something else; dropping one sends nothing (no QUIT, no TLS alert),
//! as a fork demands; a password leaves this module only to the server.

use std::io::Write;
use std::time::Instant;

use redis::{ConnectionLike, ErrorKind as Cause, Parser, RedisResult, Value};
use sessile_core::Result;

use super::failure::refused_login;
use super::fences::Lifted;
use crate::connections::key_value::PREFIX;
use crate::connections::options::{
    Address, CONNECT_TIMEOUT_MS, Login, PASSWORD_FILE, RESPONSE_TIMEOUT_MS, Timeouts, USER, is_unix,
};
use crate::connections::pool::AttemptFailure;
use crate::connections::stream::Stream;
use crate::connections::tls::{Channel, TLS_CA_FILE, TLS_CERT_FILE, TLS_KEY_FILE, Tls};
use crate::locks::token::LOCK_TTL_MS;
use crate::registry::{OptionHelp, option};
use crate::store_url::{StoreUrl, invalid};

pub const HELP: &[OptionHelp] = &[
    // The first three are about our own keys.
    LOCK_TTL_MS,
    PREFIX,
    option(
        "min_replicas",
        "a change is told as done when so many replicas have it (default 0: asks none)",
    ),
    USER,
    PASSWORD_FILE,
    option(
        "db",
        "number of the database, for redis+unix and redis+sentinel (redis:// takes it as the path)",
    ),
    CONNECT_TIMEOUT_MS,
    RESPONSE_TIMEOUT_MS,
    TLS_CA_FILE,
    TLS_CERT_FILE,
    TLS_KEY_FILE,
];

/// The options of a connection, independent of the owner of the keys.
pub const OF_CONNECTION: &[OptionHelp] = HELP.split_at(3).1;

/// Without `Debug`, which would print the password.
#[derive(Clone)]
pub struct Settings {
    /// Behind sentinels: of the first one.
    pub address: Address,
    login: Login,
    db: u32,
    tls: Option<Tls>,
    pub timeouts: Timeouts,
}

impl Settings {
    pub fn parse(url: &StoreUrl) -> Result<Settings> {
        let address = if is_behind_sentinels(url) || is_cluster(url) {
            Address::first(url, 6_379)?
        } else {
            Address::parse(url, 6_379)?
        };
        let tls = match &address {
            Address::Tcp { host, .. } if url.scheme().starts_with("rediss") => {
                Some(Tls::parse(url, host)?)
            }
            _ => Tls::refuse(url, "write rediss in place of redis").map(|()| None)?,
        };
        let login = Login::parse(url)?;
        if login.user.is_some() && login.password.is_none() {
            return Err(invalid("a user needs a password").advice("add it, or password_file=/path"));
        }
        let (db, timeouts) = (db(url)?, Timeouts::parse(url)?);
        Ok(Settings { address, login, db, tls, timeouts })
    }

    /// For another server, with the same login.
    pub fn at(&self, address: &Address) -> Result<Settings> {
        let tls = match (&self.tls, address) {
            (Some(tls), Address::Tcp { host, .. }) => Some(tls.to(host)?),
            (Some(_), _) => return Err(invalid("TLS is for servers with an address")),
            (None, _) => None,
        };
        Ok(Settings { address: address.clone(), tls, ..self.clone() })
    }
}

impl Settings {
    /// In database 0.
    pub(super) fn with_login(self, login: Login) -> Settings {
        Settings { login, db: 0, ..self }
    }
}

/// Whether the hosts of the URL lead to a cluster.
pub fn is_cluster(url: &StoreUrl) -> bool {
    url.scheme().ends_with("+cluster")
}

/// Whether the hosts of the URL are sentinels.
pub fn is_behind_sentinels(url: &StoreUrl) -> bool {
    url.scheme().ends_with("+sentinel")
}

pub struct Connection {
    pub address: Address,
    channel: Channel,
    parser: Parser,
    db: u32,
    failed: bool,
    /// Which counters of fences it has lifted.
    pub lifted: Lifted,
}

impl Connection {
    /// To the address of the settings.
    pub fn connect(settings: &Settings, deadline: Instant) -> RedisResult<Connection> {
        let Settings { address, timeouts, tls, db, .. } = settings;
        let mut channel = Channel::from(Stream::connect(address, timeouts, deadline)?);
        if let Some(tls) = tls {
            channel.encrypt(tls)?;
        }
        let (address, parser) = (address.clone(), Parser::new());
        let mut connection = Connection {
            address,
            channel,
            parser,
            db: *db,
            failed: false,
            lifted: Lifted::default(),
        };
        if connection.channel.is_probe() {
            connection.ask_for_a_byte()?;
        }
        connection.log_in(&settings.login)?;
        Ok(connection)
    }

    /// From now on its requests fail at this time.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.channel.set_deadline(deadline);
    }

    fn log_in(&mut self, Login { user, password }: &Login) -> RedisResult<()> {
        if let Some(password) = password {
            let mut login = redis::cmd("AUTH");
            login.arg(user).arg(password).exec(self).map_err(refused_login)?;
        }
        if self.db != 0 {
            redis::cmd("SELECT").arg(self.db).exec(self)?;
        }
        Ok(())
    }

    /// Any answer shows that the server is back, also that it wants a login first. Without it, the
    /// first answer may be that to a large payload, which takes its time.
    fn ask_for_a_byte(&mut self) -> RedisResult<()> {
        match redis::cmd("PING").exec(self) {
            Err(failure) if failure.breaks_connection() => Err(failure),
            _ => Ok(()),
        }
    }

    fn request(&mut self, commands: &[u8], answers: usize) -> RedisResult<Vec<Value>> {
        self.channel.write_all(commands)?;
        (0..answers).map(|_| self.parser.parse_value(&mut self.channel)).collect()
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command(&mut self, command: &[u8]) -> RedisResult<Value> {
        let answer = self.req_packed_commands(command, 0, 1)?.pop();
        answer.ok_or_else(|| (Cause::Client, "no answer").into())
    }

    /// The answers from `first` on.
    fn req_packed_commands(
        &mut self,
        commands: &[u8],
        first: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        if self.failed {
            return Err(std::io::Error::from(std::io::ErrorKind::NotConnected).into());
        }
        let answers = self.request(commands, first + count);
        self.failed |= answers.is_err();
        Ok(answers?.split_off(first))
    }

    fn get_db(&self) -> i64 {
        self.db.into()
    }

    fn check_connection(&mut self) -> bool {
        self.is_open()
    }

    fn is_open(&self) -> bool {
        !self.failed
    }
}

fn db(url: &StoreUrl) -> Result<u32> {
    let text = match (is_unix(url) || is_behind_sentinels(url), url.text("db")) {
        (true, text) => text.unwrap_or(""),
        (false, None) => url.parts().path().trim_start_matches('/'),
        (false, Some(_)) => {
            return Err(invalid("option db is for redis+unix and redis+sentinel")
                .advice("write redis://user:password@host:port/db"));
        }
    };
    let number = if text.is_empty() { Ok(0) } else { text.parse() };
    number.map_err(|_| invalid("the database must be a whole number").advice("write 0"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
                StoreUrl::parse(url).and_then(|url| Settings::parse(&url)).err().expect(url);
            assert!(matches!(error.kind(), ErrorKind::InvalidUrl | ErrorKind::Denied), "{url}");
            assert!(!format!("{error:#}").contains("s3cret"), "{url}");
        }
    }

    /// A program that went on after a failure got the answer to its first request for that to its
    /// second.
    #[test]
    fn a_connection_on_which_a_request_failed_gives_no_answer_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let url = StoreUrl::parse(&format!("redis+unix:{}", path.display())).unwrap();
        let settings = Settings::parse(&url).unwrap();
        let within = |ms| Instant::now() + Duration::from_millis(ms);
        let mut connection = Connection::connect(&settings, within(50)).unwrap();
        let get = |connection: &mut Connection| redis::cmd("GET").query::<String>(connection);
        assert!(get(&mut connection).is_err(), "no answer in time");
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"+late\r\n").unwrap();
        connection.set_deadline(within(10_000));
        assert!(get(&mut connection).is_err());
        assert!(!connection.is_open());
    }

    #[test]
    fn a_password_is_percent_decoded_and_a_database_read() {
        let url = StoreUrl::parse("redis://shop:p%40ss@[::1]:6380/3").unwrap();
        let settings = Settings::parse(&url).unwrap();
        assert_eq!(settings.login.password.as_deref(), Some("p@ss"));
        assert_eq!(settings.login.user.as_deref(), Some("shop"));
        assert_eq!(settings.db, 3);
        assert_eq!(settings.address, Address::Tcp { host: "::1".into(), port: 6380 });
    }
}
