//! Measures the stores of Sessile.
//!
//! The way through it: [`Options`] are checked; the contenders that they choose are made real (private
//! directories and servers); each gets a crew of worker processes; an experiment lets the crews take turns;
//! the rows go into a [`Report`], which is shown as a table, JSON and CSV. docs/benchmark.md says what is
//! measured and why.
//!
//! Invariants: a debug build prints no figures; a failure of a contender is a row, never the end of the run;
//! no row is printed whose payloads and counters were not verified.

#![deny(unsafe_code)]

pub mod against;
pub mod all;
mod bound;
mod capacity;
mod collection;
pub mod compare;
pub mod contender;
mod environment;
mod experiment;
mod experiments;
mod footprint;
mod growth;
mod histogram;
mod ids;
mod interruption;
mod medium;
mod monotonic;
mod naming;
pub mod needs;
mod network;
mod options;
mod oversize;
mod payload;
pub mod perl;
pub mod php;
mod presets;
mod progress;
mod published;
pub mod recommend;
mod redact;
pub mod reference;
pub mod report;
mod run;
mod selection;
mod setup;
mod spread;
pub mod statistics;
mod stock;
mod store_contender;
mod traffic;
pub mod worker;
mod workload;

pub use bound::Bound;
pub use collection::{Collection, LeftOutExperiment, Part, PartState};
pub use interruption::INTERRUPTION;
pub use options::{CycleOp, Experiment, Options, UsageError};
pub use presets::default_in_words;
pub use report::Report;
pub use run::{DEBUG_OVERRIDE, RunError, check_bounds, run, run_against, run_choices, run_choices_against};
pub use selection::{Choice, Target};
pub use spread::Spread;
pub use traffic::Workload;
// What a spread may be drawn from, for who reads the file.
pub use sessile_scan::Profile;
