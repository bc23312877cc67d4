//! Reference rows, which the stores' figures are compared with.
//!
//! They have no registry entry and no contract. Each is as fast as its definition in
//! docs/benchmark.md allows; a way to make one faster is a bug report.

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
use crate::worker::protocol::OpenRequest;

type OpenReference = fn(&Path, &OpenRequest) -> Result<Box<dyn Contender>>;

/// The lock of a session after the process that holds it was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterDeath {
    /// Free at once.
    Freed,
    /// Free when its time is over.
    Lapses,
    /// Held for ever: the price of the cheapest lock.
    Stuck,
    /// There is no lock, or nobody to share it with.
    NoLock,
}

#[derive(Debug)]
pub struct Reference {
    pub name: &'static str,
    /// One sentence on its purpose.
    pub sentence: &'static str,
    pub shared_by_processes: bool,
    pub server: Option<&'static str>,
    pub durability: &'static [Durability],
    /// Samples may create sessions.
    pub creates: bool,
    /// Payloads may differ in size.
    pub any_size: bool,
    pub keeps_payloads: bool,
    /// It exists only to lose large payloads.
    pub loses_large: bool,
    pub after_death: AfterDeath,
    /// The path is a directory in shared memory, or the server's socket.
    pub(crate) open: OpenReference,
}

impl Reference {
    /// Defaults of a row in the memory of one process, for a fixed number of payloads of one size.
    const fn in_process(
        name: &'static str,
        sentence: &'static str,
        open: OpenReference,
    ) -> Reference {
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

    /// Defaults of a row that processes share, with payloads of any size.
    const fn shared(open: OpenReference) -> Reference {
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

/// In display order.
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

/// Error for a session outside the ids of the opening.
fn unprepared() -> Error {
    Error::new(ErrorKind::InvalidArgument, "no id was prepared for this session")
}

pub fn by_name(name: &str) -> Option<&'static Reference> {
    REFERENCES.iter().find(|reference| reference.name == name)
}

/// For tests: a row and its server. Without the server the test is skipped, and fails in CI.
#[cfg(test)]
pub(crate) fn with_server(
    name: &str,
) -> Option<(&'static Reference, &'static sessile_fixtures::ServerKind)> {
    // An unknown name is a mistake in the test, which would otherwise always be skipped.
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
