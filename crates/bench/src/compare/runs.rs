//! Pairs the runs of two files by experiment and form.
//!
//! Invariant: each run is either in a pair or reported as unpaired. Rows are not looked at.

use super::RunNotCompared;
use crate::collection::Collection;
use crate::report::Report;

#[derive(Debug)]
pub(super) struct RunPair<'a> {
    /// Experiment and flags, as in OLD.
    pub title: String,
    pub old: &'a Report,
    pub new: &'a Report,
}

impl RunPair<'_> {
    /// Whether both were measured in the same rounds.
    pub(super) fn is_one(&self) -> bool {
        self.old.settings.against.is_some()
            && self.old.settings.against == self.new.settings.against
    }
}

struct TitledRun<'a> {
    title: String,
    report: &'a Report,
}

pub(super) fn pair_runs<'a>(
    old: &'a Collection,
    new: &'a Collection,
) -> (Vec<RunPair<'a>>, Vec<RunNotCompared>) {
    let mut others = runs(new);
    let (mut pairs, mut without_form, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    let pair = |run: TitledRun<'a>, other: TitledRun<'a>| RunPair {
        title: run.title,
        old: run.report,
        new: other.report,
    };
    for run in runs(old) {
        match remove_first(&mut others, |other| other.title == run.title) {
            Some(other) => pairs.push(pair(run, other)),
            None => without_form.push(run),
        }
    }
    // Remaining forms of one experiment are paired, so that the difference in settings is reported.
    for run in without_form {
        match remove_first(&mut others, |other| {
            other.report.experiment() == run.report.experiment()
        }) {
            Some(other) => pairs.push(pair(run, other)),
            None => alone.push(run.missing_in("NEW", new)),
        }
    }
    alone.extend(others.into_iter().map(|run| run.missing_in("OLD", old)));
    (pairs, alone)
}

/// Prefixes a note with its runs unless it is about all of them.
pub(super) fn with_titles(titles: &[String], of_all: usize, note: &str) -> String {
    if titles.len() < of_all { format!("{}: {note}", titles.join(", ")) } else { note.to_owned() }
}

/// A run without rows has no name.
fn runs(collection: &Collection) -> Vec<TitledRun<'_>> {
    let named = collection.runs.iter().filter_map(|report| Some((report, report.results.first()?)));
    named.map(|(report, row)| TitledRun { title: report.title_of(row), report }).collect()
}

fn remove_first<'a>(
    runs: &mut Vec<TitledRun<'a>>,
    is_it: impl Fn(&TitledRun<'a>) -> bool,
) -> Option<TitledRun<'a>> {
    let place = runs.iter().position(is_it)?;
    Some(runs.remove(place))
}

impl TitledRun<'_> {
    fn missing_in(self, side: &str, there: &Collection) -> RunNotCompared {
        // The file may say why. A left-out part can have more flags than those of its form.
        let flagged = self.title.contains(' ').then(|| format!("{} ", self.title));
        let is_it = |title: &str| {
            title == self.title || flagged.as_ref().is_some_and(|it| title.starts_with(it))
        };
        let reason = there
            .left_out
            .iter()
            .find(|left| is_it(&left.experiment))
            .map(|left| format!(": {}", left.reason));
        let why = format!("it is not in {side}{}", reason.unwrap_or_default());
        RunNotCompared { experiment: self.title, why }
    }
}
