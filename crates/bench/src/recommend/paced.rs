//! What results say of locked requests at fixed rates, as far as it is about the site.
//!
//! It owns one invariant: a rate that was kept up with speaks for no site with larger sessions or many more of them than
//! there were, and one that was not against no site with smaller ones or far fewer. What follows is the business of the rules.

use super::candidate::{Question, is_cycle};
use super::site::Site;
use super::thresholds::{ROUND_TRIP_ALIKE, SESSIONS_ALIKE};
use crate::report::warnings::keeps_up;
use crate::report::{Report, Row};

/// A fixed rate that was too much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FellBehind {
    /// Requests a second that were due.
    pub due: f64,
    /// Requests a second that were done.
    pub done: f64,
}

/// A run at a fixed rate.
pub(super) struct Paced {
    due: f64,
    done: f64,
    kept_up: bool,
    sessions: u64,
    payload_bytes: u64,
}

impl Paced {
    /// What a row says. Nothing, if its payloads differ in another way than those of the question, its store is of another age or
    /// servers were at another distance: nobody knows which is harder. Nor if it fell behind with fewer workers: more may do more.
    pub(super) fn of(row: &Row, report: &Report, question: Option<&Question>) -> Option<Paced> {
        let rate = report.settings.rate.filter(|_| is_cycle(row) && !row.is_bad())?;
        let (way, kept_up) = (report.settings.round_trip_us.unwrap_or(0.0), keeps_up(row, rate));
        let is_comparable = question.is_none_or(|question| {
            let (near, far) = (way.min(question.round_trip_us), way.max(question.round_trip_us));
            far <= ROUND_TRIP_ALIKE.value as f64 * near
                && row.payload_spread == question.payload_spread
                && report.settings.churn == question.churn
                && (kept_up || row.workers >= question.workers)
        });
        is_comparable.then_some(Paced {
            due: rate * row.workers as f64,
            done: row.ops_per_second.median,
            kept_up,
            sessions: row.sessions as u64,
            payload_bytes: row.payload_bytes as u64,
        })
    }

    /// Whether the site has sessions that are no larger, and at most so many times more that they take about as much each.
    fn is_as_hard_as(&self, site: &Site) -> bool {
        self.payload_bytes >= site.payload_bytes && self.sessions >= site.sessions / SESSIONS_ALIKE.value
    }

    /// Whether the site has sessions that are no smaller, and at least about as many.
    fn is_as_light_as(&self, site: &Site) -> bool {
        self.payload_bytes <= site.payload_bytes && self.sessions / SESSIONS_ALIKE.value <= site.sessions
    }

    /// Whether it shows that the other run fell behind because the machine stood still: it did no less, and nothing easier.
    fn refutes(&self, other: &Paced) -> bool {
        self.kept_up
            && self.due >= other.due
            && self.payload_bytes >= other.payload_bytes
            && self.sessions >= other.sessions
    }
}

/// The most requests a second that a store kept up with, at a load that is no lighter than the site's.
pub(super) fn kept_up(runs: &[Paced], site: &Site) -> Option<f64> {
    runs.iter().filter(|run| run.kept_up && run.is_as_hard_as(site)).map(|run| run.due).reduce(f64::max)
}

/// The fewest requests a second that it fell behind with, at a load that is no harder than the site's.
pub(super) fn fell_behind(runs: &[Paced], site: &Site) -> Option<FellBehind> {
    let too_much =
        |run: &&Paced| !run.kept_up && run.is_as_light_as(site) && !runs.iter().any(|other| other.refutes(run));
    let behind = runs.iter().filter(too_much).min_by(|a, b| a.due.total_cmp(&b.due));
    behind.map(|run| FellBehind { due: run.due, done: run.done })
}
