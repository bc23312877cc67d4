//! The capabilities of a store, as data.
//!
//! The conformance suite tests what one host can show: a declared capability must hold, and a store
//! without listing must return `Unsupported`.

use std::fmt;

use crate::Limits;

/// The declaration of one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The weakest durability tier in which records survive a restart of their keeper (server,
    /// process or host); `None` if they do in no tier. A weaker tier may keep records only in
    /// memory. Writes acknowledged just before a crash may be missing, as the tier says.
    pub persistent_from: Option<Durability>,
    /// Several processes of one host may open the store at once.
    pub shared_by_processes: bool,
    /// Several hosts may open the store at once.
    pub shared_by_hosts: bool,
    /// Another program writes its sessions, too, for example PHP's own handler. It does not know
    /// this contract: what is read without the lock may be half written.
    pub foreign_writers: bool,
    /// The server that must run, if any.
    pub server: Option<&'static str>,
    /// What excludes other holders.
    pub locking: Locking,
    /// How a waiter learns that the lock is free.
    pub waiting: Waiting,
    /// The end of a lease whose holder died.
    pub ownership: Ownership,
    /// How expired records are removed.
    pub expiry: Expiry,
    /// The largest payload in bytes by the nature of the store. The limit in force may be lower.
    pub value_bytes_max: u64,
    /// Longest id in bytes.
    pub id_bytes_max: usize,
    /// What bounds the number of sessions.
    pub sessions_bounded_by: SessionsBound,
    /// `list` and `stat` work.
    pub listing: bool,
    /// A session can have an owner, and the sessions of one owner can be listed.
    pub owners: bool,
    /// The durability tiers of the store.
    pub durability: &'static [Durability],
}

impl Capabilities {
    /// The least that a store can declare: one process, nothing survives.
    pub const MINIMAL: Capabilities = Capabilities {
        persistent_from: None,
        shared_by_processes: false,
        shared_by_hosts: false,
        foreign_writers: false,
        server: None,
        locking: Locking::Native,
        waiting: Waiting::Retry,
        ownership: Ownership::Process,
        expiry: Expiry::Sweep,
        value_bytes_max: Limits::PAYLOAD_BYTES_MAX_DEFAULT,
        id_bytes_max: Limits::ID_BYTES_MAX,
        sessions_bounded_by: SessionsBound::ProcessMemory,
        listing: false,
        owners: false,
        durability: &[Durability::None],
    };

    /// Whether it answers from memory of this host: only a lock is worth a wait.
    pub const fn in_memory(&self) -> bool {
        use SessionsBound::{ProcessMemory, SharedMemory};
        self.server.is_none() && matches!(self.sessions_bounded_by, ProcessMemory | SharedMemory)
    }
}

/// What excludes other holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// The store's own means.
    Native,
    /// Something beside the store (a side file, a second key).
    Emulated,
}

/// How a waiter learns that the lock is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It sleeps until it is woken.
    Event,
    /// It tries again, adaptively, after 0.2 to 5 ms.
    Retry,
}

/// The end of a lease whose holder died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// At once, with the process. A stopped holder keeps its lease.
    Process,
    /// After `lock_ttl`. A holder that outlives it may find a successor.
    Time,
}

/// How expired records are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The store itself.
    Native,
    /// Each change of the store removes a few; `sweep` removes the rest where changes are rare.
    Changes,
    /// `sweep`, which the application calls.
    Sweep,
}

/// What bounds the number of sessions: their storage, and the effect of a full one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionsBound {
    /// The memory of the process.
    ProcessMemory,
    /// Memory that the processes of a host share.
    SharedMemory,
    /// The file system of a directory, which may be in shared memory.
    Disk {
        /// Each session is a file, and the number of files is bounded.
        inodes: bool,
    },
    /// The disk of a server.
    ServerDisk,
    /// The memory of a server.
    ServerMemory {
        /// The server's setting for it.
        setting: &'static str,
        /// A full server evicts live sessions to take new ones; otherwise it refuses new ones.
        evicts: bool,
    },
}

impl fmt::Display for SessionsBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SessionsBound::ProcessMemory => "memory of the process",
            SessionsBound::SharedMemory => "shared memory",
            SessionsBound::Disk { inodes: false } => "disk",
            SessionsBound::Disk { inodes: true } => "disk space and inodes",
            SessionsBound::ServerDisk => "disk of the server",
            SessionsBound::ServerMemory { setting, evicts } => {
                let full = if *evicts { "; more push out others" } else { "" };
                return write!(f, "memory of the server ({setting}){full}");
            }
        })
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
    Locking { Native => "native", Emulated => "emulated" }
    Waiting { Event => "event", Retry => "retry" }
    Ownership { Process => "process", Time => "time" }
    Expiry { Native => "native", Changes => "changes", Sweep => "sweep" }
    Durability { None => "none", Second => "1s", Commit => "commit" }
}
