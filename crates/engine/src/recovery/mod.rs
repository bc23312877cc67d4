//! What a store starts from: found, made anew from its log, or left by the dead.

mod control;
mod dead;
mod home;
mod open;
mod orphans;
mod rebuild;
mod scan;

pub use open::{EngineOptions, open};
