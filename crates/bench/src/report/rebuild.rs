//! The tables of `rebuild`: load before and after, the time of a view, and what an operator finds.

use std::fmt;

use comfy_table::Cell;
use serde::{Deserialize, Serialize};

use crate::report::markdown::{write_section, write_table};
use crate::report::table::{grouped, new_table, right_aligned, three_digits};
use crate::report::{Report, Row};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rebuild {
    /// Whether the cache is meant to keep it.
    pub keeps: bool,
    /// Views that reported.
    pub views: u64,
    /// Views that missed the entry and built it.
    pub rebuilt: u64,
    /// Views whose save failed visibly.
    pub unsaved: u64,
    /// Median time to load it, in microseconds.
    pub load_us: f64,
    /// Median time to build it, in rebuilding views.
    pub rebuild_us: f64,
    /// Median time to save it, in rebuilding views.
    pub save_us: f64,
    /// The first line of PHP's log about a failed save.
    pub log: Option<String>,
    /// Bytes that memcached used for entries at the end, with keys and headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
    /// The largest entry found by `sessile scan`.
    pub largest: Option<LargestEntry>,
    /// The load generator's report.
    pub siege: Siege,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargestEntry {
    pub bytes: u64,
    pub bin: String,
    /// The tag of its id; empty where a store keeps only digests.
    pub name: String,
    /// The tag of the entry that owns this payload, as in logs: a route stores large payloads under
    /// names of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
}

impl fmt::Display for LargestEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LargestEntry { bytes, bin, name, entry } = self;
        write!(f, "{} bytes  {}", grouped(*bytes as f64), format!("{bin}  {name}").trim_end())?;
        entry.as_ref().map_or(Ok(()), |tag| write!(f, ", the payload of session {tag}"))
    }
}

/// A report in the terms of `siege`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Siege {
    /// Views.
    pub transactions: u64,
    /// Percentage answered correctly.
    pub availability_percent: f64,
    pub elapsed_s: f64,
    /// Response bytes with headers.
    pub transferred_bytes: u64,
    /// Mean time of a view.
    pub response_s: f64,
    /// Views a second.
    pub rate: f64,
    pub throughput_bytes: f64,
    /// Average number of parallel views.
    pub concurrency: f64,
    /// Views answered correctly.
    pub successful: u64,
    pub failed: u64,
    pub longest_s: f64,
    pub shortest_s: f64,
}

