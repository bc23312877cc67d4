//! From `--stores` to contenders.

use sessile_core::Durability;
use sessile_fixtures::ServerKind;
use sessile_results::{AS_CONFIGURED, Experiment, LeftOut, UsageError, naming};
use sessile_stores::registry::{self, STORES};
use sessile_stores::{Fixture, StoreEntry, StoreUrl};

use crate::cluster::{self, ClusterContender};
use crate::experiments::languages::Language;
use crate::options::Options;
use crate::oversize;
use crate::php::Handler;
use crate::redact;
use crate::reference::{self, AfterDeath, REFERENCES, Reference};
use crate::standby::{self, StandbyContender};
use crate::stock;

#[derive(Clone, Debug)]
pub struct Choice {
    /// The registry name, or that of the reference row.
    pub store: &'static str,
    /// Distinguishes contenders of the same name.
    pub variant: String,
    /// The URL without directories, hosts and secrets.
    pub shown_url: String,
    /// What is opened.
    pub target: ContenderSource,
    /// The private server, and what it gets besides the usual.
    pub server: Option<&'static str>,
    pub server_arguments: &'static [&'static str],
    pub over_socket: bool,
    pub shared_by_processes: bool,
    /// What becomes of a session whose holder dies.
    pub after_death: AfterDeath,
    /// Whether sessions can be added while it is measured.
    pub creates: bool,
    pub reconnects: bool,
    /// The tier; `as configured` for the user's own server.
    pub durability: &'static str,
    /// The tiers of a private instance; `None` for what the user has or a runtime contains.
    pub tiers: Option<&'static [Durability]>,
}

