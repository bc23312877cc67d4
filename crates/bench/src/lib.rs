//! Measures the stores of Sessile.
//!
//! Data flow: [`Options`] are checked; the chosen contenders are deployed (private directories and
//! servers); each gets worker processes; an experiment lets them take turns; the rows become a
//! [`Report`], shown as table, JSON and Markdown. bench/EXPERIMENTS.md says what is measured and
//! why.
//!
//! Invariants: a debug build prints no figures; a contender that fails is a row and does not end
//! the run; no row is printed without verified payloads and counters.

#![deny(unsafe_code)]
#![allow(missing_docs, reason = "for this workspace only: what a name says needs no comment")]

pub mod all;
pub mod baseline;
mod cluster;
pub mod contender;
mod defaults;
mod deployment;
pub mod environment;
mod experiments;
pub mod first_answer;
mod footprint;
mod ids;
mod interruption;
mod monotonic;
mod network;
mod options;
mod oversize;
mod payload;
mod payload_spread;
pub mod php;
mod presets;
mod private_places;
mod program_output;
mod progress;
mod published;
mod redact;
pub mod reference;
pub mod requirements;
mod room;
mod run;
mod selection;
mod standby;
mod stock;
mod storage_location;
mod store_contender;
pub mod worker;

pub use interruption::INTERRUPTION;
pub use options::{CycleOp, Experiment, Options};
pub use presets::describe_default;
pub use run::{
    DEBUG_OVERRIDE, RunError, run, run_choices, run_choices_with_baseline, run_with_baseline,
};
pub use selection::{Choice, ContenderSource};
pub use sessile_results::{
    Collection, LeftOutExperiment, PartState, Report, SeriesPart, UsageError, Workload,
};
// Users of `--profile` read this file format.
pub use sessile_scan::Profile;
