//! The candidates of a recommendation: what sites have, and each store of the registry in each
//! measured variant.
//!
//! Figures are compared only if they were measured under the same conditions: machine, experiment,
//! workers, sessions, payload, round trip, and the site's tier; a candidate that is not run in it
//! is judged in the next stronger one. Of all conditions in the results, those are chosen
//! that cover most candidates and are closest to the site.

use std::cmp::Ordering;

use serde::Serialize;
use sessile_core::{Capabilities, Durability, SessionsBound};
use sessile_results::grouping::{distinct, grouped};
use sessile_results::naming;
use sessile_results::reference::AfterDeath;
use sessile_results::{Report, Row};
use sessile_stores::StoreEntry;

use crate::measured::{MeasuredFigures, measured};
use crate::practices::{PRACTICES, Practice};
use crate::shown_url::shown_url;
use crate::site::Site;
use crate::thresholds::{ANSWERED, OVERHEAD, SESSIONS_ALIKE};

const PAGE_BYTES: u64 = 4_096;

/// Where sessions lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageMedium {
    /// Memory of a process or server.
    Memory,
    /// Files in memory, shared by the processes of a host and lost at its restart.
    SharedMemory,
    /// A disk of the web server.
    Disk,
    /// The disk of a database server.
    ServerDisk,
}

