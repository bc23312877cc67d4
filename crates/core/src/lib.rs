//! The contract of a session store, and nothing else.
//!
//! Reading order for a newcomer: [`Key`] (what is stored under which name), [`Record`] (what is stored),
//! [`Store`] (what a store must do, with a complete example), [`Sessions`] (what applications call).
//! The rules in prose are in `docs/contract.md`, the words in `docs/glossary.md`.
//!
//! This crate owns the rules that hold for every store alike: what a well-formed id is, when a record
//! has expired, what an error says. It is not a store and knows none.

#![forbid(unsafe_code)]

mod capability;
mod clock;
mod counters;
mod erased;
mod error;
mod inspection;
mod key;
mod limits;
mod listing;
mod record;
mod sessions;
pub mod spare;
pub mod store;
mod ttl;

pub use capability::{Capabilities, Durability, Expiry, Locking, Ownership, SessionsBound, Waiting};
pub use clock::{Clock, Timestamp};
pub use counters::{Counter, Counters};
pub use error::{Error, ErrorKind, Holder, Operation, Result};
pub use inspection::{Detail, DetailValue, Verified};
pub use key::{Bin, Key};
pub use limits::Limits;
pub use listing::{Budget, Cursor, Entry, Filter, Page, Rest, Stat, Swept};
pub use record::{Found, Record, Trace};
pub use sessions::{Begun, Lease, Sessions};
pub use store::{Locked, Store};
pub use ttl::Ttl;
