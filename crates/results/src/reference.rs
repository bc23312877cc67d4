//! Reference rows, which the stores' figures are compared with: what each is and does.
//!
//! Their code is in crates/bench/src/reference, and why each is there in bench/EXPERIMENTS.md.

use sessile_core::{Capabilities, Durability, Ownership};

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
    pub fn of_store(can: &Capabilities) -> AfterDeath {
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
}

impl Reference {
    /// Whether sites have what it does.
    pub const fn stands_for_a_handler(&self) -> bool {
        (self.server.is_some() || self.on_disk) && !self.only_throughput && !self.loses_large
    }

    /// Whether a payload of any size can be read back.
    pub const fn keeps_any_payload(&self) -> bool {
        self.any_size && self.keeps_payloads
    }

    /// Defaults of a row in the memory of one process, for a fixed number of payloads of one size.
    const IN_PROCESS: Reference = Reference {
        name: "",
        sentence: "",
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
    };

    /// Defaults of a row that processes share, with payloads of any size.
    const SHARED: Reference = Reference {
        shared_by_processes: true,
        creates: true,
        any_size: true,
        ..Reference::IN_PROCESS
    };
}

const IN_REDIS: Reference = Reference {
    server: Some("redis-server"),
    durability: &[Durability::None, Durability::Second, Durability::Commit],
    after_death: AfterDeath::Lapses,
    ..Reference::SHARED
};
const IN_MEMCACHED: Reference =
    Reference { server: Some("memcached"), after_death: AfterDeath::Lapses, ..Reference::SHARED };
const IN_MYSQL: Reference = Reference {
    server: Some("mariadbd"),
    durability: &[Durability::None, Durability::Second, Durability::Commit],
    after_death: AfterDeath::Freed,
    ..Reference::SHARED
};
const IN_POSTGRES: Reference = Reference {
    server: Some("postgres"),
    durability: &[Durability::None, Durability::Second, Durability::Commit],
    after_death: AfterDeath::Freed,
    ..Reference::SHARED
};
/// In display order.
pub const REFERENCES: &[Reference] = &[
    Reference {
        name: "limit",
        sentence: "What physics allows: one process, a table of fixed size, no lock, no expiry",
        ..Reference::IN_PROCESS
    },
    Reference {
        name: "null",
        sentence: "The harness itself: what clock reads and verification cost in every row",
        shared_by_processes: false,
        keeps_payloads: false,
        ..Reference::SHARED
    },
    Reference {
        name: "lmdb",
        sentence: "LMDB without syncing, in shared memory, with one futex a session as its lock",
        after_death: AfterDeath::Stuck,
        ..Reference::SHARED
    },
    Reference {
        name: "files-flock",
        sentence: "Files under flock as in PHP's own handler: open, lock, read, write, close",
        removes: true,
        on_disk: true,
        after_death: AfterDeath::Freed,
        ..Reference::SHARED
    },
    Reference {
        name: "sqlite-plain",
        sentence: "SQLite with the database locked over the request: BEGIN IMMEDIATE, SELECT, \
                   UPDATE, COMMIT",
        durability: &[Durability::None, Durability::Second, Durability::Commit],
        only_throughput: true,
        on_disk: true,
        after_death: AfterDeath::Freed,
        ..Reference::SHARED
    },
    Reference {
        name: "redis-four-trips",
        sentence: "Redis as today's handlers use it: lock, read, write and unlock in four round \
                   trips",
        ..IN_REDIS
    },
    Reference {
        name: "redis-two-trips",
        sentence: "Redis with lock and read in one write, and write and unlock in one script",
        only_throughput: true,
        ..IN_REDIS
    },
    Reference {
        name: "redis-setex",
        sentence: "Redis without a lock: GET and PSETEX, as a published measurement used it",
        only_throughput: true,
        unlocked: true,
        after_death: AfterDeath::NoLock,
        ..IN_REDIS
    },
    Reference {
        name: "redis-magento",
        sentence: "Redis as Magento's own handler uses it: a hash with its lock, in six round \
                   trips",
        ..IN_REDIS
    },
    Reference {
        name: "memcached-four-trips",
        sentence: "Memcached as today's handlers use it: lock, read, write and unlock in four \
                   round trips",
        ..IN_MEMCACHED
    },
    Reference {
        name: "memcached-two-trips",
        sentence: "Memcached with lock and read in one write, and write and unlock in one",
        only_throughput: true,
        ..IN_MEMCACHED
    },
    Reference {
        name: "memcached-unlocked",
        sentence: "Memcached without a lock: get and set",
        only_throughput: true,
        unlocked: true,
        after_death: AfterDeath::NoLock,
        ..IN_MEMCACHED
    },
    Reference {
        name: "memcached-ignored",
        sentence: "Memcached as a program uses it that ignores the answer to set",
        server: Some("memcached"),
        loses_large: true,
        ..Reference::SHARED
    },
    Reference {
        name: "mysql-transaction",
        sentence: "MySQL as Symfony's handler uses it: a transaction with a row lock, held over \
                   the request",
        ..IN_MYSQL
    },
    Reference {
        name: "mysql-two-trips",
        sentence: "MySQL without BEGIN, and with a procedure that updates and commits",
        only_throughput: true,
        ..IN_MYSQL
    },
    Reference {
        name: "mysql-unlocked",
        sentence: "MySQL without a lock, as the handlers of Drupal and Django: SELECT and UPDATE",
        only_throughput: true,
        unlocked: true,
        after_death: AfterDeath::NoLock,
        ..IN_MYSQL
    },
    Reference {
        name: "postgres-transaction",
        sentence: "PostgreSQL as Symfony's handler uses it: a transaction with a row lock, held \
                   over the request",
        ..IN_POSTGRES
    },
    Reference {
        name: "postgres-two-trips",
        sentence: "PostgreSQL with BEGIN and SELECT in one write, and UPDATE and COMMIT in one",
        only_throughput: true,
        ..IN_POSTGRES
    },
    Reference {
        name: "postgres-unlocked",
        sentence: "PostgreSQL without a lock, as the handlers of Drupal and Django: SELECT and \
                   UPDATE",
        only_throughput: true,
        unlocked: true,
        after_death: AfterDeath::NoLock,
        ..IN_POSTGRES
    },
];

pub fn by_name(name: &str) -> Option<&'static Reference> {
    REFERENCES.iter().find(|reference| reference.name == name)
}
