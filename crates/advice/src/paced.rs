//! What runs at fixed rates say about the site.
//!
//! Invariant: a rate kept up with does not speak for a site with larger or more sessions, and
//! a missed rate not against one with smaller or far fewer. Conclusions belong to the rules.

use sessile_core::Durability;
use sessile_results::statistics::Spread;
use sessile_results::warnings::keeps_up;
use sessile_results::{Report, Row};

use crate::candidate::{Candidate, Conditions, is_cycle};
use crate::site::Site;
use crate::thresholds::{PAYLOAD_FAR, ROUND_TRIP_ALIKE, SESSIONS_ALIKE};

/// A fixed rate that was too high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MissedRate {
    /// Requests a second due.
    pub due: f64,
    /// Requests a second done.
    pub done: f64,
}

pub(crate) struct PacedRun {
    due: f64,
    done: f64,
    kept_up: bool,
    p99_us: f64,
    sessions: u64,
    payload_bytes: u64,
}

impl PacedRun {
    /// `None` if payload spread or round trip differ from the chosen conditions, because it
    /// is unknown which is harder; if it fell behind with fewer workers, because more may do more;
    /// and in another tier, unless it kept up in a stronger one.
    pub(crate) fn of(
        row: &Row,
        report: &Report,
        question: Option<&Conditions>,
        candidate: &Candidate,
    ) -> Option<PacedRun> {
        let (judged, measured) =
            (candidate.tier?, Durability::from_name(&row.question.durability)?);
        let rate = report.settings.rate.filter(|_| is_cycle(row) && !row.is_bad())?;
        let (way, kept_up) = (report.settings.round_trip_us.unwrap_or(0.0), keeps_up(row, rate));
        let is_comparable = question.is_none_or(|question| {
            let (near, far) = (way.min(question.round_trip_us), way.max(question.round_trip_us));
            far <= ROUND_TRIP_ALIKE.value as f64 * near
                && row.question.payload_spread == question.payload_spread
                && (kept_up || row.question.workers >= question.workers)
        });
        let is_of_tier = measured == judged || measured > judged && kept_up;
        (is_comparable && is_of_tier).then_some(PacedRun {
            due: rate * row.question.workers as f64,
            done: row.figures.ops_per_second.median,
            kept_up,
            p99_us: p99_of_rounds(row),
            sessions: row.question.sessions as u64,
            payload_bytes: row.question.payload_bytes as u64,
        })
    }

    /// The site's sessions are no larger and no more.
    fn is_as_hard_as(&self, site: &Site) -> bool {
        self.payload_bytes >= site.payload_bytes && self.sessions >= site.sessions
    }

    /// The site's sessions are no smaller and not many fewer.
    fn is_as_light_as(&self, site: &Site) -> bool {
        self.payload_bytes <= site.payload_bytes
            && self.sessions / SESSIONS_ALIKE.value <= site.sessions
    }

    fn is_alike(&self, site: &Site) -> bool {
        self.payload_bytes.saturating_mul(PAYLOAD_FAR.value) >= site.payload_bytes
            && self.sessions.saturating_mul(SESSIONS_ALIKE.value) >= site.sessions
    }

    /// Shows that the other run fell behind because the machine stalled: this one did as much under
    /// a load no easier.
    fn refutes(&self, other: &PacedRun) -> bool {
        self.kept_up
            && self.due >= other.due
            && self.payload_bytes >= other.payload_bytes
            && self.sessions >= other.sessions
    }
}

/// The median of the rounds: a single stall delays all requests that are due meanwhile, which are
/// more than a hundredth.
fn p99_of_rounds(row: &Row) -> f64 {
    let rounds: Vec<f64> = row.figures.samples.iter().map(|sample| sample.p99_us).collect();
    if rounds.is_empty() { row.figures.latency_us.p99 } else { Spread::of(&rounds).median }
}

pub(crate) fn kept_up(runs: &[PacedRun], site: &Site) -> Option<f64> {
    runs.iter()
        .filter(|run| run.kept_up && run.is_as_hard_as(site))
        .map(|run| run.due)
        .reduce(f64::max)
}

/// The lowest fixed rate that it kept up with and that the site does not exceed, and the p99 there,
/// among sessions not much smaller or fewer than the site's.
pub(crate) fn p99_at_rate(runs: &[PacedRun], site: &Site) -> Option<(f64, f64)> {
    runs.iter()
        .filter(|run| run.kept_up && run.due >= site.cycles_per_second() && run.is_alike(site))
        .min_by(|a, b| a.due.total_cmp(&b.due))
        .map(|run| (run.due, run.p99_us))
}

pub(crate) fn fell_behind(runs: &[PacedRun], site: &Site) -> Option<MissedRate> {
    let too_much = |run: &&PacedRun| {
        !run.kept_up && run.is_as_light_as(site) && !runs.iter().any(|other| other.refutes(run))
    };
    let behind = runs.iter().filter(too_much).min_by(|a, b| a.due.total_cmp(&b.due));
    behind.map(|run| MissedRate { due: run.due, done: run.done })
}