#[derive(Clone, Debug)]
pub struct Candidate {
    pub store: &'static str,
    pub variant: &'static str,
    pub url: String,
    pub capabilities: Capabilities,
    pub medium: StorageMedium,
    /// The tier in which it is judged; `None` if it offers none that the site needs.
    pub tier: Option<Durability>,
    /// The name of its rows, and their variant.
    pub(crate) rows: (&'static str, &'static str),
    /// What becomes of a lock of a killed process.
    pub(crate) after_death: AfterDeath,
    /// Whether the application has it without installing anything but its server.
    pub in_use: bool,
    /// Whether it is a store of this project; else a handler of others.
    pub(crate) is_ours: bool,
    pub measured: MeasuredFigures,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpaceBasis {
    /// Measured with this payload and about as many sessions.
    Measured,
    /// Derived from another payload or number of sessions.
    Derived,
    /// A formula; nothing was measured.
    Formula,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conditions {
    pub cpu: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub disk_file_system: String,
    pub disk_mount_options: String,
    pub build: String,
    /// Whether processors were kept awake.
    pub processors_awake: bool,
    pub experiment: String,
    pub workers: usize,
    pub sessions: usize,
    pub payload_bytes: usize,
    /// How payload sizes differ.
    pub payload_spread: String,
    pub durability: String,
    /// Simulated round trip to servers, in microseconds.
    pub round_trip_us: f64,
    /// Fixed requests a second.
    pub rate: Option<f64>,
}

impl Candidate {
    /// One whose rows have its name; `place` is the URL of a fixture.
    fn new(
        (store, variant): (&'static str, &'static str),
        place: &str,
        capabilities: Capabilities,
        site: &Site,
    ) -> Candidate {
        let medium = medium(place, &capabilities);
        Candidate {
            store,
            variant,
            url: String::new(),
            capabilities,
            medium,
            tier: tier(&capabilities, medium, site),
            rows: (store, variant),
            after_death: AfterDeath::of_store(&capabilities),
            in_use: false,
            is_ours: true,
            measured: MeasuredFigures::default(),
        }
    }

    pub fn title(&self) -> String {
        naming::title(self.store, self.variant)
    }

    pub(crate) fn serves_all_hosts(&self, site: &Site) -> bool {
        !site.needs_shared_store() || self.capabilities.shared_by_hosts
    }

    /// Bytes of all sessions of a site, and the basis of that estimate.
    pub fn space(&self, sessions: u64, payload_bytes: u64) -> (u64, SpaceBasis) {
        let in_pages = matches!(self.medium, StorageMedium::Disk | StorageMedium::SharedMemory);
        let paged = |bytes: u64| bytes.div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES);
        let Some(measured) = self.measured.footprint else {
            let payload = if in_pages { paged(payload_bytes) } else { payload_bytes };
            return (
                sessions.saturating_mul(payload.saturating_add(OVERHEAD.value)),
                SpaceBasis::Formula,
            );
        };
        // Records smaller than whole pages share pages.
        let whole_pages = in_pages && measured.bytes >= paged(measured.payload_bytes);
        let taken = |payload: u64| if whole_pages { paged(payload) } else { payload };
        // The overhead of a session hardly depends on its payload.
        let besides = measured.bytes.saturating_sub(taken(measured.payload_bytes));
        let bytes = sessions.saturating_mul(besides.saturating_add(taken(payload_bytes)));
        let alike = measured.sessions / SESSIONS_ALIKE.value <= sessions
            && sessions / SESSIONS_ALIKE.value <= measured.sessions
            && measured.payload_bytes == payload_bytes;
        (bytes, if alike { SpaceBasis::Measured } else { SpaceBasis::Derived })
    }

    /// Where the bytes of `space` are. For a server with a disk only the growth of its memory is
    /// measured.
    pub fn space_is_in(&self) -> StorageMedium {
        match (self.medium, self.measured.footprint) {
            (StorageMedium::ServerDisk, Some(_)) => StorageMedium::Memory,
            (medium, _) => medium,
        }
    }
}

pub(crate) fn candidates(
    site: &Site,
    results: &[Report],
    known: &'static [StoreEntry],
) -> (Vec<Candidate>, Option<Conditions>) {
    // A decorating store is as good as its parts, which are not chosen yet.
    let stores = known
        .iter()
        .filter(|entry| !entry.decorates)
        .flat_map(|entry| entry.fixtures.iter().map(move |fixture| (entry, fixture)))
        .map(|(entry, fixture)| {
            let named = (entry.name, fixture.variant);
            let it = Candidate::new(named, fixture.url, entry.capabilities, site);
            Candidate { url: shown_url(entry, fixture, it.medium, it.tier), ..it }
        });
    let can_have = |it: &&Practice| !it.of_one_product || site.has_handler(it);
    let practices = PRACTICES.iter().filter(can_have).filter_map(|it| {
        let of_system = Candidate::new((it.store, it.variant), "", it.capabilities(known)?, site);
        Some(Candidate {
            url: it.setting.to_owned(),
            rows: (it.row, "default"),
            after_death: it.after_death(),
            in_use: site.has_handler(it),
            is_ours: false,
            ..of_system
        })
    });
    let mut candidates: Vec<Candidate> = practices.chain(stores).collect();
    candidates.retain(|candidate| site.can_have(candidate.capabilities.server));
    let question = choose(site, results, &candidates);
    for candidate in &mut candidates {
        candidate.measured = measured(candidate, results, question.as_ref(), site);
    }
    (candidates, question)
}

/// The weakest tier that is offered and serves the site. Shared memory has only `none`. Nobody runs
/// a database without syncs, in a server or in the process: what is on a disk and can sync once a
/// second.
fn tier(capabilities: &Capabilities, medium: StorageMedium, site: &Site) -> Option<Durability> {
    let offered: &[Durability] = match medium {
        StorageMedium::SharedMemory => &[Durability::None],
        _ => capabilities.durability,
    };
    let is_database = matches!(medium, StorageMedium::Disk | StorageMedium::ServerDisk)
        && capabilities.durability.contains(&Durability::Second);
    let needed = if is_database { Durability::Second } else { Durability::None };
    let serves = |tier: &Durability| *tier >= needed.max(site.durability);
    offered.iter().copied().filter(serves).min()
}

fn medium(url: &str, capabilities: &Capabilities) -> StorageMedium {
    match capabilities.sessions_bounded_by {
        SessionsBound::ProcessMemory | SessionsBound::ServerMemory { .. } => StorageMedium::Memory,
        SessionsBound::ServerDisk => StorageMedium::ServerDisk,
        SessionsBound::Disk { .. } if !url.contains("{shm}") => StorageMedium::Disk,
        SessionsBound::SharedMemory | SessionsBound::Disk { .. } => StorageMedium::SharedMemory,
    }
}

pub(crate) fn cycles(report: &Report) -> impl Iterator<Item = &Row> {
    report.results.iter().filter(|row| is_cycle(row))
}

pub(crate) fn is_cycle(row: &Row) -> bool {
    let asked = &row.question;
    matches!(asked.experiment.as_str(), "cycle" | "scale") && asked.op == "cycle"
}

pub(crate) fn is_of(row: &Row, candidate: &Candidate) -> bool {
    (row.subject.store.as_str(), row.subject.variant.as_str()) == candidate.rows
}

/// Whether a row is of the tier in which a candidate is judged.
pub(crate) fn is_in_its_tier(row: &Row, candidate: &Candidate) -> bool {
    candidate.tier.is_some_and(|tier| row.question.durability == tier.name())
}

impl Conditions {
    /// `tier` is that of the site: rows of candidates that are not run in it are of a stronger one.
    pub(crate) fn of(row: &Row, report: &Report, tier: &str) -> Conditions {
        let (machine, settings) = (&report.environment, &report.settings);
        let asked = &row.question;
        Conditions {
            cpu: machine.cpu.clone(),
            cores: machine.cores,
            memory_bytes: machine.memory_bytes,
            disk_file_system: machine.disk_file_system.clone(),
            disk_mount_options: machine.disk_mount_options.clone(),
            build: machine.build.clone(),
            processors_awake: settings.processors_awake,
            experiment: asked.experiment.clone(),
            workers: asked.workers,
            sessions: asked.sessions,
            payload_bytes: asked.payload_bytes,
            payload_spread: asked.payload_spread.clone(),
            durability: tier.to_owned(),
            round_trip_us: settings.round_trip_us.unwrap_or(0.0),
            rate: settings.rate,
        }
    }

