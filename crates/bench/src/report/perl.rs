//! The tables of `perl`: the cost of a session inside Perl, and what each keeper locks.

use std::fmt;

use comfy_table::{Cell, Table};
use serde::{Deserialize, Serialize};

use crate::perl::{CostBreakdown, KeeperLocking, VALUES};
use crate::report::markdown::write_section;
use crate::report::table::{
    abbreviated, grouped, never_wrap, new_table, or_dash, right_aligned, three_digits,
};
use crate::report::{Report, Row};

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
    pub(crate) fn new(told: &CostBreakdown, sessions: usize) -> Option<WholeCache> {
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

impl Report {
    pub(super) fn perl(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<&Row> = self.results.iter().filter(|row| row.experiment == "perl").collect();
        let Some(first) = rows.first() else { return Ok(()) };
        let rounds = rows.iter().map(|row| row.rounds).max().unwrap_or(0);
        writeln!(
            f,
            "{rounds} rounds; in each, sessions of {} bytes are made and opened again: open, \
             {VALUES} reads and {VALUES} writes in turn, close; seed {}",
            grouped(first.payload_bytes as f64),
            self.seed
        )?;
        for (kind, heading) in
            [("embedded", "In the process of Perl"), ("socket", "Over a unix socket")]
        {
            let here: Vec<&Row> = rows.iter().copied().filter(|row| row.kind == kind).collect();
            if let Some(first) = here.first() {
                let heading =
                    format!("{heading}, durability tier {}: open to close", first.durability);
                write_section(f, &heading, &table(&here))?;
            }
        }
        write_section(f, "The slow end, and CPU time of a session", &costs(&rows))?;
        writeln!(
            f,
            "lock: {} = nobody else has the session from open to close; {} = several may, and of \
             two changes one can be lost; {} = nothing beyond a single call",
            KeeperLocking::Whole.name(),
            KeeperLocking::Shared.name(),
            KeeperLocking::Nothing.name()
        )?;
        races(&rows, f)?;
        stand_ins(&rows, f)?;
        rows.iter().try_for_each(|row| whole_cache(row, &rows, f))
    }
}

fn table(rows: &[&Row]) -> Table {
    let mut table = new_table(&[
        "store",
        "op",
        "sessions",
        "lock",
        "per s",
        "low..high",
        "p50 us",
        "p90 us",
        "p99 us",
    ]);
    never_wrap(&mut table, 0);
    for row in rows {
        let rate = row.ops_per_second;
        let locking = row.keeper.as_ref().map_or("?", |keeper| keeper.locking.as_str());
        let mut cells = vec![
            Cell::new(row.title()),
            Cell::new(&row.op),
            right_aligned(grouped(row.sessions as f64)),
            Cell::new(locking),
        ];
        if row.failed.is_some() {
            cells.push(right_aligned("failed"));
        } else {
            cells.push(right_aligned(grouped(rate.median)));
            cells.push(right_aligned(format!(
                "{}..{}",
                abbreviated(rate.low),
                abbreviated(rate.high)
            )));
            cells.extend(
                [row.latency_us.p50, row.latency_us.p90, row.latency_us.p99]
                    .map(|us| right_aligned(three_digits(us))),
            );
        }
        table.add_row(cells);
    }
    table
}

fn costs(rows: &[&Row]) -> Table {
    let mut table = new_table(&[
        "store",
        "op",
        "sessions",
        "p99.9 us",
        "max us",
        "perl cpu us",
        "server cpu us",
    ]);
    for row in rows.iter().filter(|row| row.failed.is_none()) {
        let (latency, cpu) = (row.latency_us, row.cpu_us_per_op);
        let mut cells = vec![
            Cell::new(row.title()),
            Cell::new(&row.op),
            right_aligned(grouped(row.sessions as f64)),
        ];
        cells.extend(
            [latency.p999, latency.max, cpu.client].map(|us| right_aligned(three_digits(us))),
        );
        cells.push(right_aligned(if row.kind == "socket" {
            or_dash(cpu.of_server())
        } else {
            String::new()
        }));
        table.add_row(cells);
    }
    table
}

/// The measured effect of the column `lock`.
fn races(rows: &[&Row], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut table = new_table(&["store", "lock", "changes", "lost", "new sessions", "lost"]);
    for row in rows {
        let Some(figures) = &row.keeper else { continue };
        let Some(race) = &figures.race else { continue };
        let mut cells = vec![Cell::new(row.title()), Cell::new(&figures.locking)];
        match &race.broke {
            Some(why) => cells.push(Cell::new(why)),
            None => {
                let counts = [race.changes, race.changes_lost, race.sessions, race.sessions_lost];
                cells.extend(counts.map(|count| right_aligned(grouped(count as f64))));
            }
        }
        table.add_row(cells);
    }
    if table.is_empty() {
        return Ok(());
    }
    write_section(
        f,
        "Two processes at once: they change one session, then each makes sessions of its own",
        &table,
    )
}

fn stand_ins(rows: &[&Row], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut told: Vec<&str> = Vec::new();
    for row in rows {
        let original = row.keeper.as_ref().and_then(|keeper| keeper.stands_for.as_deref());
        if let Some(original) = original.filter(|_| !told.contains(&row.store.as_str())) {
            writeln!(f, "{} stands in for {original}, which is not packaged", row.store)?;
            told.push(&row.store);
        }
    }
    Ok(())
}

fn whole_cache(row: &Row, rows: &[&Row], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(cache) = row.keeper.as_ref().and_then(|keeper| keeper.whole_cache.as_ref()) else {
        return Ok(());
    };
    let alike = |other: &&&Row| {
        other.title() == row.title() && other.op == row.op && other.failed.is_none()
    };
    let fewest = rows.iter().filter(alike).min_by_key(|other| other.sessions);
    let times = fewest
        .filter(|other| other.sessions < row.sessions && row.failed.is_none())
        .map_or(String::new(), |other| {
            let times = row.latency_us.p50 / other.latency_us.p50.max(f64::MIN_POSITIVE);
            format!(
                "; that is {} times the time it takes with {}",
                three_digits(times),
                other.sessions
            )
        });
    writeln!(
        f,
        "{} with {} sessions: for each that is opened and saved, all {} bytes become a hash {:.1} \
         times and a value again {:.1} times ({:.0} % of the time; its shared memory {:.0} \
         %){times}",
        row.title(),
        grouped(row.sessions as f64),
        grouped(cache.bytes as f64),
        cache.thaws_per_session,
        cache.freezes_per_session,
        cache.serialising * 100.0,
        cache.copying * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::LatencyUs;
    use crate::statistics::Spread;

    fn row(store: &str, sessions: usize, failed: Option<&str>) -> Row {
        Row {
            experiment: "perl".into(),
            store: store.into(),
            variant: "default".into(),
            op: "reopen".into(),
            kind: "embedded".into(),
            sessions,
            rounds: 3,
            ops_per_second: Spread { median: 1_234.0, low: 1_100.0, high: 1_300.0 },
            latency_us: LatencyUs { p50: sessions as f64 * 10.0, ..LatencyUs::default() },
            failed: failed.map(str::to_owned),
            keeper: Some(KeeperFigures { locking: "shared".into(), ..KeeperFigures::default() }),
            ..Row::default()
        }
    }

    #[test]
    fn a_failed_row_has_no_figure_and_each_row_says_what_it_locks() {
        let (good, bad) = (
            row("apache-file#shm-lock", 1_000, None),
            row("apache-postgres", 1_000, Some("broken")),
        );
        let text = table(&[&good, &bad]).to_string();
        let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
        assert!(
            line("apache-file#shm-lock").contains("1 234") && line("shm-lock").contains("shared"),
            "{text}"
        );
        assert!(
            line("apache-postgres").contains("failed")
                && !line("apache-postgres").contains("1 234"),
            "{text}"
        );
    }

    #[test]
    fn what_a_whole_cache_costs_is_told_beside_the_smallest_one() {
        let told = [("all_ns", 1e6), ("bytes", 5e5), ("thaws", 40.0), ("freezes", 10.0)];
        let told: CostBreakdown =
            told.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        assert_eq!(WholeCache::new(&told, 10), None, "parts are missing");
        assert_eq!(WholeCache::new(&CostBreakdown::new(), 10), None);
        let parts = [("serialising_ns".to_owned(), 9e5), ("copying_ns".to_owned(), 5e4)];
        let cache = WholeCache::new(&told.into_iter().chain(parts).collect(), 10);
        let figures = KeeperFigures { whole_cache: cache, ..KeeperFigures::default() };
        let (few, many) =
            (row("all", 10, None), Row { keeper: Some(figures), ..row("all", 1_000, None) });
        let text = Shown(&many, &[&few, &many]).to_string();
        for part in [
            "500 000 bytes",
            "4.0 times",
            "1.0 times",
            "90 %",
            " 5 %",
            "100 times the time it takes with 10",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    struct Shown<'a>(&'a Row, &'a [&'a Row]);

    impl fmt::Display for Shown<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            whole_cache(self.0, self.1, f)
        }
    }
}
