//! The figures of one candidate in the results.
//!
//! Invariant: rows of another machine, build or tier do not count, nor rows of handlers, but for
//! two: payload limits are those of any tier, and a sweep that is felt in a weaker one is felt in
//! the site's. Conclusions belong to the rules.

use sessile_core::Durability;
use sessile_results::statistics::Spread;
use sessile_results::tables::faults::{ALL, SERVER};
use sessile_results::{Faults, Report, Row};

use crate::candidate::{Candidate, Conditions, is_in_its_tier, is_of, log_distance};
use crate::large::LargePayloads;
use crate::paced::{self, MissedRate, PacedRun};
use crate::site::Site;

#[derive(Clone, Debug, Default)]
pub struct MeasuredFigures {
    /// Locked requests a second under the chosen conditions, and of each round.
    pub cycles: Option<Spread>,
    pub rounds: Vec<f64>,
    /// The result in which it took turns with other contenders, as in `cycle`.
    pub turns_in: Option<usize>,
    /// The p99 of these requests, when nothing waits but for the store.
    pub p99_us: f64,
    /// A fixed rate as high as the site's, and the p99 there.
    pub p99_at_rate: Option<(f64, f64)>,
    /// New sessions a second, in its tier or a weaker one.
    pub creates: Option<f64>,
    /// The command line of the private server that they were measured on.
    pub server_flags: Option<String>,
    pub footprint: Option<MeasuredSpace>,
    /// The slowest sweeps within requests that were a second mode.
    pub sweep: Option<SlowSweep>,
    /// The highest total rate that it kept up with, at a load no lighter than the site's.
    pub kept_up: Option<f64>,
    /// The lowest total rate that it missed, at a load no harder than the site's.
    pub fell_behind: Option<MissedRate>,
    pub memory_bytes: Option<u64>,
    /// The first row in which something went wrong.
    pub fault: Option<String>,
    /// What kills cost it, in the tier in which it is judged; in its own where that is too weak.
    pub restarts: Option<Restarts>,
    pub large: LargePayloads,
}

/// Measured space of a session, at the payload and number of sessions nearest to the site's; of
/// equally near rows the largest, so that their order does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredSpace {
    pub bytes: u64,
    pub payload_bytes: u64,
    pub sessions: u64,
}

/// Requests that swept and were slower than all others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowSweep {
    pub p90_us: f64,
    pub sessions: u64,
}

/// All kills of a server, or of all processes of an embedded store, and what was lost within its
/// tier. Anything beyond is a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Restarts {
    pub sessions_lost: u64,
    /// Acknowledged updates.
    pub updates_lost: u64,
    pub kills: u64,
}

pub(crate) fn measured(
    candidate: &Candidate,
    results: &[Report],
    question: Option<&Conditions>,
    site: &Site,
) -> MeasuredFigures {
    let mut measured = MeasuredFigures {
        memory_bytes: memory_of(results, question),
        ..MeasuredFigures::default()
    };
    let (mut nearest, mut runs) = ((f64::INFINITY, f64::INFINITY, 0.0), Vec::new());
    let of_machine =
        |report: &Report| question.is_none_or(|question| question.is_same_machine(report));
    for (number, report) in results.iter().enumerate().filter(|(_, report)| of_machine(report)) {
        let is_near = report.settings.round_trip_us.unwrap_or_default()
            <= question.map_or(0.0, |question| question.round_trip_us);
        for row in &report.results {
            measured.large.add_row(row, candidate, site);
            if !is_of(row, candidate) || !is_of_store(row) {
                continue;
            }
            measured.sweeps_of(row, site);
            if is_near && !report.settings.as_published {
                measured.creations_of(row, candidate, question, site);
            }
            let is_in_its_tier = is_in_its_tier(row, candidate);
            if is_in_its_tier || candidate.tier.is_none() {
                measured.restarts = measured.restarts.max(restarts(row));
            }
            runs.extend(PacedRun::of(row, report, question, candidate));
            if !is_in_its_tier {
                continue;
            }
            if row.is_bad() && measured.fault.is_none() {
                let (experiment, op) = (&row.question.experiment, &row.question.op);
                measured.fault = Some(format!("{experiment} {op}: {}", row.fault()));
            }
            let asked = Conditions::of(row, report, site.durability.name());
            if question.is_some_and(|question| asked == *question) && row.question.op == "cycle" {
                let figures = &row.figures;
                measured.cycles = (!row.is_bad()).then_some(figures.ops_per_second);
                measured.p99_us = figures.latency_us.p99;
                let servers = &report.environment.servers;
                measured.server_flags =
                    candidate.capabilities.server.and_then(|name| servers.get(name)).cloned();
                measured.rounds = figures.samples.iter().map(|it| it.ops_per_second).collect();
                measured.turns_in = (row.question.experiment == "cycle").then_some(number);
            }
            if let Some((from_site, space)) = space_of(row, site).filter(|it| it.0 < nearest) {
                (nearest, measured.footprint) = (from_site, Some(space));
            }
        }
    }
    measured.p99_at_rate = paced::p99_at_rate(&runs, site);
    (measured.kept_up, measured.fell_behind) =
        (paced::kept_up(&runs, site), paced::fell_behind(&runs, site));
    measured
}

