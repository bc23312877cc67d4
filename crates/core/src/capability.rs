//! What a store can do, as data.
//!
//! The feature table, the conformance suite and the benchmark read these declarations. The suite tries what can be tried
//! on one host: what is declared must hold; locking and listing that are not declared must answer `Unsupported`.

/// The declaration of one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The weakest durability tier in which records survive a restart of whatever keeps them (server, process or host);
    /// `None` if they do in no tier. A tier weaker than this one may keep nothing but memory.
    pub persistent_from: Option<Durability>,
    /// Several processes of one host may open the same store at once.
    pub shared_by_processes: bool,
    /// Several hosts may open the same store at once.
    pub shared_by_hosts: bool,
    /// The server that must run, if any.
    pub server: Option<&'static str>,
    /// Whether `begin` excludes others. With `None` it answers `Unsupported`.
    pub locking: Locking,
    /// How a waiter learns that the lock is free.
    pub waiting: Waiting,
    /// What ends the life of a lease whose holder died.
    pub ownership: Ownership,
    /// Who removes expired records.
    pub expiry: Expiry,
    /// Largest payload in bytes that the store takes by its nature (the limit in force may be lower).
    pub value_bytes_max: u64,
    /// Longest id in bytes.
    pub id_bytes_max: usize,
    /// What bounds the number of sessions.
    pub sessions_bounded_by: SessionsBound,
    /// A commit is checked against what was read, even if the lock itself was lost.
    pub compare_and_set: bool,
    /// `list` and `stat` work.
    pub listing: bool,
    /// The durability tiers that the store can be run with.
    pub durability: &'static [Durability],
}

impl Capabilities {
    /// Whether records survive a restart of whatever keeps them, in this tier. What was acknowledged just before a crash
    /// may be missing; what survives that is the tier's own business.
    pub fn survives_restart(&self, tier: Durability) -> bool {
        self.persistent_from.is_some_and(|from| from <= tier)
    }
}

/// Who excludes concurrent holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// The store's own means.
    Native,
    /// Something beside the store (a side file, a second key).
    Emulated,
    /// Nobody: no leases.
    None,
}

/// How a waiter learns that the lock is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It sleeps until it is woken.
    Event,
    /// It tries again, adaptively, after 0.2 to 5 ms.
    Retry,
    /// There is nothing to wait for.
    None,
}

/// What ends the life of a lease whose holder died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The death of the process, noticed at once. A live holder keeps its lease however long it is stopped.
    Process,
    /// The end of `lock_ttl`. A holder that outlived it may find a successor.
    Time,
}

/// Who removes expired records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The store itself.
    Native,
    /// Each change of the store, a few. A `sweep` removes the rest where changes are rare.
    Changes,
    /// `sweep`, called by someone.
    Sweep,
}

/// What bounds the number of sessions: where they lie, and what happens when that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionsBound {
    /// The memory of the process that has opened the store.
    ProcessMemory,
    /// Memory that the processes of a host share.
    SharedMemory,
    /// The file system of its directory, which may lie in shared memory.
    Disk {
        /// Each session is a file, and a file system has only so many.
        inodes: bool,
    },
    /// The disk of a server.
    ServerDisk,
    /// The memory of a server.
    ServerMemory {
        /// The server's setting that bounds it.
        setting: &'static str,
        /// A full server takes new sessions and throws out others that nobody has ended; else it refuses them.
        evicts: bool,
    },
}

impl SessionsBound {
    /// What it is, for tables.
    pub fn words(self) -> String {
        match self {
            SessionsBound::ProcessMemory => "memory of the process".to_owned(),
            SessionsBound::SharedMemory => "shared memory".to_owned(),
            SessionsBound::Disk { inodes: false } => "disk".to_owned(),
            SessionsBound::Disk { inodes: true } => "disk space and inodes".to_owned(),
            SessionsBound::ServerDisk => "disk of the server".to_owned(),
            SessionsBound::ServerMemory { setting, evicts } => {
                let full = if evicts { "; more push out others" } else { "" };
                format!("memory of the server ({setting}){full}")
            }
        }
    }
}

/// What survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Nothing is promised.
    None,
    /// All but about the last second.
    Second,
    /// Every acknowledged commit.
    Commit,
}

macro_rules! names {
    ($($type:ident { $($variant:ident => $name:literal),+ })+) => {$(
        impl $type {
            /// The word for tables, JSON and URLs.
            pub const fn name(self) -> &'static str {
                match self { $($type::$variant => $name),+ }
            }

            /// The value that has this name.
            pub fn from_name(name: &str) -> Option<$type> {
                match name { $($name => Some($type::$variant),)+ _ => None }
            }
        }
    )+};
}

names! {
    Locking { Native => "native", Emulated => "emulated", None => "none" }
    Waiting { Event => "event", Retry => "retry", None => "none" }
    Ownership { Process => "process", Time => "time" }
    Expiry { Native => "native", Changes => "changes", Sweep => "sweep" }
    Durability { None => "none", Second => "1s", Commit => "commit" }
}