    /// Whether a report is of the same machine and disk, and of the same kind of build.
    pub(crate) fn is_same_machine(&self, report: &Report) -> bool {
        let machine = &report.environment;
        (&self.cpu, self.cores, self.memory_bytes, &self.build)
            == (&machine.cpu, machine.cores, machine.memory_bytes, &machine.build)
            && self.disk_file_system == machine.disk_file_system
            && self.disk_mount_options == machine.disk_mount_options
    }

    /// Whether a report has a sound row under these conditions.
    pub(crate) fn is_met_by(&self, report: &Report) -> bool {
        cycles(report)
            .any(|row| !row.is_bad() && Conditions::of(row, report, &self.durability) == *self)
    }
}

/// Chooses the conditions to compare. Only closed loops count: at a fixed rate all stores are
/// equally fast. Stores that cannot serve the site do not count.
fn choose(site: &Site, results: &[Report], candidates: &[Candidate]) -> Option<Conditions> {
    // Rows in a stronger tier answer the question, and do not pose it.
    let tier = site.durability.name();
    let is_asked = |row: &Row| {
        let is_of_site =
            |it: &Candidate| is_of(row, it) && is_in_its_tier(row, it) && it.serves_all_hosts(site);
        row.question.durability == tier && !row.is_bad() && candidates.iter().any(is_of_site)
    };
    let closed = results.iter().filter(|report| report.settings.rate.is_none());
    let posed = closed.flat_map(|report| {
        let rows = cycles(report).filter(|row| is_asked(row));
        rows.map(move |row| (Conditions::of(row, report, tier), row.subject.title()))
    });
    // A store measured twice counts once.
    let questions = grouped(posed).into_iter().map(|(it, by)| (it, distinct(by).len()));
    let questions: Vec<(Conditions, usize)> = questions.collect();
    let most = questions.iter().map(|(_, answered)| *answered).max()?;
    // Conditions that cover enough stores are as good as those that cover all.
    let asked = questions
        .into_iter()
        .filter(|(_, answered)| *answered as f64 >= ANSWERED.part() * most as f64);
    let best = asked.min_by(|(a, by_a), (b, by_b)| nearer(a, b, site).then(by_b.cmp(by_a)));
    best.map(|(question, _)| question)
}

/// Orders conditions by distance to the site: release build, network, sessions and payload,
/// workers.
fn nearer(a: &Conditions, b: &Conditions, site: &Site) -> Ordering {
    let is_debug = |question: &Conditions| question.build != "release";
    let is_elsewhere =
        |question: &Conditions| (question.round_trip_us > 0.0) != (site.web_servers > 1);
    // `scale` has not the rows that stand for what sites have, and no tier but `none`.
    let is_partial = |question: &Conditions| question.experiment != "cycle";
    // The site is described by a mean.
    let is_uneven = |question: &Conditions| question.payload_spread != "fixed";
    is_debug(a)
        .cmp(&is_debug(b))
        .then(is_elsewhere(a).cmp(&is_elsewhere(b)))
        .then(is_partial(a).cmp(&is_partial(b)))
        .then(distance(a, site).total_cmp(&distance(b, site)))
        .then(is_uneven(a).cmp(&is_uneven(b)))
        .then(b.workers.cmp(&a.workers))
}

fn distance(question: &Conditions, site: &Site) -> f64 {
    log_distance(question.sessions as u64, site.sessions)
        + log_distance(question.payload_bytes as u64, site.payload_bytes)
}

pub(crate) fn log_distance(one: u64, other: u64) -> f64 {
    (one.max(1) as f64 / other.max(1) as f64).ln().abs()
}