#[derive(Clone, Copy, Debug)]
pub enum ContenderSource {
    /// A private instance of a store.
    Fixture(&'static StoreEntry, &'static Fixture),
    /// An existing store.
    Url(&'static StoreEntry, &'static str),
    Reference(&'static Reference),
    /// A store or a reference row on a private Redis cluster.
    Cluster(&'static ClusterContender),
    /// A store on a private server that has a standby.
    Standby(&'static StandbyContender),
    /// A session handler inside PHP.
    Handler(&'static Handler),
    /// A program that measures the frameworks of a language.
    Language(&'static Language),
    /// A contender of a test: its name and directory.
    #[doc(hidden)]
    Test(&'static str, &'static str),
}

#[derive(Default)]
pub(crate) struct Selection {
    pub choices: Vec<Choice>,
    pub left_out: Vec<LeftOut>,
}

impl Selection {
    pub(crate) fn add(&mut self, choice: Choice, obstacle: Option<String>) {
        match obstacle {
            None => self.choices.push(choice),
            Some(reason) => self.left_out.push(choice.left_out(reason)),
        }
    }

    /// Fails if nothing is left to measure.
    pub(crate) fn require_any(self) -> Result<Selection, UsageError> {
        if self.choices.is_empty() {
            return Err(UsageError(format!(
                "nothing is left to measure: {}",
                reasons_text(&self.left_out)
            )));
        }
        Ok(self)
    }
}

pub(crate) fn reasons_text(left_out: &[LeftOut]) -> String {
    let reasons_text: Vec<String> =
        left_out.iter().map(|left| format!("{}: {}", left.store, left.reason)).collect();
    reasons_text.join("; ")
}

impl Choice {
    /// A contender that creates sessions and is shared by processes, without server and lock.
    pub fn new(
        store: &'static str,
        variant: &str,
        shown_url: String,
        target: ContenderSource,
        durability: &'static str,
    ) -> Choice {
        Choice {
            store,
            variant: variant.to_owned(),
            shown_url,
            target,
            server: None,
            server_arguments: &[],
            over_socket: false,
            shared_by_processes: true,
            after_death: AfterDeath::NoLock,
            creates: true,
            reconnects: false,
            durability,
            tiers: None,
        }
    }

    pub fn title(&self) -> String {
        naming::title(self.store, &self.variant)
    }

    pub(crate) fn left_out(&self, reason: impl Into<String>) -> LeftOut {
        let (store, variant) = (self.store.to_owned(), self.variant.clone());
        LeftOut { store, variant, workers: None, reason: reason.into() }
    }

    /// The tier of a private instance.
    pub(crate) fn tier(&self) -> Durability {
        Durability::from_name(self.durability).unwrap_or(Durability::None)
    }

    /// The store; `None` for a row of another kind.
    pub(crate) fn entry(&self) -> Option<&'static StoreEntry> {
        match self.target {
            ContenderSource::Fixture(entry, _) | ContenderSource::Url(entry, _) => Some(entry),
            ContenderSource::Cluster(contender) => registry::by_name(contender.store),
            ContenderSource::Standby(_) => registry::by_name(self.store),
            _ => None,
        }
    }
}

/// The variant that reconnects for each request, as programs without persistent connections do.
pub(crate) const RECONNECT: &str = "reconnect";

/// Chooses contenders. No names: all that the experiment is about and this machine can run.
pub(crate) fn select(
    stores: &[String],
    experiment: Experiment,
    durability: Durability,
) -> Result<Selection, UsageError> {
    let stores = stores.to_vec();
    select_in(experiment, &Options { stores, durability, ..Options::default() })
}

/// Chooses contenders by these options. A quick run has the stores and the rows that
/// recommendations need, and no row that shows where a store spends its time.
pub(crate) fn select_in(
    experiment: Experiment,
    options: &Options,
) -> Result<Selection, UsageError> {
    let Options { stores, durability, nearest_tier, quick, .. } = options;
    let (durability, nearest_tier) = (*durability, *nearest_tier);
    let mut candidates = Vec::new();
    if stores.is_empty() {
        // A decorating store costs what its parts cost, so it is measured only when named.
        for entry in STORES.iter().filter(|entry| !entry.decorates) {
            candidates.extend(
                entry.fixtures.iter().map(|fixture| fixture_choice(entry, fixture, durability)),
            );
        }
        if experiment == Experiment::Oversize {
            candidates.extend(oversize::choices(durability));
        }
        // At a fixed rate stores are judged, and what sites have.
        let throughput =
            !quick && !nearest_tier && matches!(experiment, Experiment::Cycle | Experiment::Ops);
        let about = |reference: &&Reference| {
            if experiment == Experiment::Oversize {
                return reference.loses_large || reference.stands_for_a_handler();
            }
            !reference.loses_large && (throughput || !reference.only_throughput)
        };
        candidates.extend(
            REFERENCES
                .iter()
                .filter(about)
                .map(|reference| reference_choice(reference, durability)),
        );
    }
    for word in stores {
        push_named(word.trim(), durability, &mut candidates)?;
    }
    let mut selection = Selection::default();
    for mut candidate in candidates {
        if let Some(tiers) = candidate.tiers {
            let tier = next_stronger(tiers, durability);
            let strongest = tiers.iter().max().copied().filter(|_| nearest_tier);
            candidate.durability = tier.or(strongest).unwrap_or(durability).name();
        }
        let twice = |choice: &Choice| {
            choice.store == candidate.store && choice.variant == candidate.variant
        };
        if selection.choices.iter().any(twice) {
            let title = candidate.title();
            return Err(UsageError(format!(
                "{title} is chosen twice; label URLs with #name to tell them apart"
            )));
        }
        let is_private = candidate.tiers.is_some();
        let obstacle = obstacle(&candidate, if is_private { candidate.tier() } else { durability });
        selection.add(candidate, obstacle);
    }
    selection.require_any()
}

pub(crate) fn is_known(word: &str, durability: Durability) -> bool {
    push_named(word.trim(), durability, &mut Vec::new()).is_ok()
}

fn push_named(
    word: &str,
    durability: Durability,
    candidates: &mut Vec<Choice>,
) -> Result<(), UsageError> {
    if word.contains(':') {
        candidates.push(url_choice(word, durability)?);
        return Ok(());
    }
    let (name, variant) = naming::split_title(word);
    if let Some(reference) = reference::by_name(name).filter(|_| variant.is_none()) {
        candidates.push(reference_choice(reference, durability));
        return Ok(());
    }
    let by_name = oversize::choices(durability).into_iter().chain(stock::choices(durability));
    let mut by_name = by_name.chain(cluster::choices()).chain(standby::choices(durability));
    if let Some(choice) = by_name.find(|choice| choice.title() == word) {
        candidates.push(choice);
        return Ok(());
    }
    let Some(entry) = registry::by_name(name) else {
        let known: Vec<&str> = STORES
            .iter()
            .map(|entry| entry.name)
            .chain(REFERENCES.iter().map(|reference| reference.name))
            .collect();
        // A password with a comma arrives here in pieces.
        let shown = if name.contains(['@', '/']) { String::new() } else { format!(" {name:?}") };
        let known = known.join(", ");
        return Err(UsageError(format!(
            "unknown store{shown}; known: {known}, or a URL (a comma in it is %2C)"
        )));
    };
    if variant == Some(RECONNECT)
        && let Some(choice) = reconnecting_choice(entry, durability)
    {
        candidates.push(choice);
        return Ok(());
    }
    let chosen: Vec<&Fixture> = entry
        .fixtures
        .iter()
        .filter(|fixture| variant.is_none_or(|variant| variant == fixture.variant))
        .collect();
    if chosen.is_empty() {
        let mut known: Vec<&str> = entry.fixtures.iter().map(|fixture| fixture.variant).collect();
        known.extend(entry.capabilities.server.map(|_| RECONNECT));
        known.extend(
            stock::choices(durability).filter(|it| it.store == name).map(|_| stock::VARIANT),
        );
        let of_several_servers = cluster::choices().chain(standby::choices(durability));
        let of_several_servers: Vec<String> =
            of_several_servers.filter(|it| it.store == name).map(|it| it.variant).collect();
        known.extend(of_several_servers.iter().map(String::as_str));
        return Err(UsageError(format!(
            "{name} has no variant of that name; known: {}",
            known.join(", ")
        )));
    }
    candidates.extend(chosen.into_iter().map(|fixture| fixture_choice(entry, fixture, durability)));
    Ok(())
}

/// A private server of a store with arguments of its own; the last of two that contradict each
/// other counts.
pub(crate) struct ServerVariant {
    pub store: &'static str,
    pub fixture: Fixture,
    pub arguments: &'static [&'static str],
}

impl ServerVariant {
    pub(crate) fn choice(&'static self, durability: Durability) -> Option<Choice> {
        let choice = fixture_choice(registry::by_name(self.store)?, &self.fixture, durability);
        Some(Choice { server_arguments: self.arguments, ..choice })
    }
}

/// A store of which nothing private is made.
fn store_choice(
    entry: &'static StoreEntry,
    variant: &str,
    shown_url: String,
    target: ContenderSource,
    durability: &'static str,
) -> Choice {
    Choice {
        over_socket: entry.capabilities.server.is_some(),
        shared_by_processes: entry.capabilities.shared_by_processes,
        after_death: AfterDeath::of_store(&entry.capabilities),
        ..Choice::new(entry.name, variant, shown_url, target, durability)
    }
}

pub(crate) fn fixture_choice(
    entry: &'static StoreEntry,
    fixture: &'static Fixture,
    durability: Durability,
) -> Choice {
    let shown_url = fixture.url.replace('{', "<").replace('}', ">");
    let target = ContenderSource::Fixture(entry, fixture);
    let in_memory = fixture.url.contains("{shm}");
    Choice {
        server: entry.capabilities.server,
        tiers: Some(if in_memory { &[Durability::None] } else { entry.capabilities.durability }),
        ..store_choice(entry, fixture.variant, shown_url, target, durability.name())
    }
}

/// A server's store that reconnects for each request.
fn reconnecting_choice(entry: &'static StoreEntry, durability: Durability) -> Option<Choice> {
    let fixture = entry.fixtures.first().filter(|_| entry.capabilities.server.is_some())?;
    let choice = fixture_choice(entry, fixture, durability);
    Some(Choice { variant: RECONNECT.to_owned(), reconnects: true, ..choice })
}

fn reference_choice(reference: &'static Reference, durability: Durability) -> Choice {
    let target = ContenderSource::Reference(reference);
    let shown_url = format!("{}:", reference.name);
    Choice {
        server: reference.server,
        over_socket: reference.server.is_some(),
        shared_by_processes: reference.shared_by_processes,
        after_death: reference.after_death,
        creates: reference.creates,
        tiers: Some(reference.durability),
        ..Choice::new(reference.name, "default", shown_url, target, durability.name())
    }
}

fn url_choice(text: &str, durability: Durability) -> Result<Choice, UsageError> {
    let usage = |error: sessile_core::Error| UsageError(format!("{error}"));
    let url = StoreUrl::parse(text).map_err(usage)?;
    let entry = registry::entry_for(&url).map_err(usage)?;
    let takes_durability = entry.options.iter().any(|option| option.name == "durability");
    let given = url.text("durability").and_then(Durability::from_name);
    let tier = match (takes_durability, given) {
        (true, Some(given)) if given != durability && durability != Durability::None => {
            let why = format!(
                "the URL asks for durability {}, --durability for {}",
                given.name(),
                durability.name()
            );
            return Err(UsageError(why));
        }
        (true, Some(given)) => given.name(),
        (true, None) => durability.name(),
        (false, _) => AS_CONFIGURED,
    };
    let mut text = text.to_owned();
    if takes_durability && given.is_none() {
        let (base, label) =
            text.split_once('#').map_or((text.as_str(), ""), |(base, label)| (base, label));
        let joint = if base.contains('?') { '&' } else { '?' };
        text = format!("{base}{joint}durability={}#{label}", durability.name());
    }
    let variant = url.variant().filter(|label| !label.is_empty()).unwrap_or("default");
    let shown_url = redact::url(&text);
    // Leaks a few short texts a run.
    let target = ContenderSource::Url(entry, Box::leak(text.into_boxed_str()));
    Ok(store_choice(entry, variant, shown_url, target, tier))
}

/// The weakest tier that promises as much as `asked`.
fn next_stronger(tiers: &[Durability], asked: Durability) -> Option<Durability> {
    tiers.iter().copied().filter(|tier| *tier >= asked).min()
}

/// Why this tier cannot be measured with a contender that has these.
pub(crate) fn missing_tier(tiers: &[Durability], durability: Durability) -> Option<String> {
    let why = || {
        let known: Vec<&str> = tiers.iter().map(|tier| tier.name()).collect();
        format!("has no durability tier {} (it has: {})", durability.name(), known.join(", "))
    };
    (!tiers.contains(&durability)).then(why)
}

fn obstacle(choice: &Choice, durability: Durability) -> Option<String> {
    let tiers = match choice.target {
        // A server as it is configured, or a tier that the URL itself asks for.
        ContenderSource::Url(entry, _) if choice.durability == durability.name() => {
            entry.capabilities.durability
        }
        _ => choice.tiers?,
    };
    if let Some(why) = missing_tier(tiers, durability) {
        return Some(why);
    }
    let kind = ServerKind::by_name(choice.server?)?;
    let missing = kind.find().is_none();
    missing.then(|| format!("{} is not installed (Debian package {})", kind.name, kind.package))
}

#[cfg(test)]
mod tests;
