//! What a case is: a sentence about stores, the capabilities that it is about, and the code that tries it.

use std::time::Duration;

use sessile_core::{Capabilities, Expiry, Locking, Ownership};

use crate::check::Failure;
use crate::ground::Ground;

/// What the body of a case answers.
pub type Outcome = Result<(), Failure>;

/// Why a case does not apply to a store; `None` when it does.
pub type Need = fn(&Capabilities) -> Option<&'static str>;

/// On what a case runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// The instance that most cases share; the case uses keys of its own.
    Shared,
    /// A fresh instance: the case counts what is in the store.
    Own,
    /// A fresh instance in its most durable tier, whose server (if any) the case may kill.
    Durable,
}

/// One thing that every store owes.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// A sentence that is true of a good store.
    pub name: &'static str,
    /// What a store must declare for the sentence to be about it.
    pub needs: &'static [Need],
    /// On what it runs.
    pub isolation: Isolation,
    /// After this long it counts as hanging. Never a bound on a store: one that is slow on a busy disk does not hang.
    pub limit: Duration,
    /// Tries it.
    pub body: fn(&Ground) -> Outcome,
}

impl Case {
    /// A case on the shared instance for every store.
    pub const fn new(name: &'static str, body: fn(&Ground) -> Outcome) -> Case {
        Case { name, needs: &[], isolation: Isolation::Shared, limit: Duration::from_secs(120), body }
    }

    /// Restricts it to stores that meet all of these.
    #[must_use]
    pub const fn needs(self, needs: &'static [Need]) -> Case {
        Case { needs, ..self }
    }

    /// Gives it an instance of its own.
    #[must_use]
    pub const fn on(self, isolation: Isolation) -> Case {
        Case { isolation, ..self }
    }

    /// Gives it more time than the usual two minutes.
    #[must_use]
    pub const fn within(self, seconds: u64) -> Case {
        Case { limit: Duration::from_secs(seconds), ..self }
    }

    /// Why it does not apply to a store, if so.
    pub fn not_applicable(&self, capabilities: &Capabilities) -> Option<&'static str> {
        self.needs.iter().find_map(|need| need(capabilities))
    }
}

fn unless(met: bool, reason: &'static str) -> Option<&'static str> {
    (!met).then_some(reason)
}

/// `begin` excludes others.
pub fn locking(store: &Capabilities) -> Option<&'static str> {
    unless(store.locking != Locking::None, "no locking")
}

/// Several processes may open it.
pub fn processes(store: &Capabilities) -> Option<&'static str> {
    unless(store.shared_by_processes, "one process only")
}

/// The death of the holder frees its lock.
pub fn owned_by_process(store: &Capabilities) -> Option<&'static str> {
    unless(store.ownership == Ownership::Process, "leases end with time")
}

/// The end of `lock_ttl` frees a dead holder's lock.
pub fn owned_for_a_time(store: &Capabilities) -> Option<&'static str> {
    unless(store.ownership == Ownership::Time, "leases end with the process")
}

/// Records survive a restart, in the tiers that are durable enough.
pub fn persistent(store: &Capabilities) -> Option<&'static str> {
    unless(store.persistent_from.is_some(), "not persistent")
}

/// It needs no server.
pub fn embedded(store: &Capabilities) -> Option<&'static str> {
    unless(store.server.is_none(), "needs a server")
}

/// It needs a server.
pub fn served(store: &Capabilities) -> Option<&'static str> {
    unless(store.server.is_some(), "needs no server")
}

/// `list` and `stat` work.
pub fn listing(store: &Capabilities) -> Option<&'static str> {
    unless(store.listing, "no listing")
}

/// `list` and `stat` are refused.
pub fn no_listing(store: &Capabilities) -> Option<&'static str> {
    unless(!store.listing, "lists")
}

/// `begin` is refused.
pub fn no_locking(store: &Capabilities) -> Option<&'static str> {
    unless(store.locking == Locking::None, "locks")
}

/// Expired records go by `sweep`.
pub fn sweeping(store: &Capabilities) -> Option<&'static str> {
    unless(store.expiry != Expiry::Native, "expires by itself")
}

/// The store expires records itself.
pub fn expiring_natively(store: &Capabilities) -> Option<&'static str> {
    unless(store.expiry == Expiry::Native, "expires by sweep")
}