impl MeasuredFigures {
    /// The most new sessions a second, of no fewer workers and no larger payloads than are judged.
    /// A stronger tier does no more.
    fn creations_of(
        &mut self,
        row: &Row,
        candidate: &Candidate,
        question: Option<&Conditions>,
        site: &Site,
    ) {
        let asked = &row.question;
        let tier = Durability::from_name(&asked.durability);
        let is_of_creations = (asked.experiment.as_str(), asked.op.as_str()) == ("ops", "create");
        let is_no_harder = asked.payload_bytes as u64 <= site.payload_bytes
            && question.is_none_or(|question| asked.workers >= question.workers);
        let is_of_tier = tier.is_some() && tier <= candidate.tier;
        if is_of_creations && is_no_harder && is_of_tier && !row.is_bad() {
            let most = self.creates.unwrap_or_default();
            self.creates = Some(most.max(row.figures.ops_per_second.median));
        }
    }

    /// Only sweeps among no more sessions than the site has, which take as long there, or longer.
    fn sweeps_of(&mut self, row: &Row, site: &Site) {
        let is_weaker = Durability::from_name(&row.question.durability) <= Some(site.durability);
        let Some(modes) = row.figures.modes.filter(|modes| modes.modes > 1 && is_weaker) else {
            return;
        };
        let sweep =
            SlowSweep { p90_us: modes.sweeping_p90, sessions: row.question.sessions as u64 };
        let slowest = self.sweep.is_none_or(|known| known.p90_us < sweep.p90_us);
        if slowest && sweep.sessions <= site.sessions {
            self.sweep = Some(sweep);
        }
    }
}

/// The space of a row's sessions, if it was weighed, and how far the row is from the site.
fn space_of(row: &Row, site: &Site) -> Option<((f64, f64, f64), MeasuredSpace)> {
    let (asked, bytes) = (&row.question, row.figures.bytes_per_session);
    let weighs = bytes > 0 && matches!(asked.experiment.as_str(), "cycle" | "scale" | "ops");
    let (payload_bytes, sessions) = (asked.payload_bytes as u64, asked.sessions as u64);
    let payload_apart = log_distance(payload_bytes, site.payload_bytes);
    let from_site = (payload_apart, log_distance(sessions, site.sessions), -(bytes as f64));
    weighs.then_some((from_site, MeasuredSpace { bytes, payload_bytes, sessions }))
}

/// The memory of the chosen machine, or the one that all results have in common.
fn memory_of(results: &[Report], question: Option<&Conditions>) -> Option<u64> {
    let of_results = || {
        let mut all = results.iter().map(|report| report.environment.memory_bytes);
        let first = all.next()?;
        all.all(|other| other == first).then_some(first)
    };
    question.map(|question| question.memory_bytes).or_else(of_results)
}

/// Whether a row is of a store: not of a handler of the same name, and of no workload.
pub(crate) fn is_of_store(row: &Row) -> bool {
    row.question.workload.is_none()
        && !matches!(row.question.experiment.as_str(), "lifecycle" | "rebuild" | "languages")
}

fn restarts(row: &Row) -> Option<Restarts> {
    let asked = &row.question;
    let restarted = asked.experiment == "faults" && matches!(asked.op.as_str(), SERVER | ALL);
    let Faults { sessions_lost, lost: updates_lost, kills, .. } =
        *row.faults.as_ref().filter(|_| restarted)?;
    Some(Restarts { sessions_lost, updates_lost, kills })
}
