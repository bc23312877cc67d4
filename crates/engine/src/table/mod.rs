//! The table of sessions: from a key to its entry and its lock, and the processes that own locks.
//!
//! It knows neither records nor the log.

mod entries;
mod hint;
mod index;
mod keys;
mod lock;
mod owner_hint;
mod process;
mod store_file;

pub(crate) use {
    entries::*, hint::*, index::Insertion, keys::*, lock::*, process::*, store_file::*,
};
