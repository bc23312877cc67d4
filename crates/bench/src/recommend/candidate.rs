//! What can be recommended: each store of the registry in each way in which it is measured.
//!
//! A figure is only set beside another of the same question: one machine, one experiment, one number of workers and
//! sessions, one payload, one durability tier, one way to the server. Of all questions that the results answer, the one is taken
//! that most candidates have answered and that is closest to the site.

use std::cmp::Ordering;

use serde::Serialize;
use sessile_core::{Capabilities, Durability, SessionsBound};
use sessile_stores::Fixture;
use sessile_stores::registry::STORES;

use super::measured::{Measured, measured};
use super::shown_url::shown_url;
use super::site::Site;
use super::thresholds::{ANSWERED, OVERHEAD, SESSIONS_ALIKE, UNEVEN, WORKER};
use crate::naming;
use crate::report::{Report, Row};

const PAGE_BYTES: u64 = 4_096;

/// Where the sessions lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Medium {
    /// Memory of a process or a server.
    Memory,
    /// Files in memory: there for all processes of the host, gone at its restart.
    SharedMemory,
    /// A disk of the web server's host.
    Disk,
    /// The disk of a server.
    ServerDisk,
}

/// A store in one way to run it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The registry name.
    pub store: &'static str,
    /// The variant.
    pub variant: &'static str,
    /// How its URL looks; `<disk>`, `<shm>` and `<host>` stand for places.
    pub url: String,
    /// What the store declares.
    pub capabilities: Capabilities,
    /// Where the sessions lie.
    pub medium: Medium,
    /// What the results say.
    pub measured: Measured,
}

/// Where the space of all sessions comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpaceBasis {
    /// Measured with this payload, and with about as many sessions.
    Measured,
    /// Measured with another payload or another number of sessions.
    Derived,
    /// Nothing was measured: a formula.
    Formula,
}

/// The question whose answers are compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Question {
    /// The model of the machine's processors.
    pub cpu: String,
    /// How many it has.
    pub cores: usize,
    /// Its memory in bytes.
    pub memory_bytes: u64,
    /// How the program was built.
    pub build: String,
    /// How many times the sessions were rewritten before.
    pub churn: usize,
    /// Whether processors were kept awake.
    pub processors_awake: bool,
    /// The experiment.
    pub experiment: String,
    /// Number of workers.
    pub workers: usize,
    /// Sessions in the store.
    pub sessions: usize,
    /// Payload size.
    pub payload_bytes: usize,
    /// How payload sizes differ.
    pub payload_spread: String,
    /// What commits survived.
    pub durability: String,
    /// How long a round trip to servers took on the way alone, in microseconds.
    pub round_trip_us: f64,
    /// Requests a second, where that was fixed.
    pub rate: Option<f64>,
}

impl Candidate {
    /// Name and variant as one word.
    pub fn title(&self) -> String {
        naming::title(self.store, self.variant)
    }

    /// Whether all of the site's hosts find a visitor's session in it.
    pub(super) fn serves(&self, site: &Site) -> bool {
        !site.is_spread() || self.capabilities.shared_by_hosts
    }

    /// Space of all sessions of a site, and what that rests on.
    pub fn space(&self, sessions: u64, payload_bytes: u64) -> (u64, SpaceBasis) {
        let in_pages = matches!(self.medium, Medium::Disk | Medium::SharedMemory);
        let paged = |bytes: u64| bytes.div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES);
        let Some(measured) = self.measured.footprint else {
            let payload = if in_pages { paged(payload_bytes) } else { payload_bytes };
            return (sessions.saturating_mul(payload.saturating_add(OVERHEAD.value)), SpaceBasis::Formula);
        };
        // What takes less than whole pages shares them between sessions.
        let whole_pages = in_pages && measured.bytes >= paged(measured.payload_bytes);
        let taken = |payload: u64| if whole_pages { paged(payload) } else { payload };
        // What a session takes besides its payload hardly depends on the payload.
        let besides = measured.bytes.saturating_sub(taken(measured.payload_bytes));
        let bytes = sessions.saturating_mul(besides.saturating_add(taken(payload_bytes)));
        let alike = measured.sessions / SESSIONS_ALIKE.value <= sessions
            && sessions / SESSIONS_ALIKE.value <= measured.sessions
            && measured.payload_bytes == payload_bytes;
        (bytes, if alike { SpaceBasis::Measured } else { SpaceBasis::Derived })
    }

    /// Where the bytes of `space` are. Of a server that keeps its sessions on a disk only the memory is measured, by which it
    /// has grown: what a session takes on the disk is in no result.
    pub fn space_is_in(&self) -> Medium {
        match (self.medium, self.measured.footprint) {
            (Medium::ServerDisk, Some(_)) => Medium::Memory,
            (medium, _) => medium,
        }
    }
}

/// All candidates, with what the results say, and the question that was chosen.
pub(super) fn all(site: &Site, results: &[Report]) -> (Vec<Candidate>, Option<Question>) {
    // What is made of others is as good as they are, which nobody knows before they are chosen.
    let mut candidates: Vec<Candidate> = STORES
        .iter()
        .filter(|entry| !entry.decorates)
        .flat_map(|entry| entry.fixtures.iter().map(move |fixture| (entry, fixture)))
        .map(|(entry, fixture)| {
            let medium = medium(fixture, &entry.capabilities);
            Candidate {
                store: entry.name,
                variant: fixture.variant,
                url: shown_url(entry, fixture, medium, site),
                capabilities: entry.capabilities,
                medium,
                measured: Measured::default(),
            }
        })
        .collect();
    let question = choose(site, results, &candidates);
    for candidate in &mut candidates {
        candidate.measured = measured(candidate, results, question.as_ref(), site);
    }
    (candidates, question)
}

