//! The contract of a session store.
//!
//! Reading order for a newcomer: [`Key`] (the name of a record), [`Record`], [`Store`] (the duties
//! of a store, with a complete example), [`Sessions`] (the interface of applications). The rules in
//! prose are in `crates/core/CONTRACT.md`, the words in `crates/core/GLOSSARY.md`.
//!
//! This crate owns the rules that hold for every store, and knows none.

#![forbid(unsafe_code)]

mod aliases;
mod capability;
mod clock;
mod counters;
mod erased;
mod error;
mod inspection;
mod key;
mod limits;
mod listing;
mod owner;
mod record;
mod sessions;
mod shared_counters;
pub mod store;
mod stored;
mod ttl;

pub use aliases::{destroy_aliases, follow_aliases, follow_regenerated, read_aliases};
pub use capability::{
    Capabilities, Durability, Expiry, Locking, Ownership, SessionsBound, Waiting,
};
pub use clock::{Clock, Timestamp};
pub use counters::Counter;
pub use error::{Error, ErrorKind, Holder, Operation, Result};
pub use inspection::{Detail, Details, HeldLock, Verified};
pub use key::{Bin, Key};
pub use limits::Limits;
pub use listing::{Budget, Cursor, Filter, Listed, Page, Stat, Swept};
pub use owner::Owner;
pub use record::{Absence, Found, Head, OwnerChange, Record};
pub use sessions::{Begun, Lease, Sessions};
pub use shared_counters::{SharedCounters, SharedCounts};
pub use store::Store;
pub use stored::Stored;
pub use ttl::Ttl;
