//! The registry: from a URL to an opened store. It also handles the options that all stores take.

use sessile_core::{Capabilities, Clock, Error, ErrorKind, Limits, Operation, Result, Sessions};

pub use crate::STORES;
use crate::encryption;
use crate::hashed_ids;
use crate::server_kind::ServerKind;
use crate::store_url::StoreUrl;

/// The registry's description of a store.
#[derive(Clone, Copy, Debug)]
pub struct StoreEntry {
    /// The registry name, as in `--stores` and in results.
    pub name: &'static str,
    /// The URL schemes of the store.
    pub schemes: &'static [&'static str],
    /// One sentence: what it is, and its users.
    pub sentence: &'static str,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Whether it is made of other stores, which its URL names. They decide what it can do;
    /// `capabilities` are those of its first fixture.
    pub decorates: bool,
    /// Its own URL options, besides [`COMMON_OPTIONS`].
    pub options: &'static [OptionHelp],
    /// The server named in `capabilities`, if it needs one.
    pub server: Option<&'static ServerKind>,
    /// Private instances for the conformance suite and the benchmark.
    pub fixtures: &'static [Fixture],
    /// Opens the store and creates what is missing. The URL has a scheme of `schemes` and only
    /// known options.
    pub open: fn(&StoreUrl, &Context) -> Result<Sessions>,
    /// Whether everything that `open` would create exists. Creates nothing.
    pub exists: fn(&StoreUrl) -> Result<bool>,
    /// Removes the store with all its sessions, and refuses while it is in use; or what to do
    /// instead.
    pub drop: std::result::Result<fn(&StoreUrl) -> Result<()>, &'static str>,
}

impl StoreEntry {
    /// Whether its URLs may have this option.
    pub(crate) fn takes_option(&self, name: &str) -> bool {
        self.option_names().any(|known| known == name)
    }

    fn option_names(&self) -> impl Iterator<Item = &'static str> {
        COMMON_OPTIONS.iter().chain(self.options).map(|option| option.name)
    }

    /// For a store whose `open` creates nothing.
    pub const ALWAYS_EXISTS: fn(&StoreUrl) -> Result<bool> = |_| Ok(true);

    /// For a store in a file or a directory: it exists if that is not empty. An unreadable one
    /// exists, so that `open` reports the error.
    pub const EXISTS_AT_PATH: fn(&StoreUrl) -> Result<bool> = |url| {
        let path = url.path()?;
        Ok(match std::fs::metadata(&path) {
            Ok(status) if status.is_dir() => {
                std::fs::read_dir(path).map_or(true, |mut names| names.next().is_some())
            }
            Ok(status) => status.len() > 0,
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        })
    };
}

/// One URL option.
#[derive(Clone, Copy, Debug)]
pub struct OptionHelp {
    /// The name.
    pub name: &'static str,
    /// Values, unit and default.
    pub help: &'static str,
}

pub(crate) const fn option(name: &'static str, help: &'static str) -> OptionHelp {
    OptionHelp { name, help }
}

/// A private instance of a store.
#[derive(Clone, Copy, Debug)]
pub struct Fixture {
    /// `default`, or its difference (`shm`, `php`): the `variant` of results.
    pub variant: &'static str,
    /// The URL. `{disk}` and `{shm}` stand for a fresh directory on disk or in shared memory,
    /// `{control}` for a second one in shared memory, `{socket}` for the unix socket of a private
    /// server ([`Capabilities::server`]), `{key}` for a file with a key for `seal`.
    pub url: &'static str,
}

/// The surroundings of a store.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The clock.
    pub clock: Clock,
}

pub(crate) const PAYLOAD_BYTES_MAX: &str = "payload_bytes_max";

/// Options that every store takes.
pub const COMMON_OPTIONS: &[OptionHelp] = &[
    option(
        PAYLOAD_BYTES_MAX,
        "largest payload in bytes; larger saves are refused (default 67108864, or the \
         store's own limit)",
    ),
    option(
        "ids",
        "plain (default) or hashed: store a digest, so that a stolen dump logs nobody in",
    ),
    option(
        encryption::OPTION,
        "file with the key that encrypts payloads, so that a stolen dump tells nothing",
    ),
];

/// Opens the store of a URL.
///
/// # Errors
///
/// `InvalidUrl` for an unknown scheme or option, and the store's own errors.
pub fn open(url: &str, context: &Context) -> Result<Sessions> {
    open_with_defaults(url, &[], context)
}

