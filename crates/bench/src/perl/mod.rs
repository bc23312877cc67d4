//! The keepers of Perl sessions, as contenders: the table, this machine's installation, and the
//! runner.
//!
//! Keepers live in processes of Perl, so our workers do not open them.

mod installation;
mod keeper;
mod runner;

pub(crate) use installation::PerlInstallation;
pub(crate) use keeper::named;
pub use keeper::{KEEPERS, Keeper, KeeperLocking, SpaceSource};
pub(crate) use runner::{CostBreakdown, Runner, RunnerReply, VALUES};
