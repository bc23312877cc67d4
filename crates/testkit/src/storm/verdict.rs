//! What a storm found, for people and as JSON, and the exit code.

use std::fmt;

use serde_json::{Value, json};
use sessile_core::{Detail, DetailValue};

use super::crew::Deeds;
use super::tally::Tally;

/// Space before and after, in bytes of occupied blocks.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    pub empty: u64,
    pub most: u64,
    pub after: u64,
    pub limit: u64,
}

/// The result of a storm.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The name of the target.
    pub store: String,
    /// How long it lasted.
    pub seconds: f64,
    /// Processes at any time.
    pub processes: usize,
    /// Of all choices.
    pub seed: u64,
    /// What was done to them.
    pub deeds: Deeds,
    /// What they did, and what was wrong with it.
    pub tally: Tally,
    /// Sessions that were read back in the end.
    pub read_back: u64,
    /// Things that `verify` checked; `None` where the store has no `verify`.
    pub verified: Option<u64>,
    /// Where it is checked.
    pub space: Option<Space>,
    /// What the store said of itself when everything was removed.
    pub details: Vec<Detail>,
    /// What was not checked, and why.
    pub notes: Vec<String>,
    /// With fewer kills and steals than this the run proves nothing.
    pub least: (u64, u64),
}

impl Verdict {
    /// Violations.
    pub fn problems(&self) -> u64 {
        self.tally.problems.len() as u64 + self.tally.problems_untold
    }

    /// Too little happened.
    pub fn void(&self) -> bool {
        self.deeds.kills < self.least.0 || self.tally.steals < self.least.1
    }

    /// 0 passed, 1 violations, 4 void.
    pub fn exit_code(&self) -> u8 {
        match (self.problems(), self.void()) {
            (0, false) => 0,
            (0, true) => 4,
            _ => 1,
        }
    }

    fn freed(&self, share: f64) -> f64 {
        let mut sorted = self.tally.freed_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(0.0)
    }

    /// All numbers.
    pub fn json(&self) -> Value {
        let (deeds, tally) = (&self.deeds, &self.tally);
        json!({
            "schema": 1,
            "store": self.store,
            "seconds": self.seconds,
            "processes": self.processes,
            "seed": self.seed,
            "passed": self.exit_code() == 0,
            "void": self.void(),
            "kills": deeds.kills,
            "stops": deeds.stops,
            "processes_started": deeds.started,
            "steals": tally.steals,
            "killed_in_change": tally.killed_in_change,
            "calls": tally.calls,
            "commits": tally.commits,
            "reads": tally.reads,
            "lock_timeouts": tally.timeouts,
            "lock_freed_ms": {
                "count": tally.freed_ms.len(), "p50": self.freed(0.5), "p99": self.freed(0.99), "max": self.freed(1.0),
            },
            "read_back": self.read_back,
            "verified": self.verified,
            "space_bytes": self.space.map(|space| {
                json!({ "empty": space.empty, "most": space.most, "after": space.after, "limit": space.limit })
            }),
            "notes": self.notes,
            "problems": self.problems(),
            "told": tally.problems,
            "trails": tally.trails,
            "details": self.details.iter().map(detail).collect::<Vec<Value>>(),
        })
    }
}

fn detail(detail: &Detail) -> Value {
    let value = match &detail.value {
        DetailValue::Count(number) | DetailValue::Bytes(number) | DetailValue::Milliseconds(number) => json!(number),
        DetailValue::Text(text) => json!(text),
    };
    json!({ "name": detail.name, "value": value, "unit": detail.value.unit() })
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (deeds, tally) = (&self.deeds, &self.tally);
        let (store, seconds, processes, seed) = (&self.store, self.seconds, self.processes, self.seed);
        writeln!(f, "storm over {store}: {processes} processes, {seconds:.0} s, seed {seed}")?;
        let (kills, in_change, stops) = (deeds.kills, tally.killed_in_change, deeds.stops);
        writeln!(f, "  {kills} killed, {in_change} of them in a change; {stops} stops")?;
        let (count, max) = (tally.freed_ms.len(), self.freed(1.0));
        let (half, most) = (self.freed(0.5), self.freed(0.99));
        writeln!(
            f,
            "  {} locks taken over from the dead; {count} timed, free after p50 {half:.2} ms, p99 {most:.1} ms, at most {max:.1} ms",
            tally.steals
        )?;
        let (calls, commits, reads) = (tally.calls, tally.commits, tally.reads);
        writeln!(f, "  {calls} calls, {commits} commits, {reads} reads judged, {} lock time-outs", tally.timeouts)?;
        let verified =
            self.verified.map_or_else(|| "no verify".to_owned(), |checked| format!("verify checked {checked}"));
        writeln!(f, "  {} sessions read back in the end; {verified}", self.read_back)?;
        if let Some(Space { empty, most, after, limit }) = self.space {
            let kib = |bytes: u64| bytes.div_ceil(1_024);
            let (empty, most, after, limit) = (kib(empty), kib(most), kib(after), kib(limit));
            writeln!(f, "  space: {empty} KiB empty, {most} KiB full, {after} KiB after removing all (limit {limit})")?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "  not checked: {note}"))?;
        tally.problems.iter().try_for_each(|problem| writeln!(f, "  VIOLATION {problem}"))?;
        tally.trails.iter().try_for_each(|trail| writeln!(f, "  {trail}"))?;
        if tally.problems_untold > 0 {
            writeln!(f, "  and {} more", tally.problems_untold)?;
        }
        match self.exit_code() {
            0 => write!(f, "passed"),
            4 => write!(f, "void: at least {} kills and {} take-overs are wanted", self.least.0, self.least.1),
            _ => write!(f, "failed: {} violations", self.problems()),
        }
    }
}
