//! A private server and a store on it.

#[path = "../support/mod.rs"]
pub mod support;

use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use sessile_core::{Clock, Durability, Error, ErrorKind, Sessions};
use sessile_fixtures::{PrivateDir, Proxy, Server, ServerOptions};
use sessile_stores::Context;

pub use self::support::patience::until;
use self::support::server;
pub use self::support::{key, payload_of, ttl};

pub const WAIT: Duration = Duration::from_secs(60);

/// A private server in a directory of its own.
pub struct Private {
    pub server: Server,
    _kept: PrivateDir,
}

impl Private {
    /// `None`, said on stderr, when no server is installed. Under CI that is a failure.
    pub fn start() -> Option<Private> {
        Private::start_with(&[])
    }

    pub fn start_with(extra: &[&str]) -> Option<Private> {
        Private::start_durable(Durability::None, extra)
    }

    pub fn start_at(durability: Durability) -> Option<Private> {
        Private::start_durable(durability, &[])
    }

    pub fn start_durable(durability: Durability, extra: &[&str]) -> Option<Private> {
        let extra = extra.iter().map(Into::into).collect();
        let options = ServerOptions { durability, extra, ..ServerOptions::default() };
        let kept = PrivateDir::on_disk().unwrap();
        let server = server::start("mariadbd", &kept, &options)?;
        Some(Private { server, _kept: kept })
    }

    pub fn url(&self, options: &str) -> String {
        format!("mysql+unix:{}?user=root&database=test{options}", self.server.socket().display())
    }

    pub fn proxy(&self) -> Proxy {
        Proxy::before(self.server.socket()).unwrap()
    }

    pub fn open(&self, options: &str) -> Sessions {
        open(&self.url(options)).unwrap()
    }

    pub fn open_at(&self, clock: Clock) -> Sessions {
        sessile_stores::open(&self.url(""), &Context { clock }).unwrap()
    }

    /// A plain connection, to look at the server or to disturb it.
    pub fn raw(&self) -> Conn {
        self.connect().unwrap()
    }

    /// As [`Private::raw`], of a server that may be out of order.
    pub fn connect(&self) -> Result<Conn, mysql::Error> {
        let settings = OptsBuilder::new()
            .socket(self.server.socket().to_str())
            .user(Some("root"))
            .db_name(Some("test"));
        Conn::new(settings)
    }

    pub fn run(&self, statements: &str) {
        self.raw().query_drop(statements).unwrap();
    }

    /// The first column of the first row.
    pub fn number(&self, question: &str) -> u64 {
        self.raw().query_first(question).unwrap().unwrap_or(0)
    }

    /// As [`Private::number`], a text.
    pub fn text(&self, question: &str) -> String {
        self.raw().query_first(question).unwrap().unwrap_or_default()
    }

    /// A status variable; empty if there is none of this name.
    pub fn status(&self, name: &str) -> String {
        let row: Option<(String, String)> =
            self.raw().query_first(format!("SHOW GLOBAL STATUS LIKE '{name}'")).unwrap();
        row.unwrap_or_default().1
    }

    /// What a replica says of its replication.
    pub fn slave(&self, name: &str) -> String {
        let row: Option<mysql::Row> = self.raw().query_first("SHOW SLAVE STATUS").unwrap();
        row.and_then(|row| row.get(name)).unwrap_or_default()
    }

    /// The connections that wait for a named lock.
    pub fn waiters(&self) -> u64 {
        self.number("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock'")
    }

    /// Ends every connection but the one that does it.
    pub fn cut(&self) {
        let mut raw = self.raw();
        let list = "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND \
                    USER = 'root'";
        let ids: Vec<u64> = raw.query(list).unwrap();
        ids.iter().for_each(|id| {
            drop(raw.query_drop(format!(
                "KILL \
                                                              {id}"
            )))
        }); // it may have gone by itself
    }
}

pub fn open(url: &str) -> Result<Sessions, Error> {
    sessile_stores::open(url, &Context::default())
}

/// What a URL is refused with; the text never has the password `s3cret`.
pub fn refusal(url: &str) -> (ErrorKind, String) {
    let error = open(url).unwrap_err();
    let shown = format!("{error:#}");
    assert!(!shown.contains("s3cret") && !format!("{error:?}").contains("s3cret"), "{shown}");
    (error.kind().clone(), shown)
}
