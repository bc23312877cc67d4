//! A private server and a store on it.

#[path = "../support/mod.rs"]
pub mod support;

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sessile_core::{Clock, Sessions};
use sessile_fixtures::{PrivateDir, Proxy, Server, ServerKind, ServerOptions};
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
        thread_local! {
            static PRIMARY: RefCell<PathBuf> = RefCell::default();
        }
        let copy = |server: &Path, home: &Path| -> Vec<OsString> {
            // The program may be a link; the others are next to its target.
            let program = server.canonicalize().unwrap().with_file_name("pg_basebackup");
            let primary =
                PRIMARY.with_borrow(|dir| format!("host={} user=postgres", dir.display()));
            let words = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--pgdata"];
            let line = [program.into_os_string(), "--dbname".into(), primary.into()].into_iter();
            line.chain(words.map(OsString::from)).chain([home.join("data").into()]).collect()
        };
        PRIMARY.set(self.dir());
        let kind = ServerKind { prepare: Some(copy), ..*ServerKind::by_name("postgres").unwrap() };
        let kept = PrivateDir::on_disk().unwrap();
        let server = Server::start(&kind, kept.path(), options).unwrap();
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
        let output = Command::new("psql")
            .args([
                "-X",
                "-q",
                "-A",
                "-t",
                "-v",
                "ON_ERROR_STOP=1",
                "-U",
                "postgres",
                "-d",
                "postgres",
                "-c",
                sql,
            ])
            .arg("-h")
            .arg(self.dir())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
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
