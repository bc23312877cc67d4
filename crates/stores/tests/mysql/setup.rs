//! A private server and a store on it.

use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use sessile_core::{Clock, Durability, Error, ErrorKind, Key, Sessions, Ttl};
use sessile_fixtures::{PrivateDir, Server, ServerKind, ServerOptions, StartError};
use sessile_stores::Context;

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
        let extra = extra.iter().map(Into::into).collect();
        Private::start_as(&ServerOptions { extra, ..ServerOptions::default() })
    }

    pub fn start_at(durability: Durability) -> Option<Private> {
        Private::start_as(&ServerOptions { durability, ..ServerOptions::default() })
    }

    fn start_as(options: &ServerOptions) -> Option<Private> {
        let kept = PrivateDir::on_disk().unwrap();
        let kind = ServerKind::by_name("mariadbd").unwrap();
        match kind.start(kept.path(), options) {
            Ok(server) => Some(Private { server, _kept: kept }),
            Err(StartError::Missing { .. }) if std::env::var_os("CI").is_none() => {
                eprintln!("SKIPPED: mariadbd is not installed");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    pub fn url(&self, options: &str) -> String {
        format!("mysql+unix:{}?user=root&database=test{options}", self.server.socket().display())
    }

    pub fn open(&self, options: &str) -> Sessions {
        open(&self.url(options)).unwrap()
    }

    pub fn open_at(&self, clock: Clock) -> Sessions {
        sessile_stores::open(&self.url(""), &Context { clock }).unwrap()
    }

    /// A plain connection, to look at the server or to disturb it.
    pub fn raw(&self) -> Conn {
        let settings =
            OptsBuilder::new().socket(self.server.socket().to_str()).user(Some("root")).db_name(Some("test"));
        Conn::new(settings).unwrap()
    }

    pub fn run(&self, statements: &str) {
        self.raw().query_drop(statements).unwrap();
    }

    /// The first column of the first row.
    pub fn number(&self, question: &str) -> u64 {
        self.raw().query_first(question).unwrap().unwrap_or(0)
    }

    /// The connections that wait for a named lock.
    pub fn waiters(&self) -> u64 {
        self.number("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock'")
    }

    /// Ends every connection but the one that does it.
    pub fn cut(&self) {
        let mut raw = self.raw();
        let list = "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND USER = 'root'";
        let ids: Vec<u64> = raw.query(list).unwrap();
        ids.iter().for_each(|id| drop(raw.query_drop(format!("KILL {id}")))); // it may have gone by itself
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

pub fn key(id: &str) -> Key {
    Key::session(id).unwrap()
}

pub fn ttl() -> Ttl {
    Ttl::sliding(Duration::from_secs(1_440)).unwrap()
}

/// The payload of a session.
pub fn stored(store: &Sessions, id: &str) -> Option<Vec<u8>> {
    store.peek(&key(id)).unwrap().map(|record| record.payload)
}

/// Polls until it is true; the deadline is far beyond what a loaded machine needs.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT;
    while !done() {
        assert!(Instant::now() < deadline, "not within {WAIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
