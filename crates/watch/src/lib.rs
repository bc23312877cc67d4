//! A store as its operator sees it: counters, locks and sizes, for Prometheus, a terminal and a
//! browser.
//!
//! ```text
//! Sampler -> Sample -> metrics text | frame of a terminal | History -> page with charts
//! ```
//!
//! Invariants: nothing is changed; a costly count is repeated only after a hundred times its
//! duration, so that watching takes less than one per cent of a processor; a session is shown as a
//! digest, and every text of a store is escaped where it is shown. Not here: counting itself
//! (`sessile_core::SharedCounters` and the engine).

#![forbid(unsafe_code)]

mod chart;
mod frame;
mod history;
mod http;
mod listener;
mod metrics;
mod once;
mod page;
mod sample;
mod style;
mod units;

pub use frame::frame;
pub use history::History;
pub use http::Served;
pub use listener::{ServeOptions, serve_metrics, serve_page};
pub use metrics::metrics;
pub use sample::{Sample, Sampler, lock_line, session_digest};
