//! What a store starts from: found, made anew from its log, or left by the dead.

mod control;
mod dead;
mod drop_store;
mod election;
mod home;
mod open;
mod orphans;
mod rebuild;
mod scan;

pub use drop_store::drop_store;
pub use open::{EngineOptions, open};
