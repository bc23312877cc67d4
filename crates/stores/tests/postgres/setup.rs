//! A private server and a store on it.

#[path = "../support/mod.rs"]
pub mod support;

use std::path::PathBuf;
use std::time::Duration;

use sessile_core::{Clock, Sessions};
use sessile_fixtures::{PrivateDir, Proxy, Server, ServerOptions, psql, start_standby};
use sessile_stores::Context;

pub use self::support::patience::until;
use self::support::server;
pub use self::support::{key, ttl};

pub const WAIT: Duration = Duration::from_secs(60);

/// A private server in a directory of its own.
pub struct Private {
    pub server: Server,
    _kept: PrivateDir,
}

impl Private {
    /// `None`, said on stderr, when no server is installed. Under CI that is a failure.
    pub fn start() -> Option<Private> {
        Private::start_with(ServerOptions::default())
    }

    pub fn start_with(options: ServerOptions) -> Option<Private> {
        let kept = PrivateDir::on_disk().unwrap();
        let server = server::start("postgres", &kept, &options)?;
        Some(Private { server, _kept: kept })
    }

    /// A hot standby, which gets all that the primary does.
    pub fn start_standby(&self, options: &ServerOptions) -> Private {
        let primary = format!("host={} user=postgres", self.dir().display());
        let kept = PrivateDir::on_disk().unwrap();
        let server = start_standby(&primary, kept.path(), options).unwrap();
        Private { server, _kept: kept }
    }

    pub fn url(&self) -> String {
        format!("postgres+unix:{}?user=postgres&database=postgres", self.server.socket().display())
    }

    pub fn proxy(&self) -> Proxy {
        Proxy::before(self.server.socket()).unwrap()
    }

    pub fn open(&self) -> Sessions {
        self.open_at(Clock::system())
    }

    pub fn open_at(&self, clock: Clock) -> Sessions {
        sessile_stores::open(&self.url(), &Context { clock }).unwrap()
    }

    /// What an administrator's shell says: the rows, columns divided by `|`.
    pub fn sql(&self, sql: &str) -> Vec<String> {
        psql(&self.server, sql).unwrap()
    }

    pub fn number(&self, sql: &str) -> i64 {
        self.sql(sql)[0].parse().unwrap()
    }

    pub fn dir(&self) -> PathBuf {
        self.server.socket().parent().unwrap().to_owned()
    }

    /// Ends the sessions of all stores, as an administrator or a crash of a neighbour would.
    pub fn cut(&self) {
        self.sql(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name \
             LIKE 'sessile %'",
        );
    }
}
