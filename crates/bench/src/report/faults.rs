//! The counts and tables of `faults`, one for each kind of kill.
//!
//! Invariant: losses that the durability tier allows are shown but are no fault; losses that it
//! forbids are.

use std::fmt;

use comfy_table::{Cell, Table};
use serde::{Deserialize, Serialize};

use crate::report::markdown::{write_section, write_table};
use crate::report::table::{grouped, never_wrap, new_table, right_aligned, three_digits};
use crate::report::{Report, Row};

pub(crate) const HOLDER: &str = "holder-killed";
pub(crate) const WRITER: &str = "writer-killed";
pub(crate) const SERVER: &str = "server-killed";
/// All processes of an embedded store are killed, and others open it.
pub(crate) const ALL: &str = "all-killed";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Faults {
    pub kills: u64,
    pub promise: DurabilityPromise,
    /// Lock ttl in milliseconds, if locks expire.
    pub lock_ttl_ms: Option<u64>,
    /// A lock not free after this time is stuck.
    pub stuck_after_ms: u64,
    pub stuck: u64,
    /// Locks are meant to be stuck: the row shows the cost of a lock that dies with its holder.
    pub stuck_is_meant: bool,
    /// Acknowledged updates.
    pub acknowledged: u64,
    /// Acknowledged updates that are missing.
    pub lost: u64,
    /// Missing updates that the tier promised to keep.
    pub lost_beyond: u64,
    pub sessions_lost: u64,
    /// Missing sessions that the tier promised to keep.
    pub sessions_lost_beyond: u64,
    /// Sessions with a payload that was never written.
    pub damaged: u64,
    /// Sessions that cannot be read.
    pub unreadable: u64,
    /// Operations that failed while the server was down, as expected.
    pub refused: u64,
    /// Transactions aborted by a deadlock and repeated, as the server's manual says. No fault.
    /// `None` if not counted.
    #[serde(default)]
    pub restarted: Option<u64>,
    /// Operations that failed without a kill, and workers that never recovered.
    pub failed: u64,
    /// Median time from the kill to the server's first answer, in microseconds.
    pub down_us: Option<f64>,
}

/// What survives a kill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DurabilityPromise {
    /// All acknowledged updates.
    #[default]
    Everything,
    /// All but those of the last second.
    AllButTheLastSecond,
    /// Nothing.
    Nothing,
}

impl DurabilityPromise {
    pub(crate) fn covers(self, acknowledged_ns: u64, killed_ns: u64) -> bool {
        match self {
            DurabilityPromise::Everything => true,
            DurabilityPromise::AllButTheLastSecond => acknowledged_ns + 1_000_000_000 < killed_ns,
            DurabilityPromise::Nothing => false,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            DurabilityPromise::Everything => "all",
            DurabilityPromise::AllButTheLastSecond => "all but 1 s",
            DurabilityPromise::Nothing => "nothing",
        }
    }
}

impl Faults {
    /// The faults in words; empty without a fault.
    pub fn in_words(&self) -> String {
        let stuck = if self.stuck_is_meant { 0 } else { self.stuck };
        let counts = [
            (self.lost_beyond, "acknowledged updates lost that were promised to survive"),
            (self.sessions_lost_beyond, "sessions lost that were promised to survive"),
            (stuck, "locks stuck"),
            (self.damaged, "payloads damaged"),
            (self.unreadable, "sessions unreadable"),
            (self.failed, "operations failed without a reason"),
        ];
        let found = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"));
        found.collect::<Vec<String>>().join(", ")
    }
}

/// Explains the columns of time.
const AGAIN: &str = "\
down: from the kill to the server's first answer; refused: operations that failed meanwhile, and \
said so
works again: from the kill to a worker's first update (embedded: to open the store, which recovers \
it, and the first
update; one time for each kill, that of the slowest worker)";

impl Report {
    pub(super) fn faults(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = |ops: &[&str]| -> Vec<&Row> {
            self.results
                .iter()
                .filter(|row| row.experiment == "faults" && ops.contains(&row.op.as_str()))
                .collect()
        };
        let (holder, writer, all) = (rows(&[HOLDER]), rows(&[WRITER]), rows(&[SERVER, ALL]));
        if !holder.is_empty() {
            let heading =
                "A worker is killed while it holds a session: when does the next one have it?";
            write_section(f, heading, &holder_table(&holder))?;
        }
        if !writer.is_empty() {
            write_section(f, "Workers are killed while they write", &writer_table(&writer))?;
        }
        if !all.is_empty() {
            let heading = "The server is killed and started again; of an embedded store all \
                           workers are killed";
            write_section(f, heading, &again_table(&all))?;
            writeln!(f, "{AGAIN}\n")?;
            write_table(f, &loss_table(&all))?;
        }
        for row in holder.iter().chain(&writer).chain(&all) {
            restarts(f, row)?;
        }
        Ok(())
    }
}

/// Notes repeated transactions, which are no fault.
fn restarts(f: &mut impl fmt::Write, row: &Row) -> fmt::Result {
    match row.faults.as_ref().and_then(|faults| faults.restarted) {
        None | Some(0) => Ok(()),
        Some(count) => writeln!(
            f,
            "{} {}: {count} transactions done again after a deadlock",
            row.title(),
            row.op
        ),
    }
}

fn table(header: &[&str], rows: &[&Row], cells: impl Fn(&Row, &Faults) -> Vec<String>) -> Table {
    let mut table = new_table(header);
    never_wrap(&mut table, 0);
    for row in rows {
        let mut line = vec![Cell::new(row.shown_title()), Cell::new(&row.durability)];
        match &row.faults {
            Some(faults) => line.extend(cells(row, faults).into_iter().map(right_aligned)),
            None => line.push(right_aligned("failed")),
        }
        table.add_row(line);
    }
    table
}

