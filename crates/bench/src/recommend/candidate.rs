//! What can be recommended: each store of the registry in each way in which it is measured, and what results say of it.
//!
//! A figure is only set beside another of the same question: one experiment, one number of workers and sessions, one
//! payload, one durability tier, one way to the server. Of all questions that the results answer, the one is taken
//! that most candidates have answered and that is closest to the site.

use serde::Serialize;
use sessile_core::{Capabilities, Durability};
use sessile_stores::StoreEntry;
use sessile_stores::registry::STORES;

use super::site::Site;
use crate::report::{Report, Row};
use crate::statistics::Spread;

/// Assumed of a store that was not measured: its own record beside the payload.
const OVERHEAD_BYTES: u64 = 1_024;
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

/// What the results say of one candidate.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Locked requests a second in the question that was chosen.
    pub cycles: Option<Spread>,
    /// The 99th percentile of them in microseconds.
    pub p99_us: f64,
    /// Space of a session, and the payload that it was measured with.
    pub bytes_per_session: Option<(u64, u64)>,
    /// The longest pause of a request that swept, in microseconds, where that was a second mode.
    pub sweep_p90_us: Option<f64>,
    /// Rows in which something went wrong: the first of them.
    pub fault: Option<String>,
}

/// The question whose answers are compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Question {
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
        if self.variant == "default" { self.store.to_owned() } else { format!("{}#{}", self.store, self.variant) }
    }

    /// Space of all sessions of a site, and whether that was measured.
    pub fn space(&self, sessions: u64, payload_bytes: u64) -> (u64, bool) {
        match self.measured.bytes_per_session {
            // What a session takes besides its payload hardly depends on the payload.
            Some((bytes, payload)) => {
                (sessions.saturating_mul(bytes.saturating_sub(payload).saturating_add(payload_bytes)), true)
            }
            None => {
                let in_pages = matches!(self.medium, Medium::Disk | Medium::SharedMemory);
                let payload = if in_pages { payload_bytes.next_multiple_of(PAGE_BYTES) } else { payload_bytes };
                (sessions.saturating_mul(payload.saturating_add(OVERHEAD_BYTES)), false)
            }
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
        .map(|(entry, fixture)| Candidate {
            store: entry.name,
            variant: fixture.variant,
            url: shown(entry, fixture.url),
            capabilities: entry.capabilities,
            medium: medium(fixture.url, &entry.capabilities),
            measured: Measured::default(),
        })
        .collect();
    let question = choose(site, results, &candidates);
    for candidate in &mut candidates {
        candidate.measured = measured(candidate, results, question.as_ref(), site);
    }
    (candidates, question)
}

/// A server is asked at its host; the fixture's socket is that of a private one.
fn shown(entry: &StoreEntry, url: &str) -> String {
    match (entry.capabilities.server, entry.schemes.first()) {
        (Some(_), Some(scheme)) => format!("{scheme}://<host>"),
        _ => url.replace('{', "<").replace('}', ">"),
    }
}

fn medium(url: &str, capabilities: &Capabilities) -> Medium {
    match capabilities.server {
        _ if url.contains("{shm}") => Medium::SharedMemory,
        _ if url.contains("{disk}") => Medium::Disk,
        Some(_) if capabilities.sessions_bounded_by.contains("disk") => Medium::ServerDisk,
        _ => Medium::Memory,
    }
}

/// Rows that answer how many locked requests a second there are.
fn cycles(report: &Report) -> impl Iterator<Item = &Row> {
    report.results.iter().filter(|row| matches!(row.experiment.as_str(), "cycle" | "scale") && row.op == "cycle")
}

fn is_of(row: &Row, candidate: &Candidate) -> bool {
    row.store == candidate.store && row.variant == candidate.variant
}

impl Question {
    fn of(row: &Row, report: &Report) -> Question {
        Question {
            experiment: row.experiment.clone(),
            workers: row.workers,
            sessions: row.sessions,
            payload_bytes: row.payload_bytes,
            payload_spread: row.payload_spread.clone(),
            durability: row.durability.clone(),
            round_trip_us: report.settings.round_trip_us.unwrap_or(0.0),
            rate: report.settings.rate,
        }
    }
}

/// In a closed loop only: at a fixed rate all are as fast as the rate. Several servers are asked over a network.
fn choose(site: &Site, results: &[Report], candidates: &[Candidate]) -> Option<Question> {
    let mut questions: Vec<(Question, usize)> = Vec::new();
    for report in results.iter().filter(|report| report.settings.rate.is_none()) {
        for row in cycles(report).filter(|row| row.durability == site.durability.name() && !row.is_bad()) {
            if !candidates.iter().any(|candidate| is_of(row, candidate)) {
                continue;
            }
            let question = Question::of(row, report);
            match questions.iter_mut().find(|(known, _)| *known == question) {
                Some((_, answers)) => *answers += 1,
                None => questions.push((question, 1)),
            }
        }
    }
    let most = questions.iter().map(|(_, answers)| *answers).max()?;
    // A question that half of them have answered is as good as one that all have.
    let asked = questions.into_iter().filter(|(_, answers)| 2 * answers >= most).map(|(question, _)| question);
    asked.min_by(|a, b| distance(a, site).total_cmp(&distance(b, site)))
}

/// How far a question is from the site: the network first, then the number of sessions, then of workers.
fn distance(question: &Question, site: &Site) -> f64 {
    let network = if (question.round_trip_us > 0.0) == (site.web_servers > 1) { 0.0 } else { 1_000.0 };
    let ratio = (question.sessions.max(1) as f64 / site.sessions.max(1) as f64).ln().abs();
    let uneven = if question.payload_spread == "fixed" { 0.0 } else { 0.1 };
    network + ratio + uneven - 0.01 * question.workers as f64
}

fn measured(candidate: &Candidate, results: &[Report], question: Option<&Question>, site: &Site) -> Measured {
    let mut measured = Measured::default();
    let mut nearest = f64::INFINITY;
    for report in results {
        let rows = report.results.iter().filter(|row| is_of(row, candidate));
        for row in rows {
            if row.is_bad() && measured.fault.is_none() {
                measured.fault = Some(fault(row));
            }
            if question.is_some_and(|question| Question::of(row, report) == *question) && row.op == "cycle" {
                measured.cycles = (!row.is_bad()).then_some(row.ops_per_second);
                measured.p99_us = row.latency_us.p99;
            }
            if let Some(modes) = row.modes.filter(|modes| modes.modes > 1) {
                let slowest = measured.sweep_p90_us.unwrap_or(0.0).max(modes.sweeping_p90);
                measured.sweep_p90_us = Some(slowest);
            }
            let weighs = row.bytes_per_session > 0 && matches!(row.experiment.as_str(), "cycle" | "scale" | "ops");
            let apart = (row.sessions.max(1) as f64 / site.sessions.max(1) as f64).ln().abs();
            if weighs && apart < nearest {
                nearest = apart;
                measured.bytes_per_session = Some((row.bytes_per_session, row.payload_bytes as u64));
            }
        }
    }
    measured
}

fn fault(row: &Row) -> String {
    let (experiment, op) = (&row.experiment, &row.op);
    match &row.failed {
        Some(why) => format!("{experiment} {op}: {why}"),
        None => {
            format!("{experiment} {op}: {} errors, {} misses, {} lost updates", row.errors, row.misses, row.lost)
        }
    }
}

/// The tiers that a candidate can be run with.
pub(super) fn promises(candidate: &Candidate, durability: Durability) -> bool {
    candidate.capabilities.durability.contains(&durability)
}
