//! A first answer in half a minute: the stores that are there, one table and one sentence.
//!
//! It is `cycle` with eight workers and short samples. The sentence compares the fastest store of
//! each kind with the next one of another name in the same tier, round by round.

use std::fmt;

use sessile_core::Durability;
use sessile_results::compare::{Estimate, student};
use sessile_results::number::count;
use sessile_results::table::{ResultTable, TableCell, bad, percentile, right, text};
use sessile_results::{Report, Row};
use sessile_stores::StoreEntry;
use sessile_stores::registry::{self, STORES};

use crate::options::Options;

const WORKERS: usize = 8;
const SESSIONS: usize = 1_000;
const ROUNDS: usize = 15;
const SECONDS: f64 = 0.08;
/// Probability that all true ratios lie within their intervals.
const CONFIDENCE: f64 = 0.95;

/// All stores of which one is a store by itself; those that are not installed are left out.
pub fn options(durability: Durability, command: Vec<String>) -> Options {
    let stores = STORES.iter().filter(|entry| !entry.decorates);
    Options {
        stores: stores.map(|entry| entry.name.to_owned()).collect(),
        workers: Some(vec![WORKERS]),
        sessions: Some(vec![SESSIONS]),
        rounds: Some(ROUNDS),
        seconds: Some(SECONDS),
        quick: true,
        durability,
        command,
        ..Options::default()
    }
}

/// The result as a table and a sentence.
#[derive(Clone, Copy, Debug)]
pub struct FirstAnswer<'a>(pub &'a Report);

impl FirstAnswer<'_> {
    /// Fastest first; those that failed last.
    fn ranked(&self, kind: &str) -> Vec<&Row> {
        let mut rows: Vec<&Row> =
            self.0.results.iter().filter(|row| row.subject.kind == kind).collect();
        rows.sort_by(|a, b| {
            let key = |row: &Row| (!row.is_bad(), row.figures.ops_per_second.median);
            key(b).partial_cmp(&key(a)).unwrap_or(std::cmp::Ordering::Equal)
        });
        rows
    }

    fn sentence(&self) -> Option<String> {
        let kinds = [("embedded", "inside the process"), ("socket", "over a socket")];
        let of_kind = kinds.map(|(kind, place)| (place, self.ranked(kind)));
        // The fastest is found by a comparison with every other one.
        let pairs: usize = of_kind.iter().map(|(_, rows)| rows.len().saturating_sub(1)).sum();
        let parts = of_kind.iter().filter_map(|(place, rows)| {
            let first = rows.first()?;
            let is_next = |row: &&&Row| {
                row.subject.store != first.subject.store
                    && row.question.durability == first.question.durability
            };
            let second = rows.iter().find(is_next)?;
            Some(format!("{place} {}", ratio(first, second, pairs)?))
        });
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| format!("Locked requests a second: {}.", parts.join("; ")))
    }
}

/// A name of another system says whose client it is: its vendor has not written it.
fn name(row: &Row) -> String {
    let is_of_others = |entry: &StoreEntry| entry.capabilities.server.is_some();
    let ours = registry::by_name(&row.subject.store).is_some_and(is_of_others);
    let title = row.subject.shown_title();
    if ours { format!("our store for {title}") } else { title }
}

/// `A 1.3 +- 0.1 x B`, or `A 16.2 (7.6 to 34.7) x B` where the halves of the interval differ: it is
/// one of logarithms. From the ratios of rounds, as one of so many pairs; `None` if either failed.
fn ratio(first: &Row, second: &Row, pairs: usize) -> Option<String> {
    if first.is_bad() || second.is_bad() {
        return None;
    }
    let rounds = first.figures.samples.iter().zip(&second.figures.samples);
    let ratios: Vec<f64> =
        rounds.map(|(first, second)| first.ops_per_second / second.ops_per_second).collect();
    let found = Estimate::from_values(&ratios)?;
    let reach =
        student(1.0 - (1.0 - CONFIDENCE) / (2 * pairs) as f64, found.freedom) * found.error();
    let interval = interval(found.mean, reach);
    let [first, second] = [first, second].map(name);
    Some(if found.mean.abs() > reach {
        format!("{first} {interval} {second}")
    } else {
        format!("{first} and {second} cannot be told apart: {interval}")
    })
}

/// `mean` and `reach` are logarithms.
fn interval(mean: f64, reach: f64) -> String {
    let [low, middle, high] = [mean - reach, mean, mean + reach].map(f64::exp);
    let digits = if high - middle < 0.05 { 2 } else { 1 };
    let halves = [middle - low, high - middle].map(|half| format!("{half:.digits$}"));
    match halves {
        [lower, upper] if lower == upper => format!("{middle:.digits$} +- {upper} x"),
        _ => format!("{middle:.digits$} ({low:.digits$} to {high:.digits$}) x"),
    }
}