type SiegeLine = (&'static str, fn(&Siege) -> String);

const LINES: &[SiegeLine] = &[
    ("transactions", |siege| grouped(siege.transactions as f64)),
    ("availability %", |siege| format!("{:.2}", siege.availability_percent)),
    ("elapsed time s", |siege| three_digits(siege.elapsed_s)),
    ("transferred MB", |siege| three_digits(siege.transferred_bytes as f64 / 1e6)),
    ("response time s", |siege| format!("{:.3}", siege.response_s)),
    ("rate per s", |siege| three_digits(siege.rate)),
    ("throughput MB/s", |siege| three_digits(siege.throughput_bytes / 1e6)),
    ("concurrency", |siege| three_digits(siege.concurrency)),
    ("successful", |siege| grouped(siege.successful as f64)),
    ("failed", |siege| grouped(siege.failed as f64)),
    ("longest s", |siege| format!("{:.3}", siege.longest_s)),
    ("shortest s", |siege| format!("{:.3}", siege.shortest_s)),
];

impl Report {
    pub(super) fn rebuild(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<(&Row, &Rebuild)> =
            self.results.iter().filter_map(|row| Some((row, row.rebuild.as_ref()?))).collect();
        let Some((first, _)) = rows.first() else { return Ok(()) };
        writeln!(
            f,
            "A page that needs an entry of {} bytes; {} views at a time, {} rounds of {}",
            grouped(first.payload_bytes as f64),
            first.workers,
            first.rounds,
            grouped(first.sessions as f64)
        )?;
        writeln!(f)?;
        write_table(f, &siege(&rows))?;
        write_section(f, "What a view spends", &steps(&rows))?;
        for (row, rebuild) in rows {
            match &rebuild.log {
                Some(line) => writeln!(f, "log of {}: {line}", row.title())?,
                None if rebuild.unsaved > 0 => writeln!(f, "log of {}: nothing", row.title())?,
                None => {}
            }
            if let Some(largest) = &rebuild.largest {
                writeln!(f, "scan of {}: {largest}", row.title())?;
            }
        }
        Ok(())
    }
}

/// Contenders are columns, so that before and after are side by side.
fn siege(rows: &[(&Row, &Rebuild)]) -> comfy_table::Table {
    let titles = rows.iter().map(|(row, _)| row.title().replace('#', "\n#"));
    let header: Vec<String> = std::iter::once(String::new()).chain(titles).collect();
    let mut table = new_table(&header.iter().map(String::as_str).collect::<Vec<&str>>());
    for (name, text) in LINES {
        let figures = rows.iter().map(|(_, rebuild)| right_aligned(text(&rebuild.siege)));
        table.add_row(std::iter::once(Cell::new(name)).chain(figures));
    }
    table
}

fn steps(rows: &[(&Row, &Rebuild)]) -> comfy_table::Table {
    let mut table =
        new_table(&["cache", "rebuilt", "load ms", "rebuild ms", "save ms", "saves that failed"]);
    for (row, rebuild) in rows {
        let ms = |us: f64| {
            right_aligned(if rebuild.rebuilt > 0 { three_digits(us / 1e3) } else { String::new() })
        };
        table.add_row(vec![
            Cell::new(row.title()),
            right_aligned(format!(
                "{} of {}",
                grouped(rebuild.rebuilt as f64),
                grouped(rebuild.views as f64)
            )),
            right_aligned(three_digits(rebuild.load_us / 1e3)),
            ms(rebuild.rebuild_us),
            ms(rebuild.save_us),
            right_aligned(grouped(rebuild.unsaved as f64)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_and_after_stand_side_by_side_and_no_line_is_too_wide() {
        let row = |store: &str, variant: &str, rebuilt, rate| {
            let siege = Siege { rate, transactions: 40, response_s: 0.25, ..Siege::default() };
            let rebuild =
                Rebuild { views: 40, rebuilt, rebuild_us: 90_000.0, siege, ..Rebuild::default() };
            Row {
                store: store.into(),
                variant: variant.into(),
                rebuild: Some(rebuild),
                ..Row::default()
            }
        };
        let rows = [
            row("php-memcached", "default", 40, 11.5),
            row("sessile", "memcached", 40, 11.0),
            row("php-memcached", "8m", 0, 64.25),
            row("sessile", "sqlite", 0, 48.0),
            row("sessile", "engine", 0, 1_234.0),
        ];
        let pairs: Vec<(&Row, &Rebuild)> =
            rows.iter().map(|row| (row, row.rebuild.as_ref().unwrap())).collect();
        let text = siege(&pairs).to_string();
        let line =
            |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        assert!(
            line("rate per s").contains("11.5") && line("rate per s").contains("1 234"),
            "{text}"
        );
        assert!(
            text.contains("php-memcached")
                && text.contains("#8m")
                && line("response").contains("0.250"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let text = steps(&pairs).to_string();
        assert!(
            text.contains("40 of 40") && text.contains("0 of 40") && text.contains("90.0"),
            "{text}"
        );
        let kept = text.lines().find(|line| line.contains("#8m")).unwrap();
        assert!(!kept.contains("90.0"), "what was not built took no time: {text}");
    }

    /// It showed a name that is drawn anew for each payload, which nobody could match with the log.
    #[test]
    fn the_scan_names_the_entry_as_the_log_does() {
        let (bin, name) = ("route_large".to_owned(), "#0badcafe".to_owned());
        let largest =
            LargestEntry { bytes: 2_097_199, bin, name, entry: Some("#00c0ffee".to_owned()) };
        assert_eq!(
            largest.to_string(),
            "2 097 199 bytes  route_large  #0badcafe, the payload of session #00c0ffee"
        );
    }
}
