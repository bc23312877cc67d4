//! The store that a storm goes over: a fixture of the registry, or a URL.

use std::path::PathBuf;

use sessile_core::{Capabilities, Clock, Locking, Ownership, Sessions};
use sessile_fixtures::Instance;
use sessile_stores::{Fixture, StoreEntry, StoreUrl, registry};

use crate::broken::{self, StoreFault};
use crate::case::Isolation;
use crate::check::Failure;
use crate::testbed::{fixture_name, start_instance};

const DEFAULTS: [&str; 2] = ["sessile", "files#shm"];

#[derive(Clone, Copy)]
pub(super) enum SpaceRule {
    Returned,
    /// But for the temporary files of killed writers, which are swept after 15 minutes.
    ReturnedButBegun,
    /// But for the table and the stamps, which keep the size they had with the most sessions.
    ReturnedButTable,
    /// A log gives emptied segments back one by one, with later changes.
    ReturnedInParts,
    Unchecked(&'static str),
}

pub struct StormTarget {
    /// What the report calls it.
    pub name: String,
    pub(super) url: String,
    /// Where its files are, if the harness made that place and may look.
    pub(super) dir: Option<PathBuf>,
    pub(super) space: SpaceRule,
    _instance: Option<Instance>,
}

/// What a storm is about: the death of a holder frees its lock, natively, without a server.
fn owned_by_process(capabilities: &Capabilities) -> bool {
    capabilities.locking == Locking::Native
        && capabilities.ownership == Ownership::Process
        && capabilities.shared_by_processes
        && capabilities.server.is_none()
}

fn space_rule(store: &str, fixture: &str) -> SpaceRule {
    match store {
        "sessile" if fixture.ends_with("#disk") => SpaceRule::ReturnedInParts,
        "sessile" => SpaceRule::ReturnedButTable,
        "files" | "route" => SpaceRule::ReturnedButBegun,
        "sqlite" => SpaceRule::Unchecked("a database file keeps its pages for reuse"),
        _ => SpaceRule::Returned,
    }
}

fn all_fixtures() -> impl Iterator<Item = (String, &'static StoreEntry, &'static Fixture)> {
    registry::STORES.iter().flat_map(|entry| {
        let named = move |fixture| (fixture_name(entry, fixture, '#'), entry, fixture);
        entry.fixtures.iter().map(named)
    })
}

impl StormTarget {
    /// The names of all fixtures that a storm can go over without a server.
    pub fn fixtures() -> Vec<String> {
        let fit = all_fixtures().filter(|(_, entry, _)| owned_by_process(&entry.capabilities));
        fit.map(|(name, ..)| name).collect()
    }

    /// The default of a long storm.
    pub fn default_name() -> &'static str {
        let built = |name: &&str| all_fixtures().any(|(fixture, ..)| fixture == **name);
        DEFAULTS.into_iter().find(built).unwrap_or("files#shm")
    }

    /// A fixture by name (`files#shm`), or a URL.
    pub fn parse(text: &str) -> Result<StormTarget, Failure> {
        StormTarget::start(text, None).unwrap_or_else(|| StormTarget::from_url(text))
    }

    /// The fixture behind a fault.
    pub fn broken(fault: StoreFault, fixture: &str) -> Result<StormTarget, Failure> {
        StormTarget::start(fixture, Some(fault))
            .unwrap_or_else(|| Err(Failure(format!("no fixture {fixture}"))))
    }

    fn start(name: &str, fault: Option<StoreFault>) -> Option<Result<StormTarget, Failure>> {
        let (name, entry, fixture) = all_fixtures().find(|(fixture, ..)| fixture == name)?;
        let instance = start_instance(entry, fixture, Isolation::Own);
        let target = instance.map(|instance| StormTarget {
            space: space_rule(entry.name, &name),
            name: fault.map_or(name, |fault| format!("broken-{}", fault.name())),
            url: broken::url(fault, instance.url()),
            dir: Some(instance.dir().to_owned()),
            _instance: Some(instance),
        });
        Some(target.map_err(|error| Failure(error.to_string())))
    }

    /// Somebody's store. Its files are not looked at: other things may lie beside them.
    fn from_url(url: &str) -> Result<StormTarget, Failure> {
        let shown = StoreUrl::parse(url)
            .map_err(|error| Failure(format!("neither a fixture nor a URL: {error}")))?;
        let space = SpaceRule::Unchecked("the store is not the harness's own");
        let (name, url) = (shown.redacted(), url.to_owned());
        Ok(StormTarget { name, url, dir: None, space, _instance: None })
    }

    pub(super) fn open(&self, clock: Clock) -> Result<Sessions, Failure> {
        broken::open(&self.url, clock).map_err(|error| Failure(format!("{error:#}")))
    }

    pub(super) fn occupied(&self) -> Option<u64> {
        self.dir.as_deref().map(super::space::occupied)
    }
}
