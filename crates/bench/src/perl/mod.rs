//! The keepers of sessions of Perl, as contenders: what there is, what of it this machine has, and how one is run.
//!
//! Not here: what is measured with them. They live in processes of Perl, so no worker of ours opens them.

mod installation;
mod keeper;
mod runner;

pub(crate) use installation::Installation;
pub use keeper::{KEEPERS, Keeper, Locking, Space};
pub(crate) use keeper::{SESSILE, named};
pub(crate) use runner::{Dissected, Round, Runner, VALUES};
