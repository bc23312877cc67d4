//! Reference rows: what the figures of the stores are to be read against.
//!
//! They are not stores: no registry entry, no contract. Each is written to be as fast as its definition in
//! docs/benchmark.md allows; whoever finds a way to make one faster has found a fault of ours.

mod handlers;
mod limit;
mod lmdb;
mod memcached_four_trips;
mod memcached_ignored;
mod mysql_transaction;
mod null;
mod postgres_transaction;
mod redis_four_trips;

use std::path::Path;

use sessile_core::{Durability, Error, ErrorKind, Result};

use crate::contender::Contender;
use crate::worker::protocol::Opening;

/// Opens a row in a worker, at its place.
type Open = fn(&Path, &Opening) -> Result<Box<dyn Contender>>;

/// What becomes of the lock of a session when the process that holds it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterDeath {
    /// It is free at once.
    Freed,
    /// It is free when its time is over.
    Lapses,
    /// Nobody ever has it again: what the cheapest lock costs.
    Stuck,
    /// There is no lock, or nobody to share it with.
    NoLock,
}

/// A reference row.
#[derive(Debug)]
pub struct Reference {
    /// Its name in `--stores` and in results.
    pub name: &'static str,
    /// What it shows, in one sentence.
    pub sentence: &'static str,
    /// Whether several workers can share it.
    pub shared_by_processes: bool,
    /// The private server that it needs.
    pub server: Option<&'static str>,
    /// Its tiers.
    pub durability: &'static [Durability],
    /// Whether the table may grow while it is measured.
    pub creates: bool,
    /// Whether payloads may differ in size.
    pub any_size: bool,
    /// Whether it stores what it is given.
    pub keeps_payloads: bool,
    /// Whether it is there to lose what is too large, and for nothing else.
    pub loses_large: bool,
    /// What becomes of the lock of a killed holder.
    pub after_death: AfterDeath,
    /// Its place is a directory in shared memory, or the server's socket.
    pub(crate) open: Open,
}

impl Reference {
    /// A row in the memory of one process, for a fixed number of payloads of one size.
    const fn in_process(name: &'static str, sentence: &'static str, open: Open) -> Reference {
        Reference {
            name,
            sentence,
            shared_by_processes: false,
            server: None,
            durability: &[Durability::None],
            creates: false,
            any_size: false,
            keeps_payloads: true,
            loses_large: false,
            after_death: AfterDeath::NoLock,
            open,
        }
    }

    /// What rows that processes share are like, with any number of payloads of any size. Each says its own name, and where it
    /// differs.
    const fn shared(open: Open) -> Reference {
        Reference {
            name: "",
            sentence: "",
            shared_by_processes: true,
            server: None,
            durability: &[Durability::None],
            creates: true,
            any_size: true,
            keeps_payloads: true,
            loses_large: false,
            after_death: AfterDeath::NoLock,
            open,
        }
    }
}

/// All reference rows, in display order.
pub const REFERENCES: &[Reference] = &[
    limit::REFERENCE,
    null::REFERENCE,
    lmdb::REFERENCE,
    redis_four_trips::REFERENCE,
    memcached_four_trips::REFERENCE,
    memcached_ignored::REFERENCE,
    mysql_transaction::REFERENCE,
    postgres_transaction::REFERENCE,
];

/// What a row says of a session that it was not told of when it was opened.
fn unprepared() -> Error {
    Error::new(ErrorKind::InvalidArgument, "no id was prepared for this session")
}

/// The reference row of this name.
pub fn by_name(name: &str) -> Option<&'static Reference> {
    REFERENCES.iter().find(|reference| reference.name == name)
}

/// For tests: a row and its server. One that is not installed is said, and in CI a failure.
#[cfg(test)]
pub(crate) fn with_server(name: &str) -> Option<(&'static Reference, &'static sessile_fixtures::ServerKind)> {
    // A name that nobody has is a mistake in the test, which would else be skipped for good.
    let reference = by_name(name).unwrap();
    let kind = sessile_fixtures::ServerKind::by_name(reference.server.unwrap()).unwrap();
    if kind.find().is_none() {
        assert!(std::env::var_os("CI").is_none(), "{} is not installed", kind.name);
        println!("skipped: {} is not installed", kind.name);
        return None;
    }
    Some((reference, kind))
}

#[cfg(test)]
mod tests {
    #[test]
    fn limit_stays_as_short_as_its_definition_says() {
        let lines = include_str!("limit.rs").lines().count();
        assert!(lines <= 80, "limit.rs has {lines} lines; what needs more is no limit any more");
    }
}
