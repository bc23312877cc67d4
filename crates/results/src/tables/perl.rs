//! The tables of `perl`: the cost of a session inside Perl, and what each keeper locks.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Row;
use crate::columns::{fault_count, op, percentiles, range, rate, server_time, sessions, store};
use crate::number::{count, figure, short};
use crate::table::{
    Column, ResultTable, TableCell, bad, first_of_each, known, measured, right, text,
};
use crate::tables::KINDS;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeeperFigures {
    /// What concurrent requests of a session lock: `none`, `shared` or `whole`.
    pub locking: String,
    /// The module that it stands in for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_for: Option<String>,
    /// The cost of keeping all sessions as one value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_cache: Option<WholeCache>,
    /// What two concurrent processes lost; on the keeper's last row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub race: Option<Race>,
}

/// Two processes that changed one session, and then created sessions, at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Race {
    /// Changes by both.
    pub changes: u64,
    /// Changes missing.
    pub changes_lost: u64,
    /// Sessions created by both.
    pub sessions: u64,
    /// Sessions missing.
    pub sessions_lost: u64,
    /// Why it did not end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broke: Option<String>,
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Race { changes, changes_lost, sessions, sessions_lost, broke } = self;
        match broke {
            Some(why) => write!(f, "{why}"),
            None => {
                write!(
                    f,
                    "{changes_lost} of {changes} changes and {sessions_lost} of {sessions} \
                     sessions were lost"
                )
            }
        }
    }
}

/// All sessions are one value, read and written for each of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WholeCache {
    pub bytes: u64,
    /// Deserializations for one opened and saved session.
    pub thaws_per_session: f64,
    /// Serializations.
    pub freezes_per_session: f64,
    /// Share of time for both.
    pub serialising: f64,
    /// Share of time for attaching, copying and detaching the shared memory.
    pub copying: f64,
}

impl WholeCache {
    /// From a keeper's report about this number of sessions; `None` if it is empty.
    pub fn new(
        told: &std::collections::BTreeMap<String, f64>,
        sessions: usize,
    ) -> Option<WholeCache> {
        let number = |name: &str| told.get(name).copied();
        let all = number("all_ns").filter(|ns| *ns > 0.0)?;
        let each = |count: f64| count / sessions.max(1) as f64;
        Some(WholeCache {
            bytes: number("bytes")? as u64,
            thaws_per_session: each(number("thaws")?),
            freezes_per_session: each(number("freezes")?),
            serialising: number("serialising_ns")? / all,
            copying: number("copying_ns")? / all,
        })
    }
}

pub fn tables(rows: &[&Row]) -> Vec<ResultTable> {
    let mut tables: Vec<ResultTable> =
        KINDS.iter().map(|(kind, place)| times(rows, kind, place)).collect();
    tables.push(races(rows));
    tables
}

/// What a keeper locks: `whole`, nobody else has the session from open to close; `shared`, several
/// may, and of two changes one can be lost; `none`, nothing beyond a single call.
pub fn times(rows: &[&Row], kind: &str, place: &str) -> ResultTable {
    let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.kind == kind).collect();
    let mut columns = vec![store(), op("op"), sessions(), lock(), rate(), range()];
    columns.extend(percentiles());
    columns.extend([
        measured("max", |row| right(figure(row.latency_us.max))),
        measured("perl \u{b5}s", |row| right(figure(row.cpu_us_per_op.client))),
        server_time(),
    ]);
    let caption = format!("{place}: open to close, latency and processor time in \u{b5}s");
    ResultTable::of_rows(&caption, &rows, columns)
}

fn lock<'a>() -> Column<'a> {
    known("lock", |row| text(row.keeper.as_ref().map_or("unknown", |it| it.locking.as_str())))
}

/// The measured effect of the column `lock`, and what stands in for modules that are not packaged.
pub fn races(rows: &[&Row]) -> ResultTable {
    let race = |row: &Row| row.keeper.as_ref().and_then(|keeper| keeper.race.clone());
    let number = |title: &str, of: fn(&Race) -> TableCell| {
        known(title, move |row| {
            let whole = race(row).filter(|race| race.broke.is_none());
            whole.as_ref().map_or(TableCell::Empty, of)
        })
    };
    let columns = vec![
        store(),
        lock(),
        known("broke", move |row| race(row).and_then(|it| it.broke).map_or(TableCell::Empty, bad)),
        number("changes", |it| right(count(it.changes as f64))),
        number("changes lost", |it| fault_count(it.changes_lost)),
        number("new sessions", |it| right(count(it.sessions as f64))),
        number("new sessions lost", |it| fault_count(it.sessions_lost)),
    ];
    let raced: Vec<&Row> = rows.iter().copied().filter(|row| race(row).is_some()).collect();
    let caption =
        "Two processes at once: they change one session, then each makes sessions of its own";
    let mut table = ResultTable::of_rows(caption, &raced, columns);
    table.notes = first_of_each(rows).into_iter().filter_map(|row| stand_in(row, rows)).collect();
    table
}

/// Explains a stand-in, and why it slows down with each session.
fn stand_in(row: &Row, rows: &[&Row]) -> Option<TableCell> {
    let own = || rows.iter().filter(|other| other.title() == row.title());
    let original = own().find_map(|row| row.keeper.as_ref()?.stands_for.as_deref())?;
    let title = row.title();
    let mut words = format!("{title} stands in for {original}, which is not packaged.");
    let with_cache =
        own().filter_map(|row| Some((row, row.keeper.as_ref()?.whole_cache.as_ref()?)));
    if let Some((row, cache)) = with_cache.max_by_key(|(row, _)| row.sessions) {
        words.push_str(&format!(
            " With {} sessions, each one that is opened and saved turns all of them ({} bytes) \
             into a hash {} times and back {} times: {:.0} % of the time, and {:.0} % for its \
             shared memory.",
            count(row.sessions as f64),
            count(cache.bytes as f64),
            short(cache.thaws_per_session),
            short(cache.freezes_per_session),
            cache.serialising * 100.0,
            cache.copying * 100.0
        ));
    }
    Some(text(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(sessions: usize, keeper: KeeperFigures) -> Row {
        Row {
            experiment: "perl".into(),
            store: "all".into(),
            variant: "default".into(),
            op: "reopen".into(),
            kind: "embedded".into(),
            sessions,
            keeper: Some(keeper),
            ..Row::default()
        }
    }

    #[test]
    fn what_a_whole_cache_costs_is_told_of_the_most_sessions() {
        let told = [("all_ns", 1e6), ("bytes", 5e5), ("thaws", 40.0), ("freezes", 10.0)];
        let told: std::collections::BTreeMap<String, f64> =
            told.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        assert_eq!(WholeCache::new(&told, 10), None, "parts are missing");
        assert_eq!(WholeCache::new(&std::collections::BTreeMap::new(), 10), None);
        let parts = [("serialising_ns".to_owned(), 9e5), ("copying_ns".to_owned(), 5e4)];
        let whole_cache = WholeCache::new(&told.into_iter().chain(parts).collect(), 10);
        let stands_for = Some("Original".to_owned());
        let few = row(10, KeeperFigures { stands_for, ..KeeperFigures::default() });
        let many = row(1_000, KeeperFigures { whole_cache, ..KeeperFigures::default() });
        let notes = races(&[&few, &many]).notes;
        let words = notes[0].words();
        for part in
            ["for Original", "With 1,000 sessions", "500,000 bytes", "4 times", "90 %", " 5 %"]
        {
            assert!(words.contains(part), "{part}: {words}");
        }
    }
}