impl fmt::Display for FirstAnswer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = ["embedded", "socket"].map(|kind| self.ranked(kind)).concat();
        let tiers = rows.iter().map(|row| row.question.durability.as_str());
        let tier = tiers.min_by_key(|tier| Durability::from_name(tier)).unwrap_or("none");
        writeln!(
            f,
            "{WORKERS} workers lock, read, change and save {SESSIONS} sessions; tier {tier}\n\n{}",
            table(&rows, tier)
        )?;
        let mut left: Vec<String> =
            self.0.left_out.iter().map(|it| format!("{}: {}", it.title(), it.reason)).collect();
        left.dedup();
        left.iter().try_for_each(|left| writeln!(f, "left out: {left}"))?;
        self.0.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))?;
        self.sentence().map_or(Ok(()), |sentence| writeln!(f, "\n{sentence}"))
    }
}

/// A row of another tier says so.
fn table(rows: &[&Row], tier: &str) -> ResultTable {
    let columns = ["store", "reached", "a second", "p50 us", "p99.9 us", ""];
    let mut table = ResultTable::new("", columns);
    for row in rows {
        let latency = row.figures.latency_us;
        let own = &row.question.durability;
        let other = if own == tier { String::new() } else { format!(", tier {own}") };
        table.row([
            text(row.subject.shown_title() + &other),
            text(if row.subject.kind == "socket" { "over a socket" } else { "in the process" }),
            right(count(row.figures.ops_per_second.median)),
            percentile(latency.p50, 0.5, row.figures.operations),
            percentile(latency.p999, 0.999, row.figures.operations),
            if row.is_bad() { bad(row.fault()) } else { TableCell::Empty },
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessile_results::statistics::Spread;
    use sessile_results::{Figures, Question, RoundSample, Subject};

    fn row(store: &str, rounds: [f64; 5]) -> Row {
        Row {
            subject: Subject {
                store: store.into(),
                variant: "default".into(),
                kind: "embedded".into(),
                ..Subject::default()
            },
            question: Question { durability: "none".into(), ..Question::default() },
            figures: Figures {
                ops_per_second: Spread::of(&rounds),
                samples: rounds
                    .map(|ops_per_second| RoundSample { ops_per_second, ..RoundSample::default() })
                    .to_vec(),
                ..Figures::default()
            },
            ..Row::default()
        }
    }

    fn sentence(rows: [Row; 2]) -> Option<String> {
        FirstAnswer(&Report { results: rows.to_vec(), ..Report::default() }).sentence()
    }

    #[test]
    fn a_store_in_a_stronger_tier_says_so_and_is_not_compared_with_one_in_another() {
        let (slow, mut fast) = (row("slow", [100.0; 5]), row("fast", [200.0; 5]));
        fast.question.durability = "commit".into();
        let report = Report { results: vec![slow, fast], ..Report::default() };
        let text = FirstAnswer(&report).to_string();
        assert!(text.contains("; tier none\n") && text.contains("fast, tier commit"), "{text}");
        assert!(!text.contains("slow, tier") && !text.contains("Locked requests"), "{text}");
    }

    /// "redis 2.1 x memcached" read as a figure of these servers with any client.
    #[test]
    fn a_store_over_the_server_of_another_is_called_ours() {
        let over = |store, rate| {
            let mut row = row(store, [rate; 5]);
            row.subject.kind = "socket".into();
            row
        };
        let said = sentence([over("redis", 100.0), over("memcached", 200.0)]).unwrap();
        assert!(
            said.contains("our store for memcached 2.00 +- 0.00 x our store for redis"),
            "{said}"
        );
    }

    /// `16.2 +- 18.5` gave the upper half of the interval as both, and reached below nothing.
    #[test]
    fn an_interval_whose_halves_differ_is_shown_by_its_ends() {
        assert_eq!(interval(16.2_f64.ln(), 2.14_f64.ln()), "16.2 (7.6 to 34.7) x");
        assert_eq!(interval(1.3_f64.ln(), 1.077_f64.ln()), "1.3 +- 0.1 x");
        assert_eq!(interval(1.3_f64.ln(), 1.015_f64.ln()), "1.30 +- 0.02 x");
    }

    /// Of twenty pairs of equals one was apart by chance.
    #[test]
    fn the_more_pairs_the_wider_the_interval() {
        let one = row("one", [100.0, 101.0, 99.0, 102.0, 98.0]);
        let other = row("other", [97.0, 98.5, 97.0, 97.0, 96.0]);
        let apart = |pairs| !ratio(&one, &other, pairs).unwrap().contains("cannot be told apart");
        assert_eq!([apart(1), apart(20)], [true, false]);
    }

    #[test]
    fn the_sentence_has_the_ratio_with_its_interval_and_no_winner_where_there_is_none() {
        // Both were slow in the third round.
        let slow = row("slow", [100.0, 101.0, 50.0, 99.0, 100.0]);
        let fast = row("fast", [131.0, 130.0, 65.0, 129.0, 131.0]);
        assert_eq!(
            sentence([slow.clone(), fast]).unwrap(),
            "Locked requests a second: inside the process fast 1.30 +- 0.02 x slow."
        );
        let equal = row("equal", [99.0, 104.0, 50.0, 101.0, 100.0]);
        let said = sentence([slow.clone(), equal]).unwrap();
        assert!(said.contains("slow and equal cannot be told apart"), "{said}");
        let mut failed = row("failed", [900.0; 5]);
        failed.outcome.errors = 1;
        assert_eq!(sentence([slow, failed]), None);
    }
}
