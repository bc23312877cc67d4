//! Workers: the processes that use a store, as in production.
//!
//! The parent (`crew`, `process`) starts this same program with a hidden verb and talks to it in lines of JSON
//! (`protocol`) over its standard input and output; the child (`serve`) opens one contender and does
//! what it is told. When the parent ends, however it ends, the pipe closes and the child ends. What the children made in a
//! store of the user's is removed after them (`leftovers`).

pub(crate) mod crew;
pub(crate) mod faults;
pub(crate) mod leftovers;
mod memory;
pub(crate) mod oversize;
mod placement;
pub(crate) mod process;
pub(crate) mod protocol;
pub(crate) mod sample;
mod serve;

pub use leftovers::Remains;
pub use memory::WorkerMemory;
pub use process::Launch;
pub use serve::serve;
