//! A private server and a store on it.

#[path = "../support/mod.rs"]
pub mod support;

use std::path::PathBuf;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use sessile_core::{Clock, Sessions};
use sessile_fixtures::{PrivateDir, Server, ServerOptions};
use sessile_stores::Context;

pub use self::support::patience::until;
use self::support::server;
pub use self::support::{key, ttl};

pub const WAIT: Duration = Duration::from_secs(60);

/// Shared by tests, exclusive to those that measure: eight processes of a neighbour are not the
/// store's slowness.
static MACHINE: RwLock<()> = RwLock::new(());

enum Turn {
    Shared { _guard: RwLockReadGuard<'static, ()> },
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

/// A private server in a directory of its own.
pub struct Private {
    pub server: Server,
    pub dir: PathBuf,
    _kept: PrivateDir,
    _turn: Turn,
}

impl Private {
    /// `None`, said on stderr, when no server is installed. Under CI that is a failure.
    pub fn start() -> Option<Private> {
        Private::start_with(&[])
    }

    pub fn start_with(extra: &[&str]) -> Option<Private> {
        let turn = Turn::Shared { _guard: MACHINE.read().unwrap_or_else(PoisonError::into_inner) };
        Private::start_in(turn, extra)
    }

    /// While no other test of this program runs.
    pub fn start_alone() -> Option<Private> {
        let turn = Turn::Alone { _guard: MACHINE.write().unwrap_or_else(PoisonError::into_inner) };
        Private::start_in(turn, &[])
    }

    fn start_in(turn: Turn, extra: &[&str]) -> Option<Private> {
        let kept = PrivateDir::on_disk().unwrap();
        let dir = kept.path().to_owned();
        let extra =
            extra.iter().map(|arg| arg.replace("{dir}", dir.to_str().unwrap()).into()).collect();
        let server = server::start(
            "redis-server",
            &kept,
            &ServerOptions { extra, ..ServerOptions::default() },
        )?;
        Some(Private { server, dir, _kept: kept, _turn: turn })
    }

    pub fn url(&self, options: &str) -> String {
        format!("redis+unix:{}?{options}", self.server.socket().display())
    }

    pub fn open(&self, options: &str) -> Sessions {
        self.open_at(options, Clock::system())
    }

    pub fn open_at(&self, options: &str, clock: Clock) -> Sessions {
        sessile_stores::open(&self.url(options), &Context { clock }).unwrap()
    }

    /// A plain connection, to look at the server or to disturb it.
    pub fn raw(&self) -> redis::Connection {
        let client =
            redis::Client::open(format!("unix:{}", self.server.socket().display())).unwrap();
        client.get_connection().unwrap()
    }

    /// Makes the server a replica, of nobody who answers.
    pub fn demote(&self) {
        let primary = ("127.0.0.1", server::free_port());
        let _: () = redis::cmd("REPLICAOF").arg(primary).query(&mut self.raw()).unwrap();
    }

    /// How often clients asked for something since the statistics were reset.
    pub fn commands(&self) -> std::collections::BTreeMap<String, u64> {
        let text: String = redis::cmd("INFO").arg("commandstats").query(&mut self.raw()).unwrap();
        let stats = text.lines().filter_map(|line| line.trim().strip_prefix("cmdstat_"));
        let pairs = stats.filter_map(|line| {
            let (name, rest) = line.split_once(":calls=")?;
            Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
        });
        pairs.collect()
    }
}