/// Opens the store of a URL to look at it: options that change the store for all its processes are
/// not applied.
///
/// # Errors
///
/// Those of [`open`].
pub fn open_to_look(url: &str, context: &Context) -> Result<Sessions> {
    opened(url, &[], LASTING_OPTIONS, context, CounterUse::Read)
}

/// Opens the store of a URL. Each option of `defaults` that the store takes and the URL lacks is
/// added to the URL.
///
/// # Errors
///
/// Those of [`open`].
pub(crate) fn open_with_defaults(
    url: &str,
    defaults: &[(&str, String)],
    context: &Context,
) -> Result<Sessions> {
    opened(url, defaults, &[], context, CounterUse::Count)
}

/// As [`open_with_defaults`], for a store that is part of another one, which counts for both.
///
/// # Errors
///
/// Those of [`open`].
pub(crate) fn open_inner(
    url: &str,
    defaults: &[(&str, String)],
    context: &Context,
) -> Result<Sessions> {
    opened(url, defaults, &[], context, CounterUse::None)
}

/// What a process does with the counters that all processes of a store share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CounterUse {
    /// It counts, and creates them if they are missing.
    Count,
    /// It reads them if they exist.
    Read,
    /// It leaves them alone.
    None,
}

/// The options that outlive the process which opens a store with them.
const LASTING_OPTIONS: &[&str] = &["size_bytes_max"];

fn opened(
    url: &str,
    defaults: &[(&str, String)],
    without: &[&str],
    context: &Context,
    counters: CounterUse,
) -> Result<Sessions> {
    let mut url = StoreUrl::parse(url)?;
    let (label, identity) = (url.redacted(), url.identity());
    let opened = entry_for(&url).and_then(|entry| {
        url.check_options(entry.name, &entry.option_names().collect::<Vec<_>>())?;
        without.iter().for_each(|name| url.without(name));
        for (name, value) in defaults.iter().filter(|(name, _)| entry.takes_option(name)) {
            url.set_default(name, value);
        }
        let hashed = url.word("ids", false, "plain, hashed", |word| match word {
            "plain" => Some(false),
            "hashed" => Some(true),
            _ => None,
        })?;
        let envelope = encryption::envelope(&url)?;
        if envelope.is_some() {
            // The limit of the URL is that of payloads as applications see them.
            let limit = encryption::widened(limits(&url)?.payload_bytes_max);
            url.set(PAYLOAD_BYTES_MAX, &limit.to_string());
        }
        let opened = counted(entry, (entry.open)(&url, context)?, &identity, counters);
        let sessions = match envelope {
            Some(envelope) => encryption::encrypt(opened, envelope)?,
            None => opened,
        };
        if hashed { sessions.storing_keys_as(hashed_ids::digest) } else { Ok(sessions) }
    });
    opened.map_err(|error| error.during(Operation::Open, &label, None))
}

/// Adds shared counters to a store. The engine has its own. A store that is made of others counts
/// for them: its URL is that of the workers.
#[cfg(feature = "sessile")]
fn counted(
    entry: &StoreEntry,
    sessions: Sessions,
    identity: &str,
    counters: CounterUse,
) -> Sessions {
    if !entry.capabilities.shared_by_processes || entry.name == "sessile" {
        return sessions;
    }
    let counters = match counters {
        CounterUse::Count => crate::counter_files::open_to_count(identity),
        CounterUse::Read => Some(crate::counter_files::open_to_read(identity)),
        CounterUse::None => None,
    };
    match counters {
        Some(counters) => sessions.counting_into(counters),
        None => sessions,
    }
}

#[cfg(not(feature = "sessile"))]
fn counted(_: &StoreEntry, sessions: Sessions, _: &str, _: CounterUse) -> Sessions {
    sessions
}

/// Refuses a URL of a store that does not exist, which [`open`] would create. Only `open` checks
/// that an existing store is sound, and ours.
///
/// # Errors
///
/// `Incompatible` when a file, directory or table is missing or empty, `InvalidUrl` for a malformed
/// URL, and the error of a server that cannot be asked.
pub fn check_exists(url: &str) -> Result<()> {
    let url = StoreUrl::parse(url)?;
    // Opening a URL of an unknown scheme lists the known ones.
    let exists = entry_for(&url).map_or(Ok(true), |entry| (entry.exists)(&url));
    let checked = exists.and_then(|exists| {
        let why = "there is no store of sessile here";
        let advice = "check the URL; for the store of another program, write its name first, as in \
                      drupal+mysql:";
        let missing = || Error::new(ErrorKind::Incompatible, why).advice(advice);
        exists.then_some(()).ok_or_else(missing)
    });
    checked.map_err(|error| error.during(Operation::Open, &url.redacted(), None))
}