fn ms(us: f64) -> String {
    three_digits(us / 1e3)
}

fn count(number: u64) -> String {
    grouped(number as f64)
}

fn holder_table(rows: &[&Row]) -> Table {
    let header = [
        "store",
        "tier",
        "kills",
        "lock ends",
        "median ms",
        "longest ms",
        "stuck",
        "lost",
        "damaged",
    ];
    table(&header, rows, |row, faults| {
        let ends = match faults.lock_ttl_ms {
            Some(lock_ttl_ms) => format!("after {lock_ttl_ms} ms"),
            None if faults.stuck_is_meant => "never".to_owned(),
            None => "with holder".to_owned(),
        };
        let freed = faults.stuck < faults.kills;
        let time = |us| if freed { ms(us) } else { String::new() };
        let lost = faults.lost + faults.sessions_lost;
        let (median, longest) = (time(row.latency_us.p50), time(row.latency_us.max));
        vec![
            count(faults.kills),
            ends,
            median,
            longest,
            count(faults.stuck),
            count(lost),
            count(faults.damaged),
        ]
    })
}

fn writer_table(rows: &[&Row]) -> Table {
    let header = [
        "store",
        "tier",
        "kills",
        "acknowledged",
        "updates lost",
        "sessions lost",
        "damaged",
        "unreadable",
    ];
    table(&header, rows, |_, faults| {
        let counts = [faults.kills, faults.acknowledged, faults.lost, faults.sessions_lost];
        counts.into_iter().chain([faults.damaged, faults.unreadable]).map(count).collect()
    })
}

fn again_table(rows: &[&Row]) -> Table {
    let header = ["store", "tier", "kills", "down ms", "works again ms", "longest ms", "refused"];
    table(&header, rows, |row, faults| {
        let down = faults.down_us.map_or(String::new(), ms);
        let time = |us| if us > 0.0 { ms(us) } else { "never".to_owned() };
        let (median, longest) = (time(row.latency_us.p50), time(row.latency_us.max));
        vec![count(faults.kills), down, median, longest, count(faults.refused)]
    })
}

fn loss_table(rows: &[&Row]) -> Table {
    let header = [
        "store",
        "tier",
        "promised",
        "acknowledged",
        "updates lost",
        "sessions lost",
        "promised and lost",
    ];
    table(&header, rows, |_, faults| {
        let beyond = faults.lost_beyond + faults.sessions_lost_beyond;
        let counts = [faults.acknowledged, faults.lost, faults.sessions_lost, beyond];
        std::iter::once(faults.promise.word().to_owned()).chain(counts.map(count)).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::LatencyUs;

    fn row(store: &str, op: &str, faults: Faults) -> Row {
        Row {
            experiment: "faults".into(),
            store: store.into(),
            variant: "default".into(),
            op: op.into(),
            durability: "none".into(),
            latency_us: LatencyUs { p50: 80_000.0, max: 90_000.0, ..LatencyUs::default() },
            faults: Some(faults),
            ..Row::default()
        }
    }

    #[test]
    fn a_lock_that_is_never_free_has_no_time_and_one_that_is_freed_has() {
        let kept = Faults { kills: 5, stuck: 5, stuck_is_meant: true, ..Faults::default() };
        let freed = Faults { kills: 5, ..Faults::default() };
        let rows = [row("kept", HOLDER, kept), row("freed", HOLDER, freed)];
        let text = holder_table(&rows.iter().collect::<Vec<_>>()).to_string();
        let line = |store: &str| {
            text.lines().find(|line| line.trim_start().starts_with(store)).unwrap().to_owned()
        };
        assert!(line("kept").contains("never") && !line("kept").contains("80.0"), "{text}");
        assert!(line("freed").contains("80.0") && line("freed").contains("90.0"), "{text}");
    }

    #[test]
    fn what_was_not_promised_is_shown_and_is_no_fault() {
        let faults = Faults {
            promise: DurabilityPromise::Nothing,
            lost: 123_456,
            sessions_lost: 32,
            ..Faults::default()
        };
        assert_eq!(faults.in_words(), "");
        let row = row("memcached-four-trips", SERVER, faults);
        let text = loss_table(&[&row]).to_string();
        assert!(
            text.contains("123 456")
                && text.contains("nothing")
                && text.contains("memcached-four-trips "),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let lying = Faults { lost_beyond: 3, stuck: 1, ..Faults::default() };
        assert_eq!(
            lying.in_words(),
            "3 acknowledged updates lost that were promised to survive, 1 locks stuck"
        );
    }

    #[test]
    fn a_transaction_that_was_done_again_is_told_and_is_no_fault() {
        let faults = Faults { restarted: Some(7), ..Faults::default() };
        assert_eq!(faults.in_words(), "");
        let mut text = String::new();
        for row in
            [row("mysql-transaction", SERVER, faults), row("mysql", SERVER, Faults::default())]
        {
            restarts(&mut text, &row).unwrap();
        }
        assert_eq!(
            text,
            "mysql-transaction server-killed: 7 transactions done again after a deadlock\n"
        );
    }

    #[test]
    fn a_second_is_promised_but_for_the_last_one() {
        let second = 1_000_000_000;
        assert!(DurabilityPromise::AllButTheLastSecond.covers(1, second + 2));
        assert!(!DurabilityPromise::AllButTheLastSecond.covers(2, second + 2));
        assert!(
            DurabilityPromise::Everything.covers(5, 5)
                && !DurabilityPromise::Nothing.covers(0, u64::MAX)
        );
    }
}
