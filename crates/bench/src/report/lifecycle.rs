//! The tables of `lifecycle`: requests a second by parallel requests, as published, and their cost.

use std::fmt;

use comfy_table::Cell;
use serde::{Deserialize, Serialize};

use crate::report::markdown::write_section;
use crate::report::table::{abbreviated, grouped, new_table, or_dash, right_aligned, three_digits};
use crate::report::{Report, Row, Visitors};

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WebFigures {
    /// PHP processes.
    pub processes: usize,
    /// Requests with an incomplete answer, or one unlike the first.
    pub failed_requests: u64,
    /// Requests with a status other than 2xx.
    pub not_2xx: u64,
    /// Sessions at the end; `None` if the store cannot count them.
    pub sessions_kept: Option<u64>,
    /// CPU time of web server and PHP for a request, in microseconds.
    pub cpu_us_per_op: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow: Option<Overflow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visitors: Option<Visitors>,
}

/// Sessions created in a memory of fixed size until some were missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overflow {
    /// The size of the memory.
    pub megabytes: u64,
    /// The highest number of sessions counted.
    pub held: u64,
    /// Sessions created when some were missing.
    pub made: u64,
    /// Sessions missing then.
    pub lost: u64,
    /// Requests that failed on the way.
    pub failed_requests: u64,
}

impl Row {
    pub(super) fn is_of_lifecycle(&self) -> bool {
        self.experiment == "lifecycle"
    }
}

impl Report {
    pub(super) fn lifecycle(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_lifecycle = self.results.iter().filter(|row| row.is_of_lifecycle());
        let (rows, others): (Vec<&Row>, Vec<&Row>) = of_lifecycle.partition(|row| row.op == "page");
        let Some(first) = rows.first() else { return Ok(()) };
        let rounds = rows.iter().map(|row| row.rounds).max().unwrap_or(0);
        let processes = rows.iter().find_map(|row| row.web).map_or(0, |web| web.processes);
        writeln!(
            f,
            "nginx and {processes} processes of PHP; {rounds} rounds of {} requests, each with the \
             life of a session of {} bytes and the birth of another, seed {}",
            grouped(first.sessions as f64),
            grouped(first.payload_bytes as f64),
            self.seed
        )?;
        write_section(
            f,
            "Requests a second by the number of parallel requests",
            &self.by_parallel(&rows),
        )?;
        write_section(
            f,
            "Latency, CPU time of a request, and sessions that were there in the end",
            &costs(&rows),
        )?;
        self.visitors(f)?;
        others.iter().try_for_each(|row| overflow(row, f))
    }

    fn by_parallel(&self, rows: &[&Row]) -> comfy_table::Table {
        let mut parallel: Vec<usize> = rows.iter().map(|row| row.workers).collect();
        parallel.sort_unstable();
        parallel.dedup();
        let columns = parallel.iter().map(|count| format!("C={count}"));
        let header: Vec<String> =
            ["handler".to_owned(), "tier".to_owned()].into_iter().chain(columns).collect();
        let mut table = new_table(&header.iter().map(String::as_str).collect::<Vec<&str>>());
        let mut shown: Vec<String> = Vec::new();
        for row in rows {
            let title = row.title();
            if shown.contains(&title) {
                continue;
            }
            let mut cells = vec![Cell::new(&title), Cell::new(&row.durability)];
            cells.extend(parallel.iter().map(|count| {
                let same =
                    rows.iter().find(|other| other.workers == *count && other.title() == title);
                right_aligned(same.map_or(String::new(), |row| rate(row)))
            }));
            table.add_row(cells);
            shown.push(title);
        }
        table
    }
}

/// Median and range.
fn rate(row: &Row) -> String {
    let rate = row.ops_per_second;
    match (row.failed.is_some(), row.rounds) {
        (true, _) => "failed".to_owned(),
        (false, 1) => grouped(rate.median),
        (false, _) => {
            format!(
                "{} ({}..{})",
                grouped(rate.median),
                abbreviated(rate.low),
                abbreviated(rate.high)
            )
        }
    }
}