/// A store that may be dropped, for a question before it is.
#[derive(Debug)]
pub struct PreparedDrop {
    /// The URL, without a password.
    pub label: String,
    url: StoreUrl,
    drop: fn(&StoreUrl) -> Result<()>,
}

impl PreparedDrop {
    /// Finds the existing store of a URL, and removes nothing.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a store that cannot tell whether it is in use, with what to do instead;
    /// those of [`check_exists`].
    pub fn new(url: &str) -> Result<PreparedDrop> {
        check_exists(url)?;
        let url = StoreUrl::parse(url)?;
        let label = url.redacted();
        let found = entry_for(&url).and_then(|entry| {
            url.check_options(entry.name, &entry.option_names().collect::<Vec<_>>())?;
            entry.drop.map_err(|instead| {
                let why = "it cannot tell whether it is in use, and is not dropped from here";
                Error::new(ErrorKind::Unsupported, why).advice(instead)
            })
        });
        let drop = found.map_err(|error| error.during(Operation::Drop, &label, None))?;
        Ok(PreparedDrop { label, url, drop })
    }

    /// Removes the store with all its sessions.
    ///
    /// # Errors
    ///
    /// The store's own, also when it is in use.
    pub fn carry_out(&self) -> Result<()> {
        (self.drop)(&self.url).map_err(|error| error.during(Operation::Drop, &self.label, None))
    }
}

/// The store with this registry name.
pub fn by_name(name: &str) -> Option<&'static StoreEntry> {
    STORES.iter().find(|entry| entry.name == name)
}

/// The store of a URL.
///
/// # Errors
///
/// `InvalidUrl`, which lists the known schemes.
pub fn entry_for(url: &StoreUrl) -> Result<&'static StoreEntry> {
    let known = STORES.iter().find(|entry| entry.schemes.contains(&url.scheme()));
    known.ok_or_else(|| {
        let schemes: Vec<&str> =
            STORES.iter().flat_map(|entry| entry.schemes.iter().copied()).collect();
        let why = format!("unknown store scheme {:?}", url.scheme());
        Error::new(ErrorKind::InvalidUrl, why)
            .advice(format!("known schemes: {}", schemes.join(", ")))
    })
}

/// The limits of a URL.
///
/// # Errors
///
/// `InvalidUrl` when the number is malformed.
pub fn limits(url: &StoreUrl) -> Result<Limits> {
    let default = Limits::default();
    let payload_bytes_max =
        url.number(PAYLOAD_BYTES_MAX, default.payload_bytes_max, 1..=u64::MAX)?;
    Ok(Limits { payload_bytes_max, ..default })
}

#[cfg(all(test, feature = "files", feature = "memory", feature = "sqlite"))]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_there_when_it_was_opened_once_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("empty")).unwrap();
        std::fs::write(dir.path().join("empty.db"), "").unwrap();
        for place in
            ["files:DIR/empty", "files:DIR/none", "sqlite:DIR/empty.db", "sqlite:DIR/none.db"]
        {
            let url = place.replace("DIR", &dir.path().display().to_string());
            for _ in 0..2 {
                let error = check_exists(&url).unwrap_err();
                assert_eq!(error.kind(), &ErrorKind::Incompatible, "{url}");
                assert!(format!("{error:#}").contains("no store of sessile"), "{error:#}");
            }
            drop(open(&url, &Context::default()).unwrap());
            check_exists(&url).unwrap();
        }
        check_exists("memory:").unwrap();
    }

    #[cfg(feature = "route")]
    #[test]
    fn a_store_that_is_made_of_others_is_there_when_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().display();
        let url = format!("route:?home=files:{place}/home&large=sqlite:{place}/large.db");
        let missing = |url: &str| check_exists(url).unwrap_err().to_string();
        assert!(missing(&url).contains("home"), "{}", missing(&url));
        drop(open(&format!("files:{place}/home"), &Context::default()).unwrap());
        assert!(missing(&url).contains("large.db"), "{}", missing(&url));
        assert!(!dir.path().join("large.db").exists());
        drop(open(&url, &Context::default()).unwrap());
        check_exists(&url).unwrap();
    }
}
