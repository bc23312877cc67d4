//! The conformance suite: what every store owes, in cases that can fail.
//!
//! Reading order: [`case`] (what a case is), [`ground`] (what a case may use), any file of [`cases`], then
//! [`suite`] (how cases are run) and [`matrix`] (how the outcome is shown). [`broken`] holds stores with
//! one deliberate fault each; a suite that does not reject them proves nothing.
//!
//! Where the contract speaks of processes, [`worker`] starts real ones and kills them with SIGKILL.
//! This crate is not a benchmark: it asserts bounds on time only where the contract names them.

#![forbid(unsafe_code)]

pub mod broken;
pub mod case;
pub mod cases;
mod check;
mod eavesdropper;
pub mod ground;
pub mod matrix;
pub mod opener;
mod pairs;
pub mod sealed;
pub mod storm;
pub mod suite;
pub mod worker;

pub use check::Failure;
