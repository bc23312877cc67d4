//! The counts and tables of `faults`, one for each kind of kill.
//!
//! Invariant: losses that the durability tier allows are shown but are no fault; losses that it
//! forbids are.

use serde::{Deserialize, Serialize};

use crate::Row;
use crate::columns::store;
use crate::number::{count, time};
use crate::table::{ResultTable, TableCell, bad, measured, right, right_or_empty, text};

pub const HOLDER: &str = "holder-killed";
pub const WRITER: &str = "writer-killed";
pub const SERVER: &str = "server-killed";
/// All processes of an embedded store are killed, and others open it.
pub const ALL: &str = "all-killed";
pub const PRIMARY_KILLED: &str = "primary-killed";
pub const REPLICA_KILLED: &str = "replica-killed";
pub const PRIMARY_HANGS: &str = "primary-hangs";
pub const SLOTS_MOVE: &str = "slots-move";
pub const STANDBY_PROMOTED: &str = "standby-promoted";
/// The heading of what happens to one of several servers, while the rest of it serves.
const UNDISTURBED: &str = "undisturbed after";

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
    pub fn covers(self, acknowledged_ns: u64, killed_ns: u64) -> bool {
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

/// The rows of each table, its title, and the heading of the wait. The waits after the end of a
/// server and after the end of all processes are different.
pub const KILLS: [(&str, &str, &str); 9] = [
    (HOLDER, "A worker is killed while it holds a session", "the next one has it"),
    (WRITER, "Workers are killed while they write", ""),
    (
        SERVER,
        "The server is killed and started again: from the kill to a worker's first update",
        "works again",
    ),
    (
        ALL,
        "All processes that have an embedded store open are killed: others open it, and make the \
         first update",
        "works again",
    ),
    (PRIMARY_KILLED, "A primary of a cluster is killed, and its replica takes over", UNDISTURBED),
    (REPLICA_KILLED, "A replica of a cluster is killed, and started again", UNDISTURBED),
    (
        PRIMARY_HANGS,
        "A primary of a cluster stops, its replica takes over, and the first one goes on",
        UNDISTURBED,
    ),
    (SLOTS_MOVE, "Slots of a cluster move from one primary to another", UNDISTURBED),
    (STANDBY_PROMOTED, "A primary of PostgreSQL is killed, and its standby promoted", UNDISTURBED),
];

const WHAT_DISTURBS: &str = "From the beginning to the end of a worker's last request that failed \
                             or took 100 ms; \"refused\" counts those that failed.";

/// Several processes open the store, and the first one recovers it.
const WHOSE_TIME: &str = "Each kill gives one time: to open the store and to make the first \
                          update, of the slowest of those who do. They open it one after the \
                          other; the first of them recovers it for all, and each may meet a lock \
                          of the dead.";

pub fn tables(rows: &[&Row]) -> Vec<ResultTable> {
    KILLS.iter().map(|(op, caption, waited)| table(rows, op, caption, waited)).collect()
}

/// The rows of one kind of kill; without a heading of the wait nobody waits.
pub fn table(rows: &[&Row], op: &str, caption: &str, waited: &str) -> ResultTable {
    let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.question.op == op).collect();
    let number = |title: &str, of: fn(&Faults) -> u64| {
        measured(title, move |row| right_or_empty(figures(row).map(|it| count(of(it) as f64))))
    };
    let of_cluster = waited == UNDISTURBED;
    let mut columns = vec![store(), number("kills", |it| it.kills)];
    if !waited.is_empty() {
        columns.extend([
            measured(waited, move |row| time_of(row, row.figures.latency_us.p50, of_cluster)),
            measured(format!("{waited}, longest"), move |row| {
                time_of(row, row.figures.latency_us.max, of_cluster)
            }),
            measured("lock ends after", |row| {
                let ttl = figures(row).and_then(|it| it.lock_ttl_ms);
                right_or_empty(ttl.map(|ms| time(ms as f64 * 1e3)))
            }),
            measured("down", |row| {
                right_or_empty(figures(row).and_then(|it| it.down_us).map(time))
            }),
            number("refused", |it| it.refused),
        ]);
    }
    columns.extend([
        number("updates", |it| it.acknowledged),
        number("updates lost", |it| it.lost),
        number("sessions lost", |it| it.sessions_lost),
        measured("promised", |row| {
            figures(row).map_or(TableCell::Empty, |it| text(it.promise.word()))
        }),
        measured("outcome", outcome),
    ]);
    let mut table = ResultTable::of_rows(caption, &rows, columns);
    // The outcome says what went wrong.
    table.rows.iter_mut().zip(&rows).for_each(|(line, row)| {
        line.fault = line.fault.take().filter(|_| row.outcome.failed.is_some());
    });
    table.notes.extend((op == ALL && !rows.is_empty()).then(|| text(WHOSE_TIME)));
    table.notes.extend((of_cluster && !rows.is_empty()).then(|| text(WHAT_DISTURBS)));
    table.notes.extend(rows.iter().filter_map(|row| done_again(row)));
    table
}

