//! Private servers, and a walk to its end.

#[path = "../support/mod.rs"]
pub mod support;

use sessile_core::{Clock, Result};
use sessile_fixtures::{PrivateDir, Server, ServerOptions};
use sessile_stores::layouts::{self, ScannedEntry, Sizes, Walk};

use self::support::server;

/// A private server in a directory of its own.
pub struct Private {
    pub server: Server,
    _kept: PrivateDir,
}

impl Private {
    /// `None`, said on stderr, when no server is installed. Under CI that is a failure.
    pub fn start(name: &str, extra: &[&str]) -> Option<Private> {
        let kept = PrivateDir::on_disk().unwrap();
        let extra = extra.iter().map(Into::into).collect();
        let server =
            server::start(name, &kept, &ServerOptions { extra, ..ServerOptions::default() })?;
        Some(Private { server, _kept: kept })
    }
}

/// All that a walk in pages of this size sees, in no order, and what the sizes are of.
pub fn walked(url: &str, page: usize) -> (Vec<ScannedEntry>, Sizes) {
    let (_, mut walk) =
        layouts::open(url, &Clock::system()).unwrap_or_else(|error| panic!("{url}: {error:#}"));
    let mut seen = Vec::new();
    for _ in 0..10_000 {
        let mut shown = 0;
        let more = walk.page(page, &mut |entry| {
            shown += 1;
            seen.push(entry);
        });
        if !more.unwrap_or_else(|error| panic!("{url}: {error:#}")) {
            assert!(!format!("{seen:?}").contains("secret"), "an id is shown");
            return (seen, walk.sizes());
        }
    }
    panic!("{url} has no end in pages of {page}");
}

pub fn refused(url: &str) -> String {
    why(url, layouts::open(url, &Clock::system()))
}

pub fn refused_copy(url: &str) -> String {
    why(url, layouts::open_to_copy(url, &Clock::system()))
}

fn why(url: &str, opened: Result<(String, Box<dyn Walk>)>) -> String {
    match opened {
        Ok(_) => panic!("{url} is not refused"),
        Err(error) => format!("{} {error:#}", error.kind().code()),
    }
}
