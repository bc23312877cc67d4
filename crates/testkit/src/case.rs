//! A case: a sentence about stores, the capabilities that it is about, and the code that tries it.

use std::time::Duration;

use sessile_core::{Capabilities, Durability, Expiry, Locking, Ownership};

use crate::check::Failure;
use crate::testbed::{TestStore, Testbed};

pub type CaseResult<T = ()> = Result<T, Failure>;

/// A capability without which a case says nothing about a store.
pub struct Requirement {
    met: fn(&Capabilities) -> bool,
    otherwise: &'static str,
}

/// The store on which a case runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// The instance that most cases share; the case uses keys of its own.
    Shared,
    /// A fresh instance: the case counts what is in the store.
    Own,
    /// A fresh instance in its most durable tier, whose server (if any) the case may kill.
    Durable,
}

/// One promise of the contract.
#[derive(Clone, Copy)]
pub struct Case {
    /// A sentence that is true of a good store.
    pub name: &'static str,
    pub(crate) needs: &'static [Requirement],
    pub(crate) isolation: Isolation,
    /// Then the case counts as hanging. Never a bound on a store, which may be slow on a busy disk.
    pub(crate) limit: Duration,
    pub(crate) body: fn(&Testbed, &TestStore) -> CaseResult,
    pub(crate) timed: bool,
}

impl Case {
    /// A case on the shared instance for every store.
    pub(crate) const fn new(
        name: &'static str,
        body: fn(&Testbed, &TestStore) -> CaseResult,
    ) -> Case {
        let (limit, isolation) = (Duration::from_secs(120), Isolation::Shared);
        Case { name, needs: &[], isolation, limit, body, timed: false }
    }

    /// A case on a store whose clock it moves.
    pub(crate) const fn timed(
        name: &'static str,
        body: fn(&Testbed, &TestStore) -> CaseResult,
    ) -> Case {
        Case { timed: true, ..Case::new(name, body) }
    }

    pub(crate) fn run(&self, bed: &Testbed) -> CaseResult {
        let store = if self.timed { bed.timed()? } else { bed.open()? };
        (self.body)(bed, &store)
    }

    #[must_use]
    pub(crate) const fn needs(self, needs: &'static [Requirement]) -> Case {
        Case { needs, ..self }
    }

    #[must_use]
    pub(crate) const fn alone(self) -> Case {
        Case { isolation: Isolation::Own, ..self }
    }

    #[must_use]
    pub(crate) const fn durable(self) -> Case {
        Case { isolation: Isolation::Durable, ..self }
    }

    /// Gives it more time than the usual two minutes.
    #[must_use]
    pub(crate) const fn within(self, seconds: u64) -> Case {
        Case { limit: Duration::from_secs(seconds), ..self }
    }

    pub(crate) fn not_applicable(&self, capabilities: &Capabilities) -> Option<&'static str> {
        self.needs.iter().find(|need| !(need.met)(capabilities)).map(|need| need.otherwise)
    }
}

const fn unless(otherwise: &'static str, met: fn(&Capabilities) -> bool) -> Requirement {
    Requirement { met, otherwise }
}

pub const PROCESSES: Requirement = unless("one process only", |store| store.shared_by_processes);

pub const OWNED_BY_PROCESS: Requirement =
    unless("leases end with time", |store| store.ownership == Ownership::Process);

/// The end of `lock_ttl` frees a dead holder's lock.
pub const OWNED_FOR_A_TIME: Requirement =
    unless("leases end with the process", |store| store.ownership == Ownership::Time);

/// A destroy frees the lock at once. A lock beside the record stays occupied until its holder
/// releases it or dies.
pub const FREED_BY_DESTROY: Requirement =
    unless("its lock lies beside the record", |store| store.locking != Locking::Emulated);

pub const PERSISTENT: Requirement =
    unless("not persistent", |store| store.persistent_from.is_some());

pub const DURABLE: Requirement = unless("promises no durability per commit", |store| {
    store.durability.contains(&Durability::Commit)
});

pub const EMBEDDED: Requirement = unless("needs a server", |store| store.server.is_none());

pub const SERVED: Requirement = unless("needs no server", |store| store.server.is_some());

pub const LISTING: Requirement = unless("no listing", |store| store.listing);

pub const NO_LISTING: Requirement = unless("lists", |store| !store.listing);

pub const OWNERS: Requirement = unless("no owners", |store| store.owners);

pub const NO_OWNERS: Requirement = unless("has owners", |store| !store.owners);

pub const SWEEPING: Requirement =
    unless("expires by itself", |store| store.expiry != Expiry::Native);

pub const EXPIRING_NATIVELY: Requirement =
    unless("expires by sweep", |store| store.expiry == Expiry::Native);