fn figures(row: &Row) -> Option<&Faults> {
    row.faults.as_ref()
}

fn time_of(row: &Row, us: f64, of_cluster: bool) -> TableCell {
    let is_freed = figures(row).is_some_and(|it| it.stuck < it.kills);
    match (of_cluster, is_freed && row.figures.latency_us.p50 > 0.0) {
        (false, true) => right(time(us)),
        (false, false) => text("never"),
        (true, _) if us > 0.0 => right(time(us)),
        (true, _) => text("nothing noticed"),
    }
}

fn outcome(row: &Row) -> TableCell {
    let Some(faults) = figures(row) else { return TableCell::Empty };
    match (faults.in_words(), faults.stuck) {
        (words, _) if !words.is_empty() => bad(words),
        (_, stuck @ 1..) => text(format!("{stuck} locks stuck, as its lock is made")),
        _ => text("as promised"),
    }
}

/// Repeated transactions are no fault, but are told if counted.
fn done_again(row: &Row) -> Option<TableCell> {
    let transactions = figures(row)?.restarted.filter(|transactions| *transactions > 0)?;
    Some(text(format!(
        "{}: {} transactions were done again after a deadlock. Our own stores do that inside, \
         where it is not counted.",
        row.subject.title(),
        count(transactions as f64)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Figures, LatencyUs, Question, Subject};

    fn row(store: &str, op: &str, faults: Faults) -> Row {
        Row {
            question: Question {
                experiment: "faults".into(),
                op: op.into(),
                durability: "none".into(),
                ..Question::default()
            },
            subject: Subject {
                store: store.into(),
                variant: "default".into(),
                ..Subject::default()
            },
            figures: Figures {
                latency_us: LatencyUs { p50: 80_000.0, max: 90_000.0, ..LatencyUs::default() },
                ..Figures::default()
            },
            faults: Some(faults),
            ..Row::default()
        }
    }

    /// The cells of a line.
    fn line(rows: &[Row], number: usize) -> String {
        let rows: Vec<&Row> = rows.iter().collect();
        let table = tables(&rows).into_iter().find(|table| !table.rows.is_empty()).unwrap();
        let words = table.rows[number].cells.iter().map(|cell| cell.words().to_owned());
        words.collect::<Vec<String>>().join("|")
    }

    #[test]
    fn a_lock_that_is_never_free_has_no_time_and_one_that_is_freed_has() {
        let kept = Faults { kills: 5, stuck: 5, stuck_is_meant: true, ..Faults::default() };
        let freed = Faults { kills: 5, ..Faults::default() };
        let rows = [row("kept", HOLDER, kept), row("freed", HOLDER, freed)];
        assert!(line(&rows, 0).starts_with("kept|5|never|never|"), "{}", line(&rows, 0));
        assert!(line(&rows, 1).starts_with("freed|5|80 ms|90 ms|"), "{}", line(&rows, 1));
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
        let shown = line(&[row("memcached-four-trips", SERVER, faults)], 0);
        assert!(shown.ends_with("|123,456|32|nothing|as promised"), "{shown}");
        let lying = Faults { lost_beyond: 3, stuck: 1, ..Faults::default() };
        assert_eq!(
            lying.in_words(),
            "3 acknowledged updates lost that were promised to survive, 1 locks stuck"
        );
    }

    #[test]
    fn a_cluster_that_nobody_noticed_has_no_time() {
        let calm = Faults { kills: 3, ..Faults::default() };
        let mut row = row("redis", SLOTS_MOVE, calm);
        row.figures.latency_us = LatencyUs::default();
        let shown = line(&[row], 0);
        assert!(shown.starts_with("redis|3|nothing noticed|nothing noticed|"), "{shown}");
    }

    #[test]
    fn a_transaction_that_was_done_again_is_told_and_is_no_fault() {
        let faults = Faults { restarted: Some(7), ..Faults::default() };
        assert_eq!(faults.in_words(), "");
        let note = done_again(&row("mysql-transaction", SERVER, faults)).unwrap();
        assert!(note.words().starts_with("mysql-transaction: 7 transactions were done again"));
        assert_eq!(done_again(&row("mysql", SERVER, Faults::default())), None);
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
