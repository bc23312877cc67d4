//! The tables of a report in their order, and the conditions above them.
//!
//! Rows of different durability tiers, and rows inside the process and over a socket, share no
//! table: their figures do not compare.

pub mod contention;
pub mod faults;
pub mod gc;
pub mod languages;
pub mod lifecycle;
pub mod oversize;
pub mod rebuild;
pub mod scale;
pub mod throughput;
pub mod visitors;

use crate::grouping::grouped;
use crate::number::{count, figure, with_noun};
use crate::table::{ResultTable, shared_tier};
use crate::{Report, Row};

/// The two ways to a store, with the headings of their tables.
pub const KINDS: [(&str, &str); 2] =
    [("embedded", "Inside the application's process"), ("socket", "Over a socket")];

impl Report {
    pub fn rows(&self) -> Vec<&Row> {
        self.results.iter().collect()
    }

    pub fn tables(&self) -> Vec<ResultTable> {
        let rows = self.rows();
        let by_tier = by_tier(&rows).into_iter();
        let tables = by_tier.flat_map(|rows| self.tables_of(&rows));
        tables.filter(|table| !table.rows.is_empty() || !table.notes.is_empty()).collect()
    }

    fn tables_of(&self, rows: &[&Row]) -> Vec<ResultTable> {
        match self.experiment().unwrap_or_default() {
            "lifecycle" => lifecycle::tables(rows),
            "languages" => vec![languages::table(rows)],
            "oversize" => vec![oversize::table(rows)],
            "faults" => faults::tables(rows),
            "rebuild" => vec![rebuild::table(rows)],
            "contention" => vec![contention::table(rows)],
            "gc" => vec![gc::table(rows)],
            "scale" => by_kind(rows, |place, rows| scale::table(rows, place)),
            experiment => {
                let rate = self.settings.rate;
                let mut tables = by_kind(rows, |place, rows| throughput::table(rows, place, rate));
                tables.push(throughput::resources(rows, experiment));
                tables
            }
        }
    }

    /// What was measured, in a sentence without an end.
    pub fn conditions(&self, rows: &[&Row]) -> String {
        let settings = &self.settings;
        let mut said = Vec::new();
        let sessions = rows.iter().map(|row| row.question.sessions);
        if let (Some(least), Some(most)) = (sessions.clone().min(), sessions.max()) {
            let many = if least == most {
                with_noun(least, "session")
            } else {
                format!("{} to {} sessions", count(least as f64), count(most as f64))
            };
            let payload = rows.first().map_or(0, |row| row.question.payload_bytes);
            let is_shared = rows.iter().all(|row| row.question.payload_bytes == payload);
            let bytes =
                (is_shared && payload > 0).then(|| format!(" of {} bytes", count(payload as f64)));
            said.push(format!("{many}{}", bytes.unwrap_or_default()));
        }
        let rounds = rows.iter().map(|row| row.figures.rounds).max().unwrap_or(0);
        let has_seconds = settings.seconds > 0.0
            && !rows.iter().any(|row| {
                ["lifecycle", "oversize", "faults", "rebuild", "languages"]
                    .contains(&row.question.experiment.as_str())
            });
        let seconds =
            if has_seconds { format!(" of {} s", settings.seconds) } else { String::new() };
        said.push(format!("{}{seconds}", with_noun(rounds, "round")));
        said.extend(settings.rate.map(|rate| format!("{} a second and worker", count(rate))));
        said.extend(
            settings.round_trip_us.map(|us| format!("servers {} \u{b5}s away", figure(us))),
        );
        said.extend(settings.processors_awake.then(|| "processors kept awake".to_owned()));
        let tier = shared_tier(rows).filter(|tier| !tier.is_empty());
        said.extend(tier.map(|tier| format!("tier {tier}")));
        said.join(", ")
    }
}

/// Rows grouped by durability tier, in the order of the rows.
pub fn by_tier<'a>(rows: &[&'a Row]) -> Vec<Vec<&'a Row>> {
    let tiers = grouped(rows.iter().map(|row| (&row.question.durability, *row)));
    tiers.into_iter().map(|(_, rows)| rows).collect()
}

fn by_kind(rows: &[&Row], table: impl Fn(&str, &[&Row]) -> ResultTable) -> Vec<ResultTable> {
    let of_kind = |(kind, place): (&str, &str)| {
        let own: Vec<&Row> = rows.iter().copied().filter(|row| row.subject.kind == kind).collect();
        table(place, &own)
    };
    KINDS.into_iter().map(of_kind).collect()
}