fn overflow(row: &Row, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(Overflow { megabytes, held, made, lost, failed_requests }) =
        row.web.and_then(|web| web.overflow)
    else {
        return Ok(()); // it failed, which is told elsewhere
    };
    // Up to this many more may have fitted.
    let step = made.saturating_sub(held);
    let steps = if step > 0 {
        format!(", counted in steps of {}", grouped(step as f64))
    } else {
        String::new()
    };
    let [held, made, lost] = [held, made, lost].map(|count| grouped(count as f64));
    writeln!(
        f,
        "{} with {megabytes} MB: {held} sessions were there{steps}; of {made} that were made then \
         {lost} were missing, and {failed_requests} requests had failed",
        row.store
    )
}

fn costs(rows: &[&Row]) -> comfy_table::Table {
    let mut table = new_table(&[
        "handler",
        "C",
        "p50 ms",
        "p99 ms",
        "max ms",
        "web us",
        "server us",
        "ab us",
        "failed",
        "kept",
    ]);
    for row in rows {
        let mut cells = vec![Cell::new(row.title()), right_aligned(row.workers)];
        match row.web.filter(|_| row.rounds > 0) {
            Some(web) => cells.extend(cost(row, &web)),
            None => cells.push(right_aligned("failed")),
        }
        table.add_row(cells);
    }
    table
}

fn cost(row: &Row, web: &WebFigures) -> [Cell; 8] {
    let ms = |us: f64| right_aligned(three_digits(us / 1e3));
    [
        ms(row.latency_us.p50),
        ms(row.latency_us.p99),
        ms(row.latency_us.max),
        right_aligned(three_digits(web.cpu_us_per_op)),
        right_aligned(or_dash(row.cpu_us_per_op.of_server())),
        right_aligned(three_digits(row.cpu_us_per_op.client)),
        right_aligned(web.failed_requests.max(web.not_2xx)),
        right_aligned(web.sessions_kept.map_or("?".to_owned(), |kept| grouped(kept as f64))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Spread;

    #[test]
    fn a_failed_combination_stands_in_its_column() {
        let row = |workers: usize, failed: Option<&str>| Row {
            experiment: "lifecycle".into(),
            store: "apcu".into(),
            variant: "default".into(),
            durability: "none".into(),
            workers,
            rounds: 3,
            ops_per_second: Spread { median: 1_234.0, low: 1_100.0, high: 1_300.0 },
            failed: failed.map(str::to_owned),
            ..Row::default()
        };
        let rows = [row(4, None), row(16, Some("3 requests failed"))];
        assert_eq!([rate(&rows[0]), rate(&rows[1])], ["1 234 (1.10k..1.30k)", "failed"]);
    }

    /// A row without one sample had a latency of 0 ms and no failed request, and one whose site did
    /// not start was missing.
    #[test]
    fn what_failed_before_it_was_measured_has_cost_nothing_that_is_known() {
        let row = |variant: &str, rounds, web| Row {
            experiment: "lifecycle".into(),
            store: "apcu".into(),
            variant: variant.into(),
            workers: 4,
            rounds,
            failed: (rounds == 0).then(|| "the page does not answer".to_owned()),
            web,
            ..Row::default()
        };
        let web = Some(WebFigures { sessions_kept: Some(1_234), ..WebFigures::default() });
        let rows = [row("absent", 0, None), row("silent", 0, web), row("sound", 2, web)];
        let text = costs(&rows.iter().collect::<Vec<&Row>>()).to_string();
        let words = |variant: &str| {
            let line = text.lines().find(|line| line.contains(&format!("apcu#{variant}"))).unwrap();
            line.split_whitespace().skip(1).collect::<Vec<&str>>().join(" ")
        };
        assert_eq!([words("absent"), words("silent")], ["4 failed", "4 failed"], "{text}");
        // There is no server whose time could be known.
        assert_eq!(words("sound"), "4 0.00 0.00 0.00 0.00 - 0.00 0 1 234", "{text}");
    }
}
