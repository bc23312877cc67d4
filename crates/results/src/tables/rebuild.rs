//! The tables of `rebuild`: load before and after, the time of a view, and what an operator finds.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Row;
use crate::columns::fault_count;
use crate::number::{bytes, count, figure, time};
use crate::table::{ResultTable, TableCell, bad, right, right_or_empty, text};

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
    /// The largest entry found by `sessile analyze`.
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
        write!(f, "{} bytes  {}", count(*bytes as f64), format!("{bin}  {name}").trim_end())?;
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
    /// Views at a time, by seconds, by views: `ab` measures no mean. No table shows it.
    pub response_s: f64,
    /// Views a second.
    pub rate: f64,
    pub throughput_bytes: f64,
    /// So it is the number of views at a time. No table shows it.
    pub concurrency: f64,
    /// Views answered correctly.
    pub successful: u64,
    pub failed: u64,
    pub longest_s: f64,
    pub shortest_s: f64,
}

type Figure = (&'static str, fn(&Rebuild) -> TableCell);

/// With the names that load generators give them.
const FIGURES: [Figure; 16] = [
    ("views that built the entry anew", |it| {
        let words = format!("{} of {}", count(it.rebuilt as f64), count(it.views as f64));
        if it.views > 0 && it.rebuilt == it.views { bad(words) } else { right(words) }
    }),
    ("of those, saves that failed", |it| right(count(it.unsaved as f64))),
    ("to load the entry", |it| right(time(it.load_us))),
    ("to build it", |it| of_a_build(it, it.rebuild_us)),
    ("to save it", |it| of_a_build(it, it.save_us)),
    ("memory that memcached has given to entries", |it| {
        right_or_empty(it.stored_bytes.map(|stored| bytes(stored as f64)))
    }),
    ("transactions", |it| right(count(it.siege.transactions as f64))),
    ("availability", |it| right(format!("{:.2} %", it.siege.availability_percent))),
    ("elapsed time", |it| right(format!("{} s", figure(it.siege.elapsed_s)))),
    ("data transferred", |it| right(bytes(it.siege.transferred_bytes as f64))),
    ("transactions a second", |it| right(figure(it.siege.rate))),
    ("throughput a second", |it| right(bytes(it.siege.throughput_bytes))),
    ("successful", |it| right(count(it.siege.successful as f64))),
    ("failed", |it| fault_count(it.siege.failed)),
    ("longest view", |it| right(time(it.siege.longest_s * 1e6))),
    ("shortest view", |it| right(time(it.siege.shortest_s * 1e6))),
];

/// Without a build there is no time; that is not 0.
fn of_a_build(rebuild: &Rebuild, us: f64) -> TableCell {
    if rebuild.rebuilt == 0 { text("not once") } else { right(time(us)) }
}

/// Processor time of a view. 0 means that the experiment did not measure the server.
fn processor_time(row: &Row, us: f64) -> TableCell {
    if row.rebuild.is_none() || us <= 0.0 { text("not measured") } else { right(time(us)) }
}

/// Contenders are columns, so that before and after are side by side.
pub fn table(rows: &[&Row]) -> ResultTable {
    let titles = rows.iter().map(|row| row.subject.title());
    let caption = "The load on a page, by where its cache keeps the large entry";
    let mut table = ResultTable::new(caption, std::iter::once("figure".to_owned()).chain(titles));
    let mut line = |name: &str, of: &dyn Fn(&Row) -> TableCell| {
        table.row(std::iter::once(text(name)).chain(rows.iter().map(|row| of(row))));
    };
    line("went wrong", &|row| row.complaint().map_or_else(|| text("nothing"), bad));
    line("processor time of the load generator, a view", &|row| {
        processor_time(row, row.figures.cpu_us_per_op.client)
    });
    line("processor time of the server, a view", &|row| {
        processor_time(row, row.figures.cpu_us_per_op.server)
    });
    for (name, of) in FIGURES {
        line(name, &|row| row.rebuild.as_ref().map_or_else(|| bad("failed"), of));
    }
    table.notes = rows.iter().flat_map(|row| found(row)).collect();
    table
}

/// What an operator finds in the log, and in the store for large entries.
fn found(row: &Row) -> Vec<TableCell> {
    let (title, Some(rebuild)) = (row.subject.title(), &row.rebuild) else { return Vec::new() };
    let log = match &rebuild.log {
        Some(line) => Some(format!("log of {title}: {line}")),
        None => (rebuild.unsaved > 0).then(|| format!("log of {title}: nothing")),
    };
    let scan = rebuild.largest.as_ref().map(|largest| format!("scan of {title}: {largest}"));
    log.into_iter().chain(scan).map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Subject;

    #[test]
    fn before_and_after_stand_side_by_side_and_no_line_is_too_wide() {
        let row = |store: &str, variant: &str, rebuilt, rate| {
            let siege = Siege { rate, transactions: 40, response_s: 0.25, ..Siege::default() };
            let rebuild =
                Rebuild { views: 40, rebuilt, rebuild_us: 90_000.0, siege, ..Rebuild::default() };
            Row {
                subject: Subject {
                    store: store.into(),
                    variant: variant.into(),
                    ..Subject::default()
                },
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
        let text = table(&rows.iter().collect::<Vec<&Row>>()).to_string();
        let line = |name: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
            line.split_whitespace().collect::<Vec<&str>>().join(" ")
        };
        // `ab` calculates both from the number of views at a time, which is given.
        assert!(!text.contains("response time") && !text.contains("concurrency"), "{text}");
        assert!(text.contains("40 of 40") && text.contains("0 of 40"), "{text}");
        assert_eq!(
            line("to build it"),
            "to build it 90 ms 90 ms not once not once not once",
            "what was not built took no time: {text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    /// It showed a name that is drawn anew for each payload, which nobody could match with the log.
    #[test]
    fn the_scan_names_the_entry_as_the_log_does() {
        let (bin, name) = ("route_large".to_owned(), "#0badcafe".to_owned());
        let largest =
            LargestEntry { bytes: 2_097_199, bin, name, entry: Some("#00c0ffee".to_owned()) };
        assert_eq!(
            largest.to_string(),
            "2,097,199 bytes  route_large  #0badcafe, the payload of session #00c0ffee"
        );
    }
}
