//! A scan: what is in a store, by size, age and idle time, without disturbing it.
//!
//! ```text
//! open a URL  ->  a walk (one of our stores, or the layout of another program)
//! walk, page by page with pauses  ->  a summary of bounded size: totals, histograms, the largest entries
//! ```
//!
//! Invariants: nothing is written; the memory of a summary does not grow with the store; ids of sessions are held for the
//! largest entries only and leave as digests. Not here: how results look, and how foreign layouts are read
//! (`sessile_stores::foreign`).

#![forbid(unsafe_code)]

mod largest;
mod own;
mod pace;
mod profile;
mod sizes;
mod spans;
mod summary;

use sessile_core::{Clock, Result};
use sessile_stores::foreign::{self, Layout, Walk};

pub use largest::Largest;
pub use pace::{Ended, Pace, Pass};
pub use profile::Profile;
pub use sizes::{SizeBucket, SizeHistogram};
pub use spans::{SPANS, SpanHistogram};
pub use summary::{BinTotals, Summary};

/// A walk that was opened, and what it walks through, in words that contain no password.
pub struct Opened {
    /// The redacted URL.
    pub label: String,
    /// The walk.
    pub walk: Box<dyn Walk>,
}

/// Opens what a URL names: one of our stores, or the layout of another program.
///
/// # Errors
///
/// `InvalidUrl` for an unknown scheme or option, `Unsupported` for a store that cannot list what it has, and whatever
/// keeps it from being opened.
pub fn open(url: &str, clock: &Clock) -> Result<Opened> {
    if Layout::of(url).is_some() {
        let (label, walk) = foreign::open(url, clock)?;
        return Ok(Opened { label, walk });
    }
    let (label, walk) = own::open(url, clock)?;
    Ok(Opened { label, walk: Box::new(walk) })
}
