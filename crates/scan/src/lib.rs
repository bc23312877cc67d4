//! Scans a store by size, age and idle time, without disturbing it.
//!
//! ```text
//! URL -> walk (one of our stores, or the layout of another program)
//! walk, page by page with pauses -> summary of bounded size: totals, histograms, largest entries
//! ```
//!
//! Invariants: nothing is written (our stores do their usual upkeep on opening) and no store is
//! created; the memory of a summary does not grow with the store; session ids are held for the
//! largest entries only and leave as digests. Not here: the display of results, and foreign layouts
//! (`sessile_stores::layouts`).

#![forbid(unsafe_code)]

mod largest;
mod pace;
mod pause;
mod profile;
mod sizes;
mod spans;
mod store_walk;
mod summary;

use sessile_core::{Clock, Error, ErrorKind, Operation, Result};
use sessile_stores::layouts::{self, LAYOUTS, Layout, Walk};
use sessile_stores::registry::{STORES, entry_for};
use sessile_stores::{StoreUrl, registry};

pub use largest::Largest;
pub use pace::{ScanEnd, ScanPace, ScanPass};
pub use pause::Pause;
pub use profile::Profile;
pub use sizes::{SizeBucket, SizeHistogram};
pub use spans::{SPANS, SpanHistogram};
pub use summary::{BinTotals, ScanSummary};

/// An open walk with its label.
pub struct ScanSource {
    /// The redacted URL.
    pub label: String,
    /// The walk.
    pub walk: Box<dyn Walk>,
}

/// Opens the store or layout of a URL.
///
/// # Errors
///
/// `InvalidUrl` for an unknown scheme or option, `Unsupported` for a store that cannot list its
/// sessions, `Incompatible` if there is no store, and every error of opening.
pub fn open(url: &str, clock: &Clock) -> Result<ScanSource> {
    if Layout::of(url).is_some() {
        let (label, walk) = layouts::open(url, clock)?;
        return Ok(ScanSource { label, walk });
    }
    check_scheme(&StoreUrl::parse(url)?)?;
    registry::check_exists(url)?;
    let (label, walk) = store_walk::open(url, clock)?;
    Ok(ScanSource { label, walk: Box::new(walk) })
}

/// The registry does not know layouts; after a typing error the user must see their schemes.
fn check_scheme(url: &StoreUrl) -> Result<()> {
    if entry_for(url).is_ok() {
        return Ok(());
    }
    let stores = STORES.iter().flat_map(|store| store.schemes).map(|scheme| scheme.to_string());
    let schemes: Vec<String> = stores.chain(LAYOUTS.iter().flat_map(Layout::schemes)).collect();
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
