//! Matches the rows of two results.
//!
//! Invariant: each row of either result is in a pair or reported as not compared. Runs that answer
//! different questions (rate, round trip) are not compared; other differences are noted.

use super::estimate::{Estimate, ROUNDS_FOR_INTERVAL};
use super::{ComparedRow, Comparison, Measure, NotCompared};
use crate::collection::Collection;
use crate::experiment::CLOSED_LOOP;
use crate::{Question, Report, RoundSample, Row, comparability_notes};

struct Run<'a> {
    title: String,
    old: &'a Report,
    new: &'a Report,
}

/// A run without rows has no title.
fn runs(collection: &Collection) -> Vec<(String, &Report)> {
    let named = collection.runs.iter().filter_map(|run| Some((run.results.first()?, run)));
    named.map(|(row, run)| (run.title_of(row), run)).collect()
}

pub fn match_rows(old: &Collection, new: &Collection) -> Comparison {
    let mut matched = Comparison::default();
    let mut others = runs(new);
    for (title, run) in runs(old) {
        match others.iter().position(|(other, _)| *other == title) {
            Some(place) => {
                let (_, new) = others.remove(place);
                matched.add_run(&Run { title, old: run, new });
            }
            None => matched.leave_out(title, "it is not in NEW", false),
        }
    }
    others.into_iter().for_each(|(title, _)| matched.leave_out(title, "it is not in OLD", false));
    if matched.same_rounds && matched.rows.iter().any(|row| row.difference.is_none()) {
        let rounds = ROUNDS_FOR_INTERVAL;
        matched.notes.push(format!(
            "an interval needs several setups: {rounds} --rounds or more, and room for a second \
             store beside each"
        ));
    }
    matched
}

impl Comparison {
    fn leave_out(&mut self, what: String, why: impl Into<String>, broken: bool) {
        self.not_compared.push(NotCompared { what, why: why.into(), broken });
    }

    fn add_run(&mut self, run: &Run) {
        if let Some(why) = other_question(run.old, run.new) {
            return self.leave_out(run.title.clone(), why, false);
        }
        self.same_rounds |= run.is_of_same_rounds();
        for note in comparability_notes(&[("OLD", run.old), ("NEW", run.new)]) {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        let mut others: Vec<&Row> = run.new.results.iter().collect();
        for row in &run.old.results {
            match others.iter().position(|other| is_same(row, other)) {
                Some(place) => self.add_pair(run, row, others.remove(place)),
                None => self.leave_out(run.name(row), "it is not in NEW", false),
            }
        }
        for row in others {
            self.leave_out(run.name(row), "it is not in OLD", false);
        }
    }

    fn add_pair(&mut self, run: &Run, old: &Row, new: &Row) {
        let why = match (old.is_bad(), new.is_bad()) {
            (false, false) => None,
            (true, true) => Some("it is bad in both".to_owned()),
            (false, true) => Some(format!("it is bad in NEW: {}", new.fault())),
            (true, false) => Some(format!("it was bad in OLD: {}", old.fault())),
        };
        if let Some(why) = why {
            let is_missed = !old.is_bad() && !old.subject.is_reference();
            return self.leave_out(run.name(old), why, is_missed);
        }
        let paced = run.old.settings.rate.is_some() && old.question.op != CLOSED_LOOP;
        let measures: &[Measure] =
            if paced { &[Measure::P50, Measure::P99] } else { &[Measure::OpsPerSecond] };
        for measure in measures {
            let [was, is] = [old, new].map(|row| measure.of_row(row));
            let place = [old.subject.title(), operation(&old.question)];
            let pair = ComparedRow {
                run: run.title.clone(),
                place,
                measure: *measure,
                old: was,
                new: is,
                ratio: is / was,
                difference: None,
                interval: None,
            };
            if !run.is_of_same_rounds() {
                // Outcomes, as in `oversize`, have no figures.
                self.rows.extend(Some(pair).filter(|_| was > 0.0 && is > 0.0));
            } else if !old.subject.is_reference() {
                match Estimate::of_setups(&ratios(old, new, *measure)) {
                    Ok(difference) if was > 0.0 => {
                        let ratio = difference.map_or(pair.ratio, |(it, _)| it.mean.exp());
                        self.rows.push(ComparedRow { difference, ratio, ..pair });
                    }
                    _ => self.leave_out(run.name(old), "nothing was done for too long", false),
                }
            }
        }
    }
}

impl Run<'_> {
    fn is_of_same_rounds(&self) -> bool {
        let [old, new] = [self.old, self.new].map(|run| run.settings.baseline.as_deref());
        old.is_some() && old == new
    }

    fn name(&self, row: &Row) -> String {
        format!("{}: {} {}", self.title, row.subject.title(), operation(&row.question))
    }
}

fn is_same(old: &Row, new: &Row) -> bool {
    let key = |row: &Row| {
        let (by, asked) = (&row.subject, &row.question);
        let words = [&by.store, &by.variant, &asked.op, &asked.payload_spread, &asked.durability];
        (words.map(Clone::clone), asked.workers, asked.sessions, asked.payload_bytes)
    };
    key(old) == key(new)
}

/// The operation and its workers; in `scale` with its size.
fn operation(asked: &Question) -> String {
    let Question { experiment, op, workers, sessions, payload_spread, .. } = asked;
    match experiment.as_str() {
        "scale" => format!("{op} {sessions} {payload_spread}@{workers}"),
        _ => format!("{op}@{workers}"),
    }
}

/// NEW divided by OLD for each round of each setup.
fn ratios(old: &Row, new: &Row, measure: Measure) -> Vec<Vec<f64>> {
    let rounds: Vec<(&RoundSample, &RoundSample)> =
        old.figures.samples.iter().zip(&new.figures.samples).collect();
    let setups =
        rounds.chunk_by(|one, next| (one.0.setup, one.1.setup) == (next.0.setup, next.1.setup));
    setups
        .map(|rounds| rounds.iter().map(|(old, new)| measure.of(new) / measure.of(old)).collect())
        .collect()
}

fn other_question(old: &Report, new: &Report) -> Option<String> {
    let word = |value: Option<f64>| value.map_or("none".to_owned(), |value| value.to_string());
    let (was, is) = (&old.settings, &new.settings);
    let settings = [
        ("rate", word(was.rate), word(is.rate)),
        ("round trip in us", word(was.round_trip_us), word(is.round_trip_us)),
        (
            "processors kept awake",
            was.processors_awake.to_string(),
            is.processors_awake.to_string(),
        ),
    ];
    let (name, old, new) = settings.into_iter().find(|(_, old, new)| old != new)?;
    Some(format!("{name} is {old} in OLD and {new} in NEW, which is another question"))
}
