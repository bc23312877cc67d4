//! The table of `oversize`: a row for each contender, a column for each size.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::Row;
use crate::columns::store;
use crate::number::{bytes, count, figure};
use crate::table::{ResultTable, TableCell, bad, first_of_each, known, right, right_or_empty};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SaveOutcome {
    /// Acknowledged, and read back byte for byte.
    #[default]
    Stored,
    /// An error, and the old payload is intact.
    Refused,
    /// An error, but stored.
    Contradicted,
    /// Acknowledged but not stored, or neither payload is there.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContentAfterSave {
    /// The large payload.
    New,
    /// The small payload.
    Old,
    /// No session.
    Nothing,
    /// Another payload.
    Other,
}

impl SaveOutcome {
    pub fn judge(acknowledged: bool, after: ContentAfterSave) -> SaveOutcome {
        match (acknowledged, after) {
            (true, ContentAfterSave::New) => SaveOutcome::Stored,
            (false, ContentAfterSave::Old) => SaveOutcome::Refused,
            (false, ContentAfterSave::New) => SaveOutcome::Contradicted,
            (true, ContentAfterSave::Old)
            | (_, ContentAfterSave::Nothing | ContentAfterSave::Other) => SaveOutcome::Lost,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            SaveOutcome::Stored => "stored",
            SaveOutcome::Refused => "refused",
            SaveOutcome::Contradicted => "contradicted",
            SaveOutcome::Lost => "lost",
        }
    }
}

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

/// A time: it was stored and read back. Refused: there was an error, and the old payload is in
/// place. Lost: what was acknowledged, or what was there before, is gone.
pub fn table(rows: &[&Row]) -> ResultTable {
    // A contender that did not start has a row without a size.
    let sized = rows.iter().filter(|row| row.oversize.is_some());
    let sizes: BTreeSet<usize> = sized.map(|row| row.question.payload_bytes).collect();
    let mut columns = vec![store()];
    columns.extend(sizes.into_iter().map(|size| {
        known(bytes(size as f64), move |row| {
            let here = of_store(row, rows).find(|other| other.question.payload_bytes == size);
            here.map_or(bad("failed"), outcome)
        })
    }));
    columns.push(known("its limit in bytes", |row| {
        let limit = of_store(row, rows).find_map(|row| row.oversize.as_ref()?.limit);
        right_or_empty(limit.map(|limit| count(limit as f64)))
    }));
    let caption = "One session whose payload becomes large: what the store said beside what it \
                   holds (time: stored and read back)";
    ResultTable::of_rows(caption, &first_of_each(rows), columns)
}

fn of_store<'a>(row: &Row, rows: &'a [&'a Row]) -> impl Iterator<Item = &'a Row> {
    let title = row.subject.shown_title();
    rows.iter().copied().filter(move |other| other.subject.shown_title() == title)
}

fn outcome(row: &Row) -> TableCell {
    match row.oversize.as_ref().map(|oversize| (oversize.outcome, oversize.silent)) {
        None => bad("failed"),
        Some((SaveOutcome::Stored, _)) => {
            right(format!("{} ms", figure(row.figures.latency_us.p50 / 1e3)))
        }
        Some((SaveOutcome::Lost, true)) => bad("LOST, silently"),
        Some((SaveOutcome::Lost, false)) => bad("LOST, with an error"),
        Some((outcome, _)) => right(outcome.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Question, Report, Subject};

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
            question: Question {
                experiment: "oversize".into(),
                payload_bytes,
                ..Question::default()
            },
            subject: Subject {
                store: store.into(),
                variant: "default".into(),
                ..Subject::default()
            },
            oversize: Some(oversize),
            ..Row::default()
        };
        let results = [
            row("loud", 1 << 19, oversize(SaveOutcome::Stored, None)),
            row("loud", 1 << 20, oversize(SaveOutcome::Refused, Some(1_048_000))),
            row("mute", 1 << 19, oversize(SaveOutcome::Stored, None)),
            row("mute", 1 << 20, oversize(SaveOutcome::Lost, None)),
        ];
        let text = table(&results.iter().collect::<Vec<&Row>>()).to_string();
        let line = |store: &str| {
            text.lines().find(|line| line.trim_start().starts_with(store)).unwrap().to_owned()
        };
        assert!(line("loud").contains("refused") && line("loud").contains("1,048,000"), "{text}");
        assert!(line("mute").contains("LOST") && line("mute").contains("0.00 ms"), "{text}");
        assert!(text.contains("512 KiB"), "{text}");
        assert_eq!(text.lines().count(), 5, "{text}");
    }

    /// The table did not say the tier, and of a store with rows of two the second was left out.
    #[test]
    fn each_durability_tier_has_a_table_that_says_so() {
        let of_tier = |experiment: &str, tier: &str, store: &str| Row {
            question: Question {
                experiment: experiment.into(),
                durability: tier.into(),
                sessions: 1_000,
                ..Question::default()
            },
            subject: Subject {
                store: store.into(),
                variant: "default".into(),
                kind: "embedded".into(),
                ..Subject::default()
            },
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
