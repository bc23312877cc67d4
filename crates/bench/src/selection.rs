//! From `--stores` to contenders.

use sessile_core::{Capabilities, Durability, Locking, Ownership};
use sessile_fixtures::ServerKind;
use sessile_stores::registry::{self, STORES};
use sessile_stores::{Fixture, StoreEntry, StoreUrl};

use crate::experiment::Experiment;
use crate::naming;
use crate::options::UsageError;
use crate::oversize;
use crate::perl::Keeper;
use crate::php::Handler;
use crate::redact;
use crate::reference::{self, AfterDeath, REFERENCES, Reference};
use crate::stock;

/// One contender that was chosen.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The registry name, or that of the reference row.
    pub store: &'static str,
    /// What makes it different from others of the same name.
    pub variant: String,
    /// Its URL without directories, hosts and secrets.
    pub shown_url: String,
    /// What is opened.
    pub target: Target,
    /// Whether it is reached over a socket.
    pub over_socket: bool,
    /// Whether several workers can share it.
    pub shared_by_processes: bool,
    /// Whether sessions can be added while it is measured.
    pub creates: bool,
    /// Whether each request connects anew.
    pub reconnects: bool,
    /// The tier, in words; `as configured` for a server that is not ours.
    pub durability: &'static str,
}

/// What is opened.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// A private instance of a store.
    Fixture(&'static StoreEntry, &'static Fixture),
    /// The same, with further arguments for its server.
    FixtureOn(&'static StoreEntry, &'static Fixture, &'static [&'static str]),
    /// An existing store.
    Url(&'static StoreEntry, &'static str),
    /// A reference row.
    Reference(&'static Reference),
    /// A session handler of PHP, in PHP's own processes.
    Handler(&'static Handler),
    /// A keeper of sessions in Perl, in a process of Perl.
    Keeper(&'static Keeper),
    /// A contender that a test brings along: its name and its directory.
    #[doc(hidden)]
    Test(&'static str, &'static str),
}

/// A contender or row that is not measured, and why.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LeftOut {
    /// Its name.
    pub store: String,
    /// Its variant.
    pub variant: String,
    /// At how many workers; all when `None`.
    pub workers: Option<usize>,
    /// Why.
    pub reason: String,
}

/// What `--stores` means.
#[derive(Default)]
pub(crate) struct Selection {
    pub choices: Vec<Choice>,
    pub left_out: Vec<LeftOut>,
}

impl Selection {
    /// Takes a contender in, or leaves it out if there is an obstacle.
    pub(crate) fn add(&mut self, choice: Choice, obstacle: Option<String>) {
        match obstacle {
            None => self.choices.push(choice),
            Some(reason) => self.left_out.push(choice.left_out(reason)),
        }
    }

    /// It, unless nothing is left to measure.
    pub(crate) fn or_nothing(self) -> Result<Selection, UsageError> {
        if self.choices.is_empty() {
            return Err(UsageError(format!("nothing is left to measure: {}", reasons(&self.left_out))));
        }
        Ok(self)
    }
}

/// Who was left out, and why, in one line.
pub(crate) fn reasons(left_out: &[LeftOut]) -> String {
    let reasons: Vec<String> = left_out.iter().map(|left| format!("{}: {}", left.store, left.reason)).collect();
    reasons.join("; ")
}

impl LeftOut {
    /// Name and variant as one word, and at how many workers if not at all numbers of them.
    pub fn title(&self) -> String {
        let workers = self.workers.map_or(String::new(), |workers| format!(" at {workers} workers"));
        naming::title(&self.store, &self.variant) + &workers
    }
}

impl Choice {
    /// Name and variant as one word.
    pub fn title(&self) -> String {
        naming::title(self.store, &self.variant)
    }

    /// It as one that is not measured, at no number of workers.
    pub(crate) fn left_out(&self, reason: impl Into<String>) -> LeftOut {
        let (store, variant) = (self.store.to_owned(), self.variant.clone());
        LeftOut { store, variant, workers: None, reason: reason.into() }
    }

    /// What becomes of the lock of a killed holder.
    pub(crate) fn after_death(&self) -> AfterDeath {
        match self.target {
            Target::Fixture(entry, _) | Target::FixtureOn(entry, ..) | Target::Url(entry, _) => {
                let can = entry.capabilities;
                match (can.locking, can.ownership) {
                    _ if !can.shared_by_processes => AfterDeath::NoLock,
                    (Locking::None, _) => AfterDeath::NoLock,
                    (_, Ownership::Process) => AfterDeath::Freed,
                    (_, Ownership::Time) => AfterDeath::Lapses,
                }
            }
            Target::Reference(reference) => reference.after_death,
            Target::Test(..) => AfterDeath::Freed,
            Target::Handler(_) | Target::Keeper(_) => AfterDeath::NoLock,
        }
    }
}

/// The tier of a server that is not ours: nobody asked it.
pub(crate) const AS_CONFIGURED: &str = "as configured";

/// The variant of a store on a server that connects anew for each request, as programs do that keep no connections.
pub(crate) const RECONNECT: &str = "reconnect";

/// Chooses contenders. Naming none means all that this machine can run and that the experiment is about.
pub(crate) fn select(
    stores: &[String],
    experiment: Experiment,
    durability: Durability,
) -> Result<Selection, UsageError> {
    let mut candidates = Vec::new();
    if stores.is_empty() {
        // What is made of others costs what they cost; where that is not so, it is named.
        for entry in STORES.iter().filter(|entry| !entry.decorates) {
            candidates.extend(entry.fixtures.iter().map(|fixture| of_fixture(entry, fixture, durability)));
            if experiment == Experiment::Ops {
                candidates.extend(reconnecting(entry, durability));
            }
        }
        if experiment == Experiment::Oversize {
            candidates.extend(oversize::choices(durability));
        }
        let about = |reference: &&Reference| reference.loses_large == (experiment == Experiment::Oversize);
        candidates.extend(REFERENCES.iter().filter(about).map(|reference| of_reference(reference, durability)));
    }
    for word in stores {
        named(word.trim(), durability, &mut candidates)?;
    }
    let mut selection = Selection::default();
    for candidate in candidates {
        let twice = |choice: &Choice| choice.store == candidate.store && choice.variant == candidate.variant;
        if selection.choices.iter().any(twice) {
            let title = candidate.title();
            return Err(UsageError(format!("{title} is chosen twice; label URLs with #name to tell them apart")));
        }
        let obstacle = obstacle(&candidate, durability);
        selection.add(candidate, obstacle);
    }
    selection.or_nothing()
}

/// Whether a word names something that can be chosen.
pub(crate) fn is_known(word: &str, durability: Durability) -> bool {
    named(word.trim(), durability, &mut Vec::new()).is_ok()
}

fn named(word: &str, durability: Durability, candidates: &mut Vec<Choice>) -> Result<(), UsageError> {
    if word.contains(':') {
        candidates.push(of_url(word, durability)?);
        return Ok(());
    }
    let (name, variant) = naming::parts(word);
    if let Some(reference) = reference::by_name(name).filter(|_| variant.is_none()) {
        candidates.push(of_reference(reference, durability));
        return Ok(());
    }
    let Some(entry) = registry::by_name(name) else {
        let known: Vec<&str> =
            STORES.iter().map(|entry| entry.name).chain(REFERENCES.iter().map(|reference| reference.name)).collect();
        // A password with a comma in it arrives here in pieces.
        let shown = if name.contains(['@', '/']) { String::new() } else { format!(" {name:?}") };
        let known = known.join(", ");
        return Err(UsageError(format!("unknown store{shown}; known: {known}, or a URL (a comma in it is %2C)")));
    };
    let by_name = oversize::choices(durability).into_iter().chain(stock::choices(durability));
    if let Some(choice) = by_name.into_iter().find(|choice| choice.title() == word) {
        candidates.push(choice);
        return Ok(());
    }
    if variant == Some(RECONNECT)
        && let Some(choice) = reconnecting(entry, durability)
    {
        candidates.push(choice);
        return Ok(());
    }
    let chosen: Vec<&Fixture> =
        entry.fixtures.iter().filter(|fixture| variant.is_none_or(|variant| variant == fixture.variant)).collect();
    if chosen.is_empty() {
        let mut known: Vec<&str> = entry.fixtures.iter().map(|fixture| fixture.variant).collect();
        known.extend(entry.capabilities.server.map(|_| RECONNECT));
        known.extend(stock::choices(durability).filter(|it| it.store == name).map(|_| stock::VARIANT));
        return Err(UsageError(format!("{name} has no variant of that name; known: {}", known.join(", "))));
    }
    candidates.extend(chosen.into_iter().map(|fixture| of_fixture(entry, fixture, durability)));
    Ok(())
}

pub(crate) fn of_fixture(entry: &'static StoreEntry, fixture: &'static Fixture, durability: Durability) -> Choice {
    Choice {
        store: entry.name,
        variant: fixture.variant.to_owned(),
        shown_url: fixture.url.replace('{', "<").replace('}', ">"),
        target: Target::Fixture(entry, fixture),
        over_socket: entry.capabilities.server.is_some(),
        shared_by_processes: entry.capabilities.shared_by_processes,
        creates: true,
        reconnects: false,
        durability: durability.name(),
    }
}

/// A store on a server, connecting anew for each request.
fn reconnecting(entry: &'static StoreEntry, durability: Durability) -> Option<Choice> {
    let fixture = entry.fixtures.first().filter(|_| entry.capabilities.server.is_some())?;
    let choice = of_fixture(entry, fixture, durability);
    Some(Choice { variant: RECONNECT.to_owned(), reconnects: true, ..choice })
}

fn of_reference(reference: &'static Reference, durability: Durability) -> Choice {
    Choice {
        store: reference.name,
        variant: "default".to_owned(),
        shown_url: format!("{}:", reference.name),
        target: Target::Reference(reference),
        over_socket: reference.server.is_some(),
        shared_by_processes: reference.shared_by_processes,
        creates: reference.creates,
        reconnects: false,
        durability: durability.name(),
    }
}

fn of_url(text: &str, durability: Durability) -> Result<Choice, UsageError> {
    let usage = |error: sessile_core::Error| UsageError(format!("{error}"));
    let url = StoreUrl::parse(text).map_err(usage)?;
    let entry = registry::entry_for(&url).map_err(usage)?;
    let takes_durability = entry.options.iter().any(|option| option.name == "durability");
    let given = url.text("durability").and_then(Durability::from_name);
    let tier = match (takes_durability, given) {
        (true, Some(given)) if given != durability && durability != Durability::None => {
            let why = format!("the URL asks for durability {}, --durability for {}", given.name(), durability.name());
            return Err(UsageError(why));
        }
        (true, Some(given)) => given.name(),
        (true, None) => durability.name(),
        (false, _) => AS_CONFIGURED,
    };
    let mut text = text.to_owned();
    if takes_durability && given.is_none() {
        let (base, label) = text.split_once('#').map_or((text.as_str(), ""), |(base, label)| (base, label));
        let joint = if base.contains('?') { '&' } else { '?' };
        text = format!("{base}{joint}durability={}#{label}", durability.name());
    }
    Ok(Choice {
        store: entry.name,
        variant: url.variant().filter(|label| !label.is_empty()).unwrap_or("default").to_owned(),
        shown_url: redact::url(&text),
        // A handful a run, needed until its end.
        target: Target::Url(entry, Box::leak(text.into_boxed_str())),
        over_socket: entry.capabilities.server.is_some(),
        shared_by_processes: entry.capabilities.shared_by_processes,
        creates: true,
        reconnects: false,
        durability: tier,
    })
}

/// Why a contender with these tiers cannot be measured in this one, if so.
pub(crate) fn lacks(tiers: &[Durability], durability: Durability) -> Option<String> {
    let why = || {
        let known: Vec<&str> = tiers.iter().map(|tier| tier.name()).collect();
        format!("has no durability tier {} (it has: {})", durability.name(), known.join(", "))
    };
    (!tiers.contains(&durability)).then(why)
}

/// Why a contender cannot be measured here and now.
fn obstacle(choice: &Choice, durability: Durability) -> Option<String> {
    let (tiers, server) = match choice.target {
        Target::Fixture(StoreEntry { capabilities: Capabilities { durability, server, .. }, .. }, _)
        | Target::FixtureOn(StoreEntry { capabilities: Capabilities { durability, server, .. }, .. }, ..) => {
            (*durability, *server)
        }
        Target::Reference(reference) => (reference.durability, reference.server),
        Target::Url(..) | Target::Handler(_) | Target::Keeper(_) | Target::Test(..) => return None,
    };
    if let Some(why) = lacks(tiers, durability) {
        return Some(why);
    }
    let kind = ServerKind::by_name(server?)?;
    let missing = kind.find().is_none();
    missing.then(|| {
        format!(
            "{} is not installed (Debian package {}; `sessile bench setup --install` installs it)",
            kind.name, kind.package
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(stores: &[&str], durability: Durability) -> Result<Vec<String>, String> {
        let stores: Vec<String> = stores.iter().map(|store| (*store).to_owned()).collect();
        let selection = select(&stores, Experiment::Cycle, durability).map_err(|error| error.0)?;
        Ok(selection.choices.iter().map(Choice::title).collect())
    }

    #[test]
    fn names_variants_references_and_urls_are_understood() {
        let chosen = names(&["memory", "null", "memory:#mine"], Durability::None).unwrap();
        assert_eq!(chosen, ["memory", "null", "memory#mine"]);
        // Whether its server is installed or not, the variant is known; nobody connects to what has no server.
        let known = names(&["memory", "redis#reconnect"], Durability::None).unwrap();
        assert!(known == ["memory", "redis#reconnect"] || known == ["memory"], "{known:?}");
        assert!(names(&["memory#reconnect"], Durability::None).unwrap_err().contains("no variant"));
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = names(&["mongo"], Durability::None).unwrap_err();
        assert!(error.contains("mongo") && error.contains("memory") && error.contains("redis-four-trips"), "{error}");
        assert!(names(&["memory#nonsense"], Durability::None).unwrap_err().contains("default"));
        assert!(names(&["mongo://host/"], Durability::None).unwrap_err().contains("known schemes"));
    }

    #[test]
    fn stores_without_the_tier_are_left_out_and_only_those_is_an_error() {
        let error = names(&["memory", "null"], Durability::Commit).unwrap_err();
        assert!(error.contains("tier commit"), "{error}");
    }

    /// Every server, every store on a disk and `null` were dropped from `scale`, and nothing said so.
    #[test]
    fn scale_is_about_whatever_the_cycle_is_about() {
        let of = |experiment| {
            let selection = select(&[], experiment, Durability::None).unwrap();
            let choices = selection.choices.iter().map(Choice::title);
            let left_out = selection.left_out.iter().map(|left| format!("not {}#{}", left.store, left.variant));
            choices.chain(left_out).collect::<Vec<String>>()
        };
        assert_eq!(of(Experiment::Scale), of(Experiment::Cycle));
        assert!(of(Experiment::Scale).iter().any(|title| title == "sqlite"));
    }

    #[test]
    fn the_same_contender_twice_is_an_error() {
        assert!(names(&["memory", "memory:"], Durability::None).unwrap_err().contains("twice"));
    }
}
