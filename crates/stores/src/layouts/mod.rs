//! Sessions of other programs, read and never changed: PHP's own handlers, Apache::Session, Drupal,
//! Symfony, Django.
//!
//! A layout is a program and the storage of its sessions: a line of [`LAYOUTS`], from which the URL
//! parser, the help and the documentation come. Its URL is the storage's URL with the program in
//! front: `php+files:/var/lib/php/sessions`, `drupal+mysql://user@host/database`.
//!
//! Invariants: a walk writes and creates nothing, locks nothing for longer than a page, transfers
//! no payload, and holds no more than a page in memory. A payload is transferred only on demand,
//! one at a time, for `sessile copy`. Our own stores list themselves.

#[cfg(feature = "files")]
mod apache_session;
#[cfg(feature = "sql")]
mod django;
#[cfg(feature = "sql")]
mod drupal;
mod ending;
mod foreign_session;
#[cfg(feature = "mysql")]
mod mysql_database;
#[cfg(feature = "files")]
mod php_files;
#[cfg(feature = "memcached")]
mod php_memcached;
#[cfg(feature = "redis")]
mod php_redis;
#[cfg(feature = "postgres")]
mod postgres_database;
mod scanned;
#[cfg(feature = "sqlite")]
mod sqlite_database;
#[cfg(feature = "sql")]
mod symfony;
#[cfg(feature = "sql")]
pub(crate) mod table;

use std::time::Duration;

use sessile_core::{Clock, Operation, Result, Sessions};

pub use ending::end_without_tombstone;
pub use foreign_session::ForeignSession;
pub use scanned::{EntryName, ScannedEntry, Sizes};

use crate::registry::OptionHelp;
use crate::store_url::{StoreUrl, invalid};

/// A walk through entries, page by page.
pub trait Walk {
    /// Shows about `entries_max` further entries; returns false at the end.
    ///
    /// An entry that exists during the whole walk is shown at least once, perhaps twice. Errors:
    /// those of the storage. Entries that were shown before stay valid.
    fn page(&mut self, entries_max: usize, show: &mut dyn FnMut(ScannedEntry)) -> Result<bool>;

    /// About how many entries there are, for a bar of progress; `None` if the storage cannot tell
    /// without a walk.
    fn count(&mut self) -> Option<u64> {
        None
    }

    /// The meaning of this walk's sizes.
    fn sizes(&self) -> Sizes {
        Sizes::Payload
    }

    /// Whether [`Walk::read`] works: `Unsupported` otherwise, with the reason.
    fn check_contents(&self) -> Result<()> {
        foreign_session::reads_no_contents()
    }

    /// The session of an entry that this walk has shown; `None` if it has ended meanwhile.
    ///
    /// # Errors
    ///
    /// `Corrupt` if the content is not what the program writes; those of the storage.
    fn read(&mut self, entry: &ScannedEntry) -> Result<Option<ForeignSession>> {
        let _ = entry;
        self.check_contents().map(|()| None)
    }
}

/// A program and the storage of its sessions.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The program: the first part of the schemes of its URLs.
    pub program: &'static str,
    /// The schemes of the storages, which follow it after a `+`.
    pub storages: &'static [&'static str],
    /// What it reads, for the help.
    pub reads: &'static str,
    /// An example of its URL.
    pub example: &'static str,
    /// Its own URL options.
    pub options: &'static [OptionHelp],
    /// The options of the connection, by the scheme of the storage; our own store there takes them
    /// too.
    pub of_connection: fn(&str) -> &'static [OptionHelp],
    /// The option with which a walk shows sessions and nothing else, if it needs one.
    pub(crate) sessions_only: Option<(&'static str, &'static str)>,
    /// Opens it as one of the two stores of sessions that move.
    pub(crate) store: Option<OpenStore>,
    /// Opens it. The URL is without the program's name and has only known options.
    pub(crate) open: fn(&StoreUrl, &Clock) -> Result<Box<dyn Walk>>,
}

/// One of the two stores of sessions that move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The old store: sessions are found, locked and ended there, and nothing new is written.
    Old,
    /// The new store: sessions are saved there as the program saves them.
    New,
}

/// From a URL, its label, how long a lock lives whose holder has died, and the clock.
pub(crate) type OpenStore = fn(&StoreUrl, String, (Side, Duration), &Clock) -> Result<Sessions>;

/// The layouts of this build, in the order of every table.
pub const LAYOUTS: &[Layout] = &[
    #[cfg(feature = "files")]
    php_files::LAYOUT,
    #[cfg(feature = "redis")]
    php_redis::LAYOUT,
    #[cfg(feature = "memcached")]
    php_memcached::LAYOUT,
    #[cfg(feature = "files")]
    apache_session::LAYOUT,
    #[cfg(feature = "sql")]
    drupal::LAYOUT,
    #[cfg(feature = "sql")]
    symfony::LAYOUT,
    #[cfg(feature = "sql")]
    django::LAYOUT,
];

