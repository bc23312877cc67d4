//! Workers: the processes that use a store, as in production.
//!
//! The parent (`group`, `process`) starts this same program with a hidden verb and sends lines of
//! JSON (`protocol`) through its standard input. The child (`serve`) opens one contender. It ends
//! when the parent's end closes the pipe. Sessions in a store of the user are removed afterwards
//! (`cleanup`).

pub(crate) mod cleanup;
pub(crate) mod faults;
pub(crate) mod group;
pub(crate) mod memory;
pub(crate) mod oversize;
mod placement;
pub(crate) mod process;
pub(crate) mod protocol;
pub(crate) mod sample;
mod serve;

pub use cleanup::PendingCleanup;
pub use process::Launch;
pub use serve::serve;
