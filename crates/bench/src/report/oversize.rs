//! The table of `oversize`: a row for each contender, a column for each size.

use std::fmt;

use comfy_table::{Cell, Table};
use serde::{Deserialize, Serialize};

use crate::report::markdown::write_section;
use crate::report::table::{by_tier, grouped, never_wrap, new_table, right_aligned, three_digits};
use crate::report::{Report, Row};
use crate::worker::oversize::{ContentAfterSave, SaveOutcome};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Oversize {
    /// The worst of all rounds.
    pub outcome: SaveOutcome,
    /// What the store held after the save.
    pub after: ContentAfterSave,
    /// Whether no error was reported.
    pub silent: bool,
    /// The limit in bytes that the error named.
    pub limit: Option<u64>,
    /// Median time of reading it back, in microseconds.
    pub read_us: f64,
    pub message: Option<String>,
}

impl Oversize {
    fn cell(&self, row: &Row) -> String {
        match (self.outcome, self.silent) {
            (SaveOutcome::Stored, _) => format!("{} ms", three_digits(row.latency_us.p50 / 1e3)),
            (SaveOutcome::Lost, true) => "LOST".to_owned(),
            (SaveOutcome::Lost, false) => "LOST, told".to_owned(),
            (outcome, _) => outcome.name().to_owned(),
        }
    }
}

impl Report {
    pub(super) fn oversize(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<&Row> =
            self.results.iter().filter(|row| row.experiment == "oversize").collect();
        if rows.is_empty() {
            return Ok(());
        }
        for (tier, rows) in by_tier(&rows) {
            let heading = format!(
                "One session whose payload becomes large, tier {tier}: what the store said beside \
                 what it holds"
            );
            write_section(f, &heading, &table(&rows))?;
        }
        writeln!(
            f,
            "a time: stored and read back; refused: an error, and the old payload in place; LOST: \
             acknowledged, and not there"
        )
    }
}

fn table(rows: &[&Row]) -> Table {
    // A contender that did not start has a row without a size.
    let sized = |row: &&&Row| row.oversize.is_some();
    let mut sizes: Vec<usize> = rows.iter().filter(sized).map(|row| row.payload_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let columns: Vec<String> =
        sizes.iter().map(|size| format!("{} MiB", *size as f64 / (1 << 20) as f64)).collect();
    let mut header = vec!["store"];
    header.extend(columns.iter().map(String::as_str));
    header.push("its limit");
    let mut table = new_table(&header);
    never_wrap(&mut table, 0);
    let mut shown: Vec<String> = Vec::new();
    for title in rows.iter().map(|row| row.shown_title()) {
        if shown.contains(&title) {
            continue;
        }
        let same = || rows.iter().filter(|row| row.shown_title() == title);
        let cell = |size: &usize| {
            let here = same().find(|row| row.payload_bytes == *size);
            let outcome =
                here.and_then(|row| row.oversize.as_ref().map(|oversize| oversize.cell(row)));
            right_aligned(outcome.unwrap_or_else(|| "failed".to_owned()))
        };
        let limit = same().find_map(|row| row.oversize.as_ref()?.limit);
        let cells = std::iter::once(Cell::new(&title)).chain(sizes.iter().map(cell));
        table
            .add_row(cells.chain([right_aligned(
                limit.map_or(String::new(), |limit| grouped(limit as f64)),
            )]));
        shown.push(title);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_told_from_a_refusal_and_each_store_has_one_row() {
        let oversize = |outcome, limit: Option<u64>| Oversize {
            outcome,
            after: ContentAfterSave::Nothing,
            silent: limit.is_none(),
            limit,
            read_us: 0.0,
            message: None,
        };
        let row = |store: &str, payload_bytes, oversize| Row {
            experiment: "oversize".into(),
            store: store.into(),
            variant: "default".into(),
            payload_bytes,
            oversize: Some(oversize),
            ..Row::default()
        };
        let results = [
            row("loud", 1 << 19, oversize(SaveOutcome::Stored, None)),
            row("loud", 1 << 20, oversize(SaveOutcome::Refused, Some(1_048_000))),
            row("mute", 1 << 19, oversize(SaveOutcome::Stored, None)),
            row("mute", 1 << 20, oversize(SaveOutcome::Lost, None)),
        ];
        let text = table(&results.iter().collect::<Vec<_>>()).to_string();
        let line = |store: &str| {
            text.lines().find(|line| line.trim_start().starts_with(store)).unwrap().to_owned()
        };
        assert!(line("loud").contains("refused") && line("loud").contains("1 048 000"), "{text}");
        assert!(line("mute").contains("LOST") && line("mute").contains("0.00 ms"), "{text}");
        assert!(text.contains("0.5 MiB"), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    /// The table did not say the tier, and of a store with rows of two the second was left out.
    #[test]
    fn each_durability_tier_has_a_table_that_says_so() {
        let of_tier = |experiment: &str, tier: &str, store: &str| Row {
            experiment: experiment.into(),
            store: store.into(),
            variant: "default".into(),
            kind: "embedded".into(),
            durability: tier.into(),
            sessions: 1_000,
            ..Row::default()
        };
        for experiment in ["oversize", "scale"] {
            let results =
                [of_tier(experiment, "none", "quick"), of_tier(experiment, "commit", "quick")]
                    .to_vec();
            let both = Report { results, ..Report::default() }.to_string();
            let parts: Vec<&str> = both.split(", tier ").skip(1).collect();
            assert!(
                parts.len() == 2 && parts[0].starts_with("none") && parts[1].starts_with("commit"),
                "{both}"
            );
            assert!(parts.iter().all(|part| part.matches("quick").count() == 1), "{both}");
        }
    }
}
