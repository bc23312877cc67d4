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

pub mod against;
pub mod all;
mod collection;
pub mod compare;
pub mod contender;
mod defaults;
mod deployment;
mod environment;
mod experiment;
mod experiments;
pub mod first_answer;
mod footprint;
mod histogram;
mod ids;
mod interruption;
mod monotonic;
mod naming;
mod network;
mod options;
mod oversize;
mod payload;
mod payload_spread;
pub mod perl;
pub mod php;
mod presets;
mod private_places;
mod progress;
mod published;
pub mod recommend;
mod redact;
pub mod reference;
pub mod report;
pub mod requirements;
mod room;
mod run;
mod selection;
pub mod statistics;
mod stock;
mod storage_location;
mod store_contender;
pub mod worker;
mod workload;

pub use collection::{Collection, LeftOutExperiment, PartState, SeriesPart};
pub use interruption::INTERRUPTION;
pub use options::{CycleOp, Experiment, Options, UsageError};
pub use presets::describe_default;
pub use report::Report;
pub use run::{DEBUG_OVERRIDE, RunError, run, run_against, run_choices, run_choices_against};
pub use selection::{Choice, ContenderSource};
pub use workload::Workload;
// Users of `--profile` read this file format.
pub use sessile_scan::Profile;
