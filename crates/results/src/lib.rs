//! The data of a measurement: rows, reports, collections, their JSON, and their tables as text.
//!
//! Invariant: nothing here measures, judges or opens a store, so that what reads results builds no
//! client of a server.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "for this workspace only: what a name says needs no comment")]

pub mod collection;
pub mod columns;
mod comparability;
pub mod compare;
mod environment;
pub mod experiment;
mod figures;
pub mod grouping;
pub mod histogram;
mod left_out;
pub mod naming;
pub mod number;
mod outcome;
pub mod php_handlers;
mod question;
pub mod reference;
mod removal;
mod report;
mod round_sample;
mod row;
pub mod server_limits;
pub mod statistics;
mod subject;
pub mod table;
pub mod tables;
mod text;
mod usage_error;
pub mod warnings;
mod worker_memory;
pub mod workload;

pub use self::collection::{Collection, LeftOutExperiment, PartState, SeriesPart};
pub use self::comparability::comparability_notes;
pub use self::environment::Environment;
pub use self::experiment::{CycleOp, Experiment};
pub use self::figures::{Buckets, CpuUs, Figures, LatencyUs, Modes, Waits};
pub use self::left_out::LeftOut;
pub use self::outcome::Outcome;
pub use self::question::Question;
pub use self::removal::Removal;
pub use self::report::{Report, SCHEMA, Settings};
pub use self::round_sample::RoundSample;
pub use self::row::{AS_CONFIGURED, ON_SERVER_DISK, Row};
pub use self::subject::{SHOWN_HOST, Subject};
pub use self::tables::KINDS;
pub use self::tables::faults::{DurabilityPromise, Faults};
pub use self::tables::lifecycle::{Overflow, WebFigures};
pub use self::tables::oversize::{ContentAfterSave, Oversize, SaveOutcome};
pub use self::tables::rebuild::{LargestEntry, Rebuild, Siege};
pub use self::tables::visitors::{ServerWork, Visitors};
pub use self::usage_error::UsageError;
pub use self::worker_memory::WorkerMemory;
pub use self::workload::Workload;
