//! What results say of one candidate, as far as it is about the site.
//!
//! It owns one invariant: of another machine, build or durability tier no row counts, neither for a store nor against it, and
//! no row is of a handler. Only of how large a payload may be a server that is not ours says something in any tier: which one it
//! has, nobody asked it. What follows from rows that count is the business of the rules.

use super::candidate::{Candidate, Question, apart, is_of};
use super::large::Large;
use super::paced::{self, FellBehind, Paced};
use super::site::Site;
use crate::report::faults::{ALL, SERVER};
use crate::report::{Report, Row};
use crate::statistics::Spread;

/// What the results say of one candidate.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Locked requests a second in the question that was chosen.
    pub cycles: Option<Spread>,
    /// The 99th percentile of them in microseconds.
    pub p99_us: f64,
    /// Space of a session, where that was measured.
    pub footprint: Option<Footprint>,
    /// The slowest sweeps within requests, where they were a second mode.
    pub sweep: Option<Sweep>,
    /// The most requests a second that were due at a fixed rate and done, at a load that is no lighter than the site's.
    pub kept_up: Option<f64>,
    /// The fewest requests a second that were due at a fixed rate and not done, at a load that is no harder than the site's,
    /// if no higher rate was kept up with.
    pub fell_behind: Option<FellBehind>,
    /// Memory of the machine that was measured.
    pub memory_bytes: Option<u64>,
    /// Rows in which something went wrong: the first of them.
    pub fault: Option<String>,
    /// Sessions that a restart cost in the tier of the site, where it cost any.
    pub lost_at_restart: Option<RestartLoss>,
    /// What became of payloads of about the site's size, where large ones were saved.
    pub large: Large,
}

/// Measured space of a session, at the payload and number of sessions that are nearest to the site's; of equally near ones the
/// largest, in whichever order the results come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Space of one session in bytes.
    pub bytes: u64,
    /// Its payload in bytes.
    pub payload_bytes: u64,
    /// How many there were.
    pub sessions: u64,
}

/// Requests that swept, and were slower than all others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sweep {
    /// A tenth of them took longer, in microseconds.
    pub p90_us: f64,
    /// So many sessions there were.
    pub sessions: u64,
}

/// What was gone after a server, or all processes that had an embedded store open, were killed and started again. Whether
/// its tier promises more is another matter: whoever was logged in is not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartLoss {
    /// Sessions that were gone, over all kills.
    pub sessions: u64,
    /// How often everything was killed.
    pub kills: u64,
}

pub(super) fn measured(
    candidate: &Candidate,
    results: &[Report],
    question: Option<&Question>,
    site: &Site,
) -> Measured {
    let mut measured = Measured { memory_bytes: memory_of(results, question), ..Measured::default() };
    let (mut nearest, mut runs) = ((f64::INFINITY, f64::INFINITY, 0.0), Vec::new());
    let of_machine = |report: &&Report| question.is_none_or(|question| question.is_of_machine(report));
    for report in results.iter().filter(of_machine) {
        for row in &report.results {
            measured.large.learn(row, candidate, site);
        }
        let rows = report.results.iter().filter(|row| is_of(row, candidate) && is_about(row, site));
        for row in rows {
            if row.is_bad() && measured.fault.is_none() {
                measured.fault = Some(format!("{} {}: {}", row.experiment, row.op, row.fault()));
            }
            if question.is_some_and(|question| Question::of(row, report) == *question) && row.op == "cycle" {
                measured.cycles = (!row.is_bad()).then_some(row.ops_per_second);
                measured.p99_us = row.latency_us.p99;
            }
            if let Some(loss) = restart_loss(row) {
                let known = measured.lost_at_restart.filter(|known| known.sessions >= loss.sessions);
                measured.lost_at_restart = known.or(Some(loss));
            }
            let weighs = row.bytes_per_session > 0 && matches!(row.experiment.as_str(), "cycle" | "scale" | "ops");
            let (payload_bytes, sessions) = (row.payload_bytes as u64, row.sessions as u64);
            let (payload_apart, sessions_apart) =
                (apart(payload_bytes, site.payload_bytes), apart(sessions, site.sessions));
            let from_site = (payload_apart, sessions_apart, -(row.bytes_per_session as f64));
            if weighs && from_site < nearest {
                nearest = from_site;
                measured.footprint = Some(Footprint { bytes: row.bytes_per_session, payload_bytes, sessions });
            }
            measured.sweeps_of(row, site);
            runs.extend(Paced::of(row, report, question));
        }
    }
    (measured.kept_up, measured.fell_behind) = (paced::kept_up(&runs, site), paced::fell_behind(&runs, site));
    measured
}

impl Measured {
    /// Of sweeps among no more sessions than the site has: there they take as long, or longer.
    fn sweeps_of(&mut self, row: &Row, site: &Site) {
        let Some(modes) = row.modes.filter(|modes| modes.modes > 1) else { return };
        let sweep = Sweep { p90_us: modes.sweeping_p90, sessions: row.sessions as u64 };
        let slowest = self.sweep.is_none_or(|known| known.p90_us < sweep.p90_us);
        if slowest && sweep.sessions <= site.sessions {
            self.sweep = Some(sweep);
        }
    }
}

/// The memory of the machine that the question was asked on; without one, of the machine that all results are of.
fn memory_of(results: &[Report], question: Option<&Question>) -> Option<u64> {
    let of_results = || {
        let mut all = results.iter().map(|report| report.environment.memory_bytes);
        let first = all.next()?;
        all.all(|other| other == first).then_some(first)
    };
    question.map(|question| question.memory_bytes).or_else(of_results)
}

/// Whether a row can say something of a store at the site: measured in its tier, and of the store itself.
fn is_about(row: &Row, site: &Site) -> bool {
    row.durability == site.durability.name() && is_of_store(row)
}

/// Whether a row is of a store, not of a handler or keeper in another language that has its name, with failures and pauses of
/// its own. A workload is another question.
pub(super) fn is_of_store(row: &Row) -> bool {
    row.workload.is_none() && row.php.is_none() && !matches!(row.experiment.as_str(), "lifecycle" | "rebuild" | "perl")
}

/// Sessions that a restart cost.
fn restart_loss(row: &Row) -> Option<RestartLoss> {
    let restarted = row.experiment == "faults" && matches!(row.op.as_str(), SERVER | ALL);
    let faults = row.faults.as_ref().filter(|_| restarted)?;
    (faults.sessions_lost > 0).then_some(RestartLoss { sessions: faults.sessions_lost, kills: faults.kills })
}
