//! What other programs keep, looked at and never changed: PHP's own handlers, Drupal, Symfony, Django.
//!
//! A layout is a program and the place where it keeps its sessions, and a line of [`LAYOUTS`], from which the parser of
//! URLs, the help and the documentation come. Its URL is that of the place behind the name of the program:
//! `php+files:/var/lib/php/sessions`, `drupal+mysql://user@host/database`.
//!
//! Invariants: nothing is ever written, created or locked for longer than one page; no payload leaves the place where it
//! is; memory is bounded by a page. Not here: what is done with what is seen, and our own stores, which list themselves.

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod database;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod django;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod drupal;
mod entry;
#[cfg(feature = "files")]
mod php_files;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod symfony;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) mod table;

use sessile_core::{Clock, Error, ErrorKind, Operation, Result};

pub use entry::{Name, Seen, Sizes};

use crate::registry::OptionHelp;
use crate::store_url::{StoreUrl, invalid, shown};

/// Looks at entries, page by page.
pub trait Walk {
    /// Looks at about as many further entries as this, and shows those that are ours to see; false at the end.
    ///
    /// An entry that exists during the whole walk is shown at least once, perhaps twice.
    ///
    /// # Errors
    ///
    /// When the place fails. What was shown before stays true.
    fn page(&mut self, entries_max: usize, show: &mut dyn FnMut(Seen)) -> Result<bool>;

    /// What the sizes of this walk are the sizes of.
    fn sizes(&self) -> Sizes {
        Sizes::Payload
    }
}

/// A program and the place where it keeps its sessions.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// What stands before the colon of its URLs; the first is its name.
    pub schemes: &'static [&'static str],
    /// What is looked at.
    pub reads: &'static str,
    /// A URL.
    pub example: &'static str,
    /// Its own URL options.
    pub options: &'static [OptionHelp],
    /// Those of the connection, which our own store in such a place takes, too; by the scheme of the place.
    pub of_connection: fn(&str) -> &'static [OptionHelp],
    /// Opens it. The URL is without the name of the program and has only known options.
    pub(crate) open: fn(&StoreUrl, &Clock) -> Result<Box<dyn Walk>>,
}

/// Every layout that this build contains, in the order of every table.
pub const LAYOUTS: &[Layout] = &[
    #[cfg(feature = "files")]
    php_files::LAYOUT,
    #[cfg(feature = "redis")]
    crate::redis::php::LAYOUT,
    #[cfg(feature = "memcached")]
    crate::memcached::php::LAYOUT,
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    drupal::LAYOUT,
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    symfony::LAYOUT,
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    django::LAYOUT,
];

impl Layout {
    /// The layout that a URL names, if it is not that of one of our stores.
    pub fn of(url: &str) -> Option<&'static Layout> {
        let scheme = url.split(':').next().unwrap_or_default().to_ascii_lowercase();
        LAYOUTS.iter().find(|layout| layout.schemes.contains(&scheme.as_str()))
    }
}

/// Begins a walk, and says what it walks through, in words that contain no password.
///
/// # Errors
///
/// `InvalidUrl` for an unknown layout or option, and whatever keeps the place from being opened.
pub fn open(url: &str, clock: &Clock) -> Result<(String, Box<dyn Walk>)> {
    let layout = Layout::of(url).ok_or_else(|| {
        let schemes: Vec<&str> = LAYOUTS.iter().flat_map(|layout| layout.schemes.iter().copied()).collect();
        invalid("the URL names no layout of another program").advice(format!("known: {}", schemes.join(", ")))
    })?;
    let (program, rest) = url.split_once('+').unwrap_or(("", url));
    let place = StoreUrl::parse(rest)?;
    let label = format!("{}+{}", program.to_ascii_lowercase(), place.redacted());
    let opened = check_options(layout, &place).and_then(|()| (layout.open)(&place, clock));
    match opened {
        Ok(walk) => Ok((label.clone(), Box::new(Labelled { label, walk }))),
        Err(error) => Err(error.during(Operation::Open, &label, None)),
    }
}

/// A walk whose failures say where they were.
struct Labelled {
    label: String,
    walk: Box<dyn Walk>,
}

impl Walk for Labelled {
    fn page(&mut self, entries_max: usize, show: &mut dyn FnMut(Seen)) -> Result<bool> {
        self.walk.page(entries_max, show).map_err(|error| error.during(Operation::List, &self.label, None))
    }

    fn sizes(&self) -> Sizes {
        self.walk.sizes()
    }
}

fn check_options(layout: &Layout, url: &StoreUrl) -> Result<()> {
    let known = || layout.options.iter().chain((layout.of_connection)(url.scheme())).map(|option| option.name);
    match url.option_names().find(|name| !known().any(|known| known == *name)) {
        None => Ok(()),
        Some(name) => {
            let known: Vec<&str> = known().collect();
            let why = format!("unknown option {}", shown(name));
            Err(Error::new(ErrorKind::InvalidUrl, why).advice(format!("it takes: {}", known.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_a_url_of_its_own_layout() {
        for layout in LAYOUTS {
            assert_eq!(Layout::of(layout.example).map(|found| found.schemes), Some(layout.schemes));
            let (_, rest) = layout.example.split_once('+').unwrap();
            check_options(layout, &StoreUrl::parse(rest).unwrap()).unwrap();
            for scheme in layout.schemes {
                assert!(scheme.contains('+'), "{scheme} could be one of our own stores");
            }
        }
    }

    #[test]
    fn a_url_that_is_refused_shows_no_password() {
        for url in ["php+files://u:s3cret@host/x", "php+files:/x?s3-cret=1", "files:/x", "nonsense"] {
            let error = open(url, &Clock::system()).err().unwrap();
            assert_eq!(error.kind(), &ErrorKind::InvalidUrl, "{url}");
            assert!(!format!("{error:#}").contains("cret"), "{url}: {error:#}");
        }
    }
}