impl Layout {
    /// The layout of a URL; `None` for one of our stores.
    pub fn of(url: &str) -> Option<&'static Layout> {
        let scheme = url.split(':').next()?.to_ascii_lowercase();
        LAYOUTS.iter().find(|layout| layout.schemes().any(|known| known == scheme))
    }

    /// The schemes of its URLs; the first is its name.
    pub fn schemes(&self) -> impl Iterator<Item = String> {
        self.storages.iter().map(|storage| format!("{}+{storage}", self.program))
    }
}

/// Begins a walk. Returns its label, without a password.
pub fn open(url: &str, clock: &Clock) -> Result<(String, Box<dyn Walk>)> {
    opened(url, clock, |_, _| {})
}

/// Begins a walk through sessions whose contents can be read.
///
/// # Errors
///
/// `Unsupported`, with the reason; those of [`open`].
pub fn open_to_copy(url: &str, clock: &Clock) -> Result<(String, Box<dyn Walk>)> {
    let (label, walk) = opened(url, clock, |layout, place| {
        if let Some((option, value)) = layout.sessions_only {
            place.set_default(option, value);
        }
    })?;
    let checked = walk.check_contents();
    checked.map_err(|error| error.during(Operation::Open, &label, None))?;
    Ok((label, walk))
}

/// Opens another program's sessions as one of the two stores of those that move.
///
/// # Errors
///
/// `Unsupported` for a program whose sessions do not move; those of the storage.
pub fn open_to_move(url: &str, side: Side, lock_ttl: Duration, clock: &Clock) -> Result<Sessions> {
    let (layout, place, label) = parsed(url)?;
    let opened = check_options(layout, &place).and_then(|()| match layout.store {
        Some(open) => open(&place, label.clone(), (side, lock_ttl), clock),
        None => Err(foreign_session::not_copied("these sessions do not move")
            .advice("copy them while the site stands still, without --move")),
    });
    opened.map_err(|error| error.during(Operation::Open, &label, None))
}

/// The layout of a URL, the URL without the program, and its label.
fn parsed(url: &str) -> Result<(&'static Layout, StoreUrl, String)> {
    let layout = Layout::of(url).ok_or_else(|| {
        let schemes: Vec<String> = LAYOUTS.iter().flat_map(Layout::schemes).collect();
        invalid("the URL names no layout of another program")
            .advice(format!("known: {}", schemes.join(", ")))
    })?;
    let place = StoreUrl::parse(url.split_once('+').map_or(url, |(_, rest)| rest))?;
    let label = format!("{}+{}", layout.program, place.redacted());
    Ok((layout, place, label))
}

fn opened(
    url: &str,
    clock: &Clock,
    with_options: fn(&Layout, &mut StoreUrl),
) -> Result<(String, Box<dyn Walk>)> {
    let (layout, mut place, label) = parsed(url)?;
    with_options(layout, &mut place);
    match check_options(layout, &place).and_then(|()| (layout.open)(&place, clock)) {
        Ok(walk) => Ok((label.clone(), Box::new(Labelled { label, walk }))),
        Err(error) => Err(error.during(Operation::Open, &label, None)),
    }
}

struct Labelled {
    label: String,
    walk: Box<dyn Walk>,
}

impl Walk for Labelled {
    fn page(&mut self, entries_max: usize, show: &mut dyn FnMut(ScannedEntry)) -> Result<bool> {
        self.walk
            .page(entries_max, show)
            .map_err(|error| error.during(Operation::List, &self.label, None))
    }

    fn count(&mut self) -> Option<u64> {
        self.walk.count()
    }

    fn sizes(&self) -> Sizes {
        self.walk.sizes()
    }

    fn check_contents(&self) -> Result<()> {
        self.walk.check_contents()
    }

    fn read(&mut self, entry: &ScannedEntry) -> Result<Option<ForeignSession>> {
        let read = self.walk.read(entry);
        read.map_err(|error| error.during(Operation::Peek, &self.label, None))
    }
}

fn check_options(layout: &Layout, url: &StoreUrl) -> Result<()> {
    let known = layout.options.iter().chain((layout.of_connection)(url.scheme()));
    url.check_options("it", &known.map(|option| option.name).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_a_url_of_its_own_layout() {
        for layout in LAYOUTS {
            let found = Layout::of(layout.example).unwrap();
            assert!(found.schemes().eq(layout.schemes()));
            let (_, rest) = layout.example.split_once('+').unwrap();
            check_options(layout, &StoreUrl::parse(rest).unwrap()).unwrap();
        }
    }

    #[test]
    fn a_url_that_is_refused_shows_no_password() {
        for url in ["php+files://u:s3cret@host/x", "php+files:/x?s3-cret=1", "files:/x", "nonsense"]
        {
            let error = open(url, &Clock::system()).err().unwrap();
            assert_eq!(error.kind().code(), "invalid-url", "{url}");
            assert!(!format!("{error:#}").contains("cret"), "{url}: {error:#}");
        }
    }
}
