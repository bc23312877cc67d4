//! A store seen from outside: counters, locks and sizes for Prometheus, a terminal and a browser.
//!
//! ```text
//! Watcher -> View (one look) -> metrics text | frame of a terminal | History -> page with charts
//! ```
//!
//! Invariants: nothing is changed; a costly count is repeated only after a hundred times its
//! duration, so that a watcher takes less than one per cent of a processor; a session is shown as a
//! digest, and every text of a store is escaped where it is shown. Not here: counting itself
//! (`sessile_core::Tally` and the engine).

#![forbid(unsafe_code)]

mod chart;
mod frame;
mod history;
mod http;
mod listener;
mod metrics;
mod once;
mod page;
mod style;
mod units;
mod view;

pub use frame::frame;
pub use history::History;
pub use http::Served;
pub use listener::{ServeOptions, serve_metrics, serve_page};
pub use metrics::metrics;
pub use view::{View, Watcher, lock_line, session_digest};