/// Where the fixture of a store keeps its sessions: who keeps them in a directory keeps them where that is.
fn medium(fixture: &Fixture, capabilities: &Capabilities) -> Medium {
    match capabilities.sessions_bounded_by {
        SessionsBound::ProcessMemory | SessionsBound::ServerMemory { .. } => Medium::Memory,
        SessionsBound::ServerDisk => Medium::ServerDisk,
        SessionsBound::Disk { .. } if !fixture.url.contains("{shm}") => Medium::Disk,
        SessionsBound::SharedMemory | SessionsBound::Disk { .. } => Medium::SharedMemory,
    }
}

/// Rows that answer how many locked requests a second there are.
pub(super) fn cycles(report: &Report) -> impl Iterator<Item = &Row> {
    report.results.iter().filter(|row| is_cycle(row))
}

pub(super) fn is_cycle(row: &Row) -> bool {
    matches!(row.experiment.as_str(), "cycle" | "scale") && row.op == "cycle"
}

pub(super) fn is_of(row: &Row, candidate: &Candidate) -> bool {
    row.store == candidate.store && row.variant == candidate.variant
}

impl Question {
    pub(super) fn of(row: &Row, report: &Report) -> Question {
        let (machine, settings) = (&report.environment, &report.settings);
        Question {
            cpu: machine.cpu.clone(),
            cores: machine.cores,
            memory_bytes: machine.memory_bytes,
            build: machine.build.clone(),
            churn: settings.churn,
            processors_awake: settings.processors_awake,
            experiment: row.experiment.clone(),
            workers: row.workers,
            sessions: row.sessions,
            payload_bytes: row.payload_bytes,
            payload_spread: row.payload_spread.clone(),
            durability: row.durability.clone(),
            round_trip_us: settings.round_trip_us.unwrap_or(0.0),
            rate: settings.rate,
        }
    }

    /// Whether a report is of the same machine and of the same kind of build.
    pub(super) fn is_of_machine(&self, report: &Report) -> bool {
        let (cpu, machine) = (&self.cpu, &report.environment);
        (cpu, self.cores, self.memory_bytes, &self.build)
            == (&machine.cpu, machine.cores, machine.memory_bytes, &machine.build)
    }

    /// Whether a report has a row that answers it.
    pub(super) fn is_answered_by(&self, report: &Report) -> bool {
        cycles(report).any(|row| !row.is_bad() && Question::of(row, report) == *self)
    }
}

/// In a closed loop only: at a fixed rate all are as fast as the rate. Several servers are asked over a network, and by how many
/// stores that they cannot share a question was answered does not count.
fn choose(site: &Site, results: &[Report], candidates: &[Candidate]) -> Option<Question> {
    let mut questions: Vec<(Question, Vec<String>)> = Vec::new();
    for report in results.iter().filter(|report| report.settings.rate.is_none()) {
        for row in cycles(report).filter(|row| row.durability == site.durability.name() && !row.is_bad()) {
            if !candidates.iter().any(|candidate| is_of(row, candidate) && candidate.serves(site)) {
                continue;
            }
            let question = Question::of(row, report);
            match questions.iter_mut().find(|(known, _)| *known == question) {
                // Whoever was measured twice has answered once.
                Some((_, answered)) if answered.contains(&row.title()) => {}
                Some((_, answered)) => answered.push(row.title()),
                None => questions.push((question, vec![row.title()])),
            }
        }
    }
    let most = questions.iter().map(|(_, answered)| answered.len()).max()?;
    // A question that half of them have answered is as good as one that all have.
    let asked = questions.into_iter().filter(|(_, answered)| answered.len() as f64 >= ANSWERED.part() * most as f64);
    let best = asked.min_by(|(a, by_a), (b, by_b)| nearer(a, b, site).then(by_b.len().cmp(&by_a.len())));
    best.map(|(question, _)| question)
}

/// Which of two questions is nearer to the site: a debug build is far from any; then the network counts, then the number and size of
/// sessions, then the number of workers.
fn nearer(a: &Question, b: &Question, site: &Site) -> Ordering {
    let is_debug = |question: &Question| question.build != "release";
    let is_elsewhere = |question: &Question| (question.round_trip_us > 0.0) != (site.web_servers > 1);
    is_debug(a)
        .cmp(&is_debug(b))
        .then(is_elsewhere(a).cmp(&is_elsewhere(b)))
        .then(distance(a, site).total_cmp(&distance(b, site)))
}

fn distance(question: &Question, site: &Site) -> f64 {
    let ratio =
        apart(question.sessions as u64, site.sessions) + apart(question.payload_bytes as u64, site.payload_bytes);
    let uneven = if question.payload_spread == "fixed" { 0.0 } else { UNEVEN.part() };
    ratio + uneven - WORKER.part() * question.workers as f64
}

/// By what factor two numbers differ, as a logarithm.
pub(super) fn apart(one: u64, other: u64) -> f64 {
    (one.max(1) as f64 / other.max(1) as f64).ln().abs()
}

/// The tiers that a candidate can be run with.
pub(super) fn promises(candidate: &Candidate, durability: Durability) -> bool {
    candidate.capabilities.durability.contains(&durability)
}
