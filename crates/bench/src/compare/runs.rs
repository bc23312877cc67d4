//! Which run of one file belongs to which of the other: that of the same experiment in the same form.
//!
//! A file of one experiment holds one run, one of `bench all` many; either can stand on either side. It owns one invariant:
//! each run of both files is in a pair or among those that are alone. Rows are not looked at here.

use super::RunNotCompared;
use crate::collection::Collection;
use crate::report::Report;

/// Two runs of one experiment.
#[derive(Debug)]
pub(super) struct RunPair<'a> {
    /// The experiment, with its flags if it is another form: that of OLD.
    pub title: String,
    pub old: &'a Report,
    pub new: &'a Report,
}

impl RunPair<'_> {
    /// Both were measured in the same rounds, turn by turn.
    pub(super) fn is_one(&self) -> bool {
        self.old.settings.against.is_some() && self.old.settings.against == self.new.settings.against
    }
}

struct Run<'a> {
    title: String,
    report: &'a Report,
}

/// Runs of both files in pairs, and those that have no counterpart.
pub(super) fn paired<'a>(old: &'a Collection, new: &'a Collection) -> (Vec<RunPair<'a>>, Vec<RunNotCompared>) {
    let mut others = runs(new);
    let (mut pairs, mut without_form, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    let pair = |run: Run<'a>, other: Run<'a>| RunPair { title: run.title, old: run.report, new: other.report };
    for run in runs(old) {
        match take(&mut others, |other| other.title == run.title) {
            Some(other) => pairs.push(pair(run, other)),
            None => without_form.push(run),
        }
    }
    // Of what is left two forms of an experiment are a pair, so that whoever looks at it can say what tells them apart.
    for run in without_form {
        match take(&mut others, |other| other.report.experiment() == run.report.experiment()) {
            Some(other) => pairs.push(pair(run, other)),
            None => alone.push(run.missing_in("NEW", new)),
        }
    }
    alone.extend(others.into_iter().map(|run| run.missing_in("OLD", old)));
    (pairs, alone)
}

/// A note, with the runs that it is about unless it is about all of them.
pub(super) fn said_of(titles: &[String], of_all: usize, note: &str) -> String {
    if titles.len() < of_all { format!("{}: {note}", titles.join(", ")) } else { note.to_owned() }
}

/// A run without a row has no name, and nothing that could be compared.
fn runs(collection: &Collection) -> Vec<Run<'_>> {
    let named = collection.runs.iter().filter_map(|report| Some((report, report.results.first()?)));
    named.map(|(report, row)| Run { title: report.title_of(row), report }).collect()
}

fn take<'a>(runs: &mut Vec<Run<'a>>, is_it: impl Fn(&Run<'a>) -> bool) -> Option<Run<'a>> {
    let place = runs.iter().position(is_it)?;
    Some(runs.remove(place))
}

impl Run<'_> {
    fn missing_in(self, side: &str, there: &Collection) -> RunNotCompared {
        // A file may say why. There a form can have flags behind those that make it one.
        let flagged = self.title.contains(' ').then(|| format!("{} ", self.title));
        let is_it = |title: &str| title == self.title || flagged.as_ref().is_some_and(|it| title.starts_with(it));
        let reason =
            there.left_out.iter().find(|left| is_it(&left.experiment)).map(|left| format!(": {}", left.reason));
        let why = format!("it is not in {side}{}", reason.unwrap_or_default());
        RunNotCompared { experiment: self.title, why }
    }
}
