//! Reference rows, which the stores' figures are compared with.
//!
//! They have no registry entry and no contract. Each is as fast as its definition in
//! bench/EXPERIMENTS.md allows; a way to make one faster is a bug report.

mod files_flock;
mod handlers;
mod limit;
mod lmdb;
mod memcached_ignored;
mod memcached_trips;
mod mysql_transaction;
mod null;
mod postgres_connection;
mod postgres_transaction;
mod redis_trips;
mod sqlite_plain;
#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;

use sessile_core::{Capabilities, Durability, Error, ErrorKind, Ownership, Result};

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

impl AfterDeath {
    pub(crate) fn of_store(can: &Capabilities) -> AfterDeath {
        match can.ownership {
            _ if !can.shared_by_processes => AfterDeath::NoLock,
            Ownership::Process => AfterDeath::Freed,
            Ownership::Time => AfterDeath::Lapses,
        }
    }
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
    /// It takes no lock, so lost updates are no fault of it.
    pub unlocked: bool,
    /// It can destroy sessions and sweep expired ones.
    pub removes: bool,
    /// Only `cycle` and `ops` have it without being asked.
    pub only_throughput: bool,
    /// Its directory is on disk; a server's always is.
    pub on_disk: bool,
    pub after_death: AfterDeath,
    /// The path is a directory, or the server's socket.
    pub(crate) open: OpenReference,
}

impl Reference {
    /// Whether sites have what it does.
    pub(crate) const fn stands_for_a_handler(&self) -> bool {
        (self.server.is_some() || self.on_disk) && !self.only_throughput && !self.loses_large
    }

    /// Whether a payload of any size can be read back.
    pub(crate) const fn keeps_any_payload(&self) -> bool {
        self.any_size && self.keeps_payloads
    }

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
            unlocked: false,
            removes: false,
            only_throughput: false,
            on_disk: false,
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
            unlocked: false,
            removes: false,
            only_throughput: false,
            on_disk: false,
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
    files_flock::REFERENCE,
    sqlite_plain::REFERENCE,
    redis_trips::FOUR_TRIPS,
    redis_trips::TWO_TRIPS,
    redis_trips::SETEX,
    memcached_trips::FOUR_TRIPS,
    memcached_trips::TWO_TRIPS,
    memcached_ignored::REFERENCE,
    mysql_transaction::FOUR_TRIPS,
    mysql_transaction::TWO_TRIPS,
    postgres_transaction::FOUR_TRIPS,
    postgres_transaction::TWO_TRIPS,
];

/// Error for a session outside the ids of the opening.
fn unprepared() -> Error {
    Error::new(ErrorKind::InvalidArgument, "no id was prepared for this session")
}

pub fn by_name(name: &str) -> Option<&'static Reference> {
    REFERENCES.iter().find(|reference| reference.name == name)
}
