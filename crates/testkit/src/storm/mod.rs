//! The kill storm: processes that work on one store, die and stop at random instructions, and a
//! checker that believes none of them.
//!
//! Reading order: `event` (the reports), `storm_worker` (what a process does), `history` (when a
//! read is legal), `checker` (all sessions and processes), `pool` (kills and stops), `prober` (is
//! the lock of a dead holder free?), `run` (all of it). `stop_one` asks whether one stopped process
//! stalls the sessions of the others.
//!
//! The checker knows what was reported and what the store answers, and nothing of a store's inside:
//! it can be wrong about no store in particular.

mod checker;
mod client;
mod counts;
mod event;
mod history;
mod listener;
mod orders;
mod pool;
mod prober;
mod report;
mod run;
mod run_sessions;
mod space;
mod stop_one;
mod storm_worker;
mod target;

pub use orders::run_as_worker;
pub use pool::StormOptions;
pub use report::StormReport;
pub use run::run;
pub use stop_one::{StopOneReport, stop_one};
pub use target::StormTarget;
