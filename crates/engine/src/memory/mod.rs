//! Memory that processes share: mapped files, words and their ordering, and where things lie.
//!
//! Every other room stands on this one, and uses all that is public in its files: they are the
//! vocabulary of the protocol, and know none.

mod counter_file;
mod data_file;
mod errors;
mod fork;
mod futex;
mod layout;
#[cfg(sessile_model)]
#[path = "models/machine.rs"]
pub(crate) mod machine;
mod map;
mod mutation;
mod plane;
mod simulated;
mod size_class;
pub mod spare;
mod sync;
mod sync_mode;
mod words;

pub use counter_file::CounterFile;
pub use sync::crash;
pub use sync_mode::SyncMode;
pub(crate) use {
    data_file::*, errors::*, fork::*, futex::*, layout::*, map::*, mutation::*, plane::*,
    simulated::*, size_class::*, sync::*, words::*,
};
