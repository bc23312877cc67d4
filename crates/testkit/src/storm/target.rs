//! Which store the storm goes over: a fixture of the registry, or a URL.

use std::path::{Path, PathBuf};

use sessile_core::{Capabilities, Clock, Durability, Locking, Ownership};
use sessile_fixtures::{Instance, ServerOptions};
use sessile_stores::{Fixture, StoreEntry, StoreUrl, registry};

use crate::broken::Fault;
use crate::check::Failure;
use crate::opener;

/// The store that Sessile recommends, and what stands in for it in a build without it.
const DEFAULTS: [&str; 2] = ["sessile", "files#shm"];

/// What is checked about space in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceRule {
    /// Back near its empty size.
    Back,
    /// The same, but what a killed writer had begun stays for a while.
    BackButBegun(&'static str),
    /// The same, but a part of what was in use waits to be used again.
    BackButKept(&'static str),
    /// Not checked, for this reason.
    Unchecked(&'static str),
}

/// A store to try.
pub struct Target {
    /// What the report calls it.
    pub name: String,
    /// How it is opened.
    pub url: String,
    /// Where its files are, if the harness made that place and may look.
    pub dir: Option<PathBuf>,
    /// What is checked about space.
    pub space: SpaceRule,
    /// Removes the place when dropped.
    _instance: Option<Instance>,
}

/// Whether the death of a holder is what frees its lock, natively, without a server: what a storm is about.
fn owned_by_process(capabilities: &Capabilities) -> bool {
    capabilities.locking == Locking::Native
        && capabilities.ownership == Ownership::Process
        && capabilities.shared_by_processes
        && capabilities.server.is_none()
}

fn space_rule(store: &str, fixture: &str) -> SpaceRule {
    match store {
        "sessile" if fixture.ends_with("#disk") => {
            SpaceRule::BackButKept("a log gives emptied segments back one by one, with later changes")
        }
        "files" | "route" => SpaceRule::BackButBegun("the temporary file of a killed writer is swept after 15 minutes"),
        "sqlite" => SpaceRule::Unchecked("a database file keeps its pages for reuse"),
        _ => SpaceRule::Back,
    }
}

impl Target {
    /// The names of all fixtures that a storm can go over without a server.
    pub fn fixtures() -> Vec<String> {
        let fit = registry::STORES.iter().filter(|entry| owned_by_process(&entry.capabilities));
        fit.flat_map(|entry| entry.fixtures.iter().map(|fixture| name_of(entry, fixture))).collect()
    }

    /// The default of a long storm.
    pub fn default_name() -> &'static str {
        DEFAULTS.into_iter().find(|name| find(name).is_some()).unwrap_or("files#shm")
    }

    /// A fixture by name (`files#shm`), or a URL.
    pub fn of(text: &str) -> Result<Target, Failure> {
        match find(text) {
            Some((entry, fixture)) => Target::start(entry, fixture, Fault::None),
            None => Target::at(text),
        }
    }

    /// The fixture behind a fault.
    pub fn broken(fault: Fault, fixture: &str) -> Result<Target, Failure> {
        let (entry, fixture) = find(fixture).ok_or_else(|| Failure(format!("no fixture {fixture}")))?;
        Target::start(entry, fixture, fault)
    }

    fn start(entry: &StoreEntry, fixture: &Fixture, fault: Fault) -> Result<Target, Failure> {
        let durability = entry.capabilities.durability.iter().min().copied().unwrap_or(Durability::None);
        let options = ServerOptions { durability, ..ServerOptions::default() };
        let instance = Instance::start(entry, fixture, &options).map_err(|error| Failure(error.to_string()))?;
        let (url, name) = match fault {
            Fault::None => (instance.url().to_owned(), name_of(entry, fixture)),
            fault => (opener::broken_url(fault, instance.url()), format!("broken-{}", fault.name())),
        };
        let dir = Some(instance.dir().to_owned());
        Ok(Target {
            name,
            url,
            dir,
            space: space_rule(entry.name, &name_of(entry, fixture)),
            _instance: Some(instance),
        })
    }

    /// Somebody's store. Its files are not looked at: other things may lie beside them.
    fn at(url: &str) -> Result<Target, Failure> {
        let shown = StoreUrl::parse(url).map_err(|error| Failure(format!("neither a fixture nor a URL: {error}")))?;
        let space = SpaceRule::Unchecked("the store is not the harness's own");
        Ok(Target { name: shown.redacted(), url: url.to_owned(), dir: None, space, _instance: None })
    }

    /// Opens it.
    pub fn open(&self, clock: Clock) -> Result<sessile_core::Sessions, Failure> {
        opener::open(&self.url, clock).map_err(|error| Failure(format!("{error:#}")))
    }

    /// The bytes that its files occupy now.
    pub fn occupied(&self) -> Option<u64> {
        self.dir.as_deref().map(|dir: &Path| super::space::occupied(dir))
    }
}

fn name_of(entry: &StoreEntry, fixture: &Fixture) -> String {
    if fixture.variant == "default" { entry.name.to_owned() } else { format!("{}#{}", entry.name, fixture.variant) }
}

fn find(name: &str) -> Option<(&'static StoreEntry, &'static Fixture)> {
    let all = registry::STORES.iter().flat_map(|entry| entry.fixtures.iter().map(move |fixture| (entry, fixture)));
    all.into_iter().find(|(entry, fixture)| name_of(entry, fixture) == name)
}
