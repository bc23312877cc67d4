//! The conformance suite: cases that hold every store to the contract, and can fail.
//!
//! Reading order: `case`, `testbed` (what a case may use), any file of [`cases`], [`suite`] (how
//! cases are run), [`matrix`]. `broken` holds stores with one deliberate fault each; a suite that
//! does not reject them proves nothing. [`storm`] kills and stops processes at random.
//!
//! Where the contract speaks of processes, real ones are killed with SIGKILL. This crate is no
//! benchmark: it asserts bounds on time only where the contract names them.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "for this workspace only: what a name says needs no comment")]

mod broken;
mod case;
pub mod cases;
mod check;
mod child;
mod concurrent;
mod leak_logger;
pub mod matrix;
mod pairs;
mod sealed;
pub mod storm;
pub mod suite;
mod testbed;
mod worker;
mod worker_commands;

pub use broken::StoreFault;
pub use case::Case;
pub use check::Failure;
pub use worker_commands::run_suite_worker;
