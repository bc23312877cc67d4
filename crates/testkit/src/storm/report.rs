//! The result of a storm, for people and as JSON, and the exit code.

use std::fmt;

use serde_json::{Value, json};
use sessile_core::{Detail, Details};

use super::counts::StormCounts;
use super::pool::{ProcessCounts, StormOptions};

#[derive(Clone, Copy)]
pub struct OccupiedSpace {
    pub empty: u64,
    pub most: u64,
    pub after: u64,
    pub limit: u64,
}

pub struct StormReport {
    pub(super) store: String,
    pub(super) options: StormOptions,
    pub(super) processes: ProcessCounts,
    pub(super) counts: StormCounts,
    pub(super) read_back: u64,
    /// Things that `verify` checked; `None` where the store has no `verify`.
    pub(super) verified: Option<u64>,
    pub(super) space: Option<OccupiedSpace>,
    pub(super) details: Details,
    pub(super) notes: Vec<String>,
}

pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(0.0)
}

impl StormReport {
    pub fn problems(&self) -> u64 {
        self.counts.problems.len() as u64 + self.counts.problems_unlisted
    }

    /// A run with fewer kills and take-overs proves nothing: 1,000 and 100 in ten minutes.
    fn least(&self) -> (u64, u64) {
        let share = self.options.seconds / 600.0;
        ((1_000.0 * share).ceil() as u64, (100.0 * share).ceil() as u64)
    }

    fn void(&self) -> bool {
        let (kills_min, steals_min) = self.least();
        self.processes.kills < kills_min || self.counts.steals < steals_min
    }

    /// 0 passed, 1 violations, 4 void.
    pub fn exit_code(&self) -> u8 {
        match (self.problems(), self.void()) {
            (0, false) => 0,
            (0, true) => 4,
            _ => 1,
        }
    }

    /// The median, the 99th percentile and the longest time until an orphaned lock was free.
    fn freed_ms(&self) -> [f64; 3] {
        let mut sorted = self.counts.freed_ms.clone();
        sorted.sort_by(f64::total_cmp);
        [0.5, 0.99, 1.0].map(|share| percentile(&sorted, share))
    }

    pub fn json(&self) -> Value {
        let (options, processes, counts) = (&self.options, &self.processes, &self.counts);
        let [p50, p99, max] = self.freed_ms();
        let space = self.space.map(|space| {
            let OccupiedSpace { empty, most, after, limit } = space;
            json!({ "empty": empty, "most": most, "after": after, "limit": limit })
        });
        json!({
            "schema": 1,
            "store": self.store,
            "seconds": options.seconds,
            "processes": options.processes,
            "seed": options.seed,
            "passed": self.exit_code() == 0,
            "void": self.void(),
            "kills": processes.kills,
            "stops": processes.stops,
            "processes_started": processes.started,
            "steals": counts.steals,
            "killed_in_change": counts.killed_in_change,
            "calls": counts.calls,
            "commits": counts.commits,
            "reads": counts.reads,
            "lock_timeouts": counts.timeouts,
            "lock_freed_ms": {
                "count": counts.freed_ms.len(), "p50": p50, "p99": p99, "max": max,
            },
            "read_back": self.read_back,
            "verified": self.verified,
            "space_bytes": space,
            "notes": self.notes,
            "problems": self.problems(),
            "told": counts.problems,
            "trails": counts.trails,
            "details": self.details.iter().map(detail).collect::<Vec<Value>>(),
        })
    }
}

fn detail((name, detail): &(&'static str, Detail)) -> Value {
    let value = match detail {
        Detail::Count(number) | Detail::Bytes(number) | Detail::Milliseconds(number) => {
            json!(number)
        }
        Detail::Text(text) => json!(text),
    };
    json!({ "name": name, "value": value, "unit": detail.unit() })
}

impl fmt::Display for StormReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StormOptions { seconds, processes, seed, .. } = self.options;
        let ProcessCounts { kills, stops, .. } = self.processes;
        let StormCounts { calls, commits, reads, timeouts, steals, .. } = self.counts;
        let StormCounts { killed_in_change, freed_ms, problems, trails, .. } = &self.counts;
        let (store, read_back, [p50, p99, max]) = (&self.store, self.read_back, self.freed_ms());
        let timed = freed_ms.len();
        let verified = self
            .verified
            .map_or_else(|| "no verify".to_owned(), |checked| format!("verify checked {checked}"));
        write!(
            f,
            "storm over {store}: {processes} processes, {seconds:.0} s, seed {seed}\n  \
             {kills} killed, {killed_in_change} of them in a change; {stops} stops\n  \
             {steals} locks taken over from the dead; {timed} timed, free after p50 {p50:.2} ms, \
             p99 {p99:.1} ms, at most {max:.1} ms\n  \
             {calls} calls, {commits} commits, {reads} reads judged, {timeouts} lock time-outs\n  \
             {read_back} sessions read back in the end; {verified}\n"
        )?;
        if let Some(OccupiedSpace { empty, most, after, limit }) = self.space {
            let [empty, most, after, limit] =
                [empty, most, after, limit].map(|bytes| bytes.div_ceil(1_024));
            writeln!(
                f,
                "  space: {empty} KiB empty, {most} KiB full, {after} KiB after removing all \
                 (limit {limit})"
            )?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "  not checked: {note}"))?;
        problems.iter().try_for_each(|problem| writeln!(f, "  VIOLATION {problem}"))?;
        trails.iter().try_for_each(|trail| writeln!(f, "  {trail}"))?;
        if self.counts.problems_unlisted > 0 {
            writeln!(f, "  and {} more", self.counts.problems_unlisted)?;
        }
        let (kills_min, steals_min) = self.least();
        match self.exit_code() {
            0 => write!(f, "passed"),
            4 => {
                write!(f, "void: at least {kills_min} kills and {steals_min} take-overs are wanted")
            }
            _ => write!(f, "failed: {} violations", self.problems()),
        }
    }
}
