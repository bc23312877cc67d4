//! A scan: what is in a store, by size, age and idle time, without disturbing it.
//!
//! ```text
//! open a URL  ->  a walk (one of our stores, or the layout of another program)
//! walk, page by page with pauses  ->  a summary of bounded size: totals, histograms, the largest entries
//! ```
//!
//! Invariants: nothing is written, and a store that is not there is not made (ours do some upkeep of their own when they are
//! opened); the memory of a summary does not grow with the store; ids of sessions are held for the largest entries only and
//! leave as digests. Not here: how results look, and how foreign layouts are read (`sessile_stores::foreign`).

#![forbid(unsafe_code)]

mod largest;
mod own;
mod pace;
mod profile;
mod sizes;
mod spans;
mod summary;

use sessile_core::{Clock, Error, ErrorKind, Operation, Result};
use sessile_stores::foreign::{self, LAYOUTS, Layout, Walk};
use sessile_stores::registry::{STORES, entry_for};
use sessile_stores::{StoreUrl, presence};

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
/// `InvalidUrl` for an unknown scheme or option, `Unsupported` for a store that cannot list what it has, `Incompatible` when
/// there is no store, and whatever keeps it from being opened.
pub fn open(url: &str, clock: &Clock) -> Result<Opened> {
    if Layout::of(url).is_some() {
        let (label, walk) = foreign::open(url, clock)?;
        return Ok(Opened { label, walk });
    }
    check_scheme(&StoreUrl::parse(url)?)?;
    presence::check(url)?;
    let (label, walk) = own::open(url, clock)?;
    Ok(Opened { label, walk: Box::new(walk) })
}

/// The registry knows of no layouts; who has mistyped one must see them.
fn check_scheme(url: &StoreUrl) -> Result<()> {
    if entry_for(url).is_ok() {
        return Ok(());
    }
    let stores = STORES.iter().flat_map(|store| store.schemes);
    let schemes: Vec<&str> = stores.chain(LAYOUTS.iter().flat_map(|layout| layout.schemes)).copied().collect();
    let error = Error::new(ErrorKind::InvalidUrl, format!("unknown scheme {:?}", url.scheme()))
        .advice(format!("known schemes: {}", schemes.join(", ")));
    Err(error.during(Operation::Open, &url.redacted(), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_mistyped_a_layout_sees_the_layouts() {
        let error = open("durpal+mysql://u:s3cret@host/shop", &Clock::system()).err().unwrap();
        assert_eq!(error.kind(), &ErrorKind::InvalidUrl);
        let text = format!("{error:#}");
        for scheme in ["drupal+mysql", "php+files", "files", "redis"] {
            assert!(text.split([' ', ',']).any(|word| word == scheme), "{scheme}: {text}");
        }
        assert!(!text.contains("s3cret"), "{text}");
    }

    #[test]
    fn what_is_not_there_is_not_made() {
        let dir = std::env::temp_dir().join(format!("sessile-scan-none-{}", std::process::id()));
        let url = format!("files:{}", dir.display());
        assert!(open(&url, &Clock::system()).is_err());
        assert!(!dir.exists());
    }
}
