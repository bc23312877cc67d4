//! A private server and a store on it.

#[path = "../support/mod.rs"]
pub mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use sessile_core::{Clock, Sessions};
use sessile_fixtures::{PrivateDir, Server, ServerOptions};
use sessile_stores::Context;

use self::support::server;
pub use self::support::server::free_port;
pub use self::support::{key, payload_of, ttl};

pub const WAIT: Duration = Duration::from_secs(60);

/// A private server in a directory of its own.
pub struct Private {
    pub server: Server,
    pub kept: PrivateDir,
}

impl Private {
    /// `None`, said on stderr, when no server is installed. Under CI that is a failure.
    pub fn start(extra: &[&str]) -> Option<Private> {
        Private::start_in(PrivateDir::on_disk().unwrap(), extra)
    }

    pub fn start_in(kept: PrivateDir, extra: &[&str]) -> Option<Private> {
        let extra = extra.iter().map(std::ffi::OsString::from).collect();
        let server = server::start(
            "memcached",
            &kept,
            &ServerOptions { extra, ..ServerOptions::default() },
        )?;
        Some(Private { server, kept })
    }

    pub fn open(&self) -> Sessions {
        open(self.server.socket(), "").unwrap()
    }

    pub fn open_at(&self, clock: Clock) -> Sessions {
        let url = format!("memcached+unix:{}", self.server.socket().display());
        sessile_stores::open(&url, &Context { clock }).unwrap()
    }

    /// Says something to the server as it is; the first line of the answer.
    pub fn say(&self, command: &str) -> String {
        raw(self.server.socket(), command)
    }

    pub fn statistic(&self, name: &str) -> u64 {
        let mut stream = UnixStream::connect(self.server.socket()).unwrap();
        stream.write_all(b"stats\r\nquit\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let line =
            text.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} "))).unwrap();
        line.parse().unwrap()
    }
}

pub fn raw(socket: &Path, command: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

pub fn open(socket: &Path, options: &str) -> Result<Sessions, sessile_core::Error> {
    open_url(&format!("memcached+unix:{}?{options}", socket.display()))
}

pub fn open_url(url: &str) -> Result<Sessions, sessile_core::Error> {
    sessile_stores::open(url, &Context { clock: Clock::system() })
}
