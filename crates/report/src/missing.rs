//! What is not among the results, at the top of the page: whoever reads on must know that it is a part.
//!
//! It tells experiments that nobody measured from those that were left out or cut short, as far as the results know. Rows
//! that went wrong are no part of it: they are there.

use std::collections::BTreeSet;

use maud::{Markup, html};
use sessile_bench::{Experiment, PartState};

use crate::number::of;
use crate::runs::{Runs, form};

/// Nothing where all of it is there.
pub(crate) fn notice(runs: &Runs<'_>) -> Markup {
    if runs.reports.is_empty() && runs.left_out.is_empty() && !runs.interrupted {
        return html! {}; // nothing was measured, which is said already
    }
    let (left_out, absent, without_rows) = (left_out(runs), absent(runs), without_rows(runs));
    let contenders: usize = runs.reports.iter().map(|report| report.left_out.len()).sum();
    let nothing = left_out.is_empty() && absent.is_empty() && without_rows.is_empty();
    let under_way = under_way(runs);
    let cut = runs.interrupted || runs.reports.iter().any(|report| report.interrupted);
    html! {
        @if cut || under_way || !nothing || contenders > 0 {
            div.callout role="note" aria-label="What is missing" {
                p { strong { "What is missing on this page" } }
                ul {
                    @if cut { li { strong.bad { "The measurement was interrupted" } (cut_short(runs)) "." } }
                    @if under_way && !cut {
                        li { strong.bad { "The measurement has not come to its end" } ": this was written while it ran, and it runs still or was killed." }
                    }
                    @for (reason, names) in &left_out { li { strong.bad { (names.join(", ")) } ": " (reason) "." } }
                    @if !absent.is_empty() { li { "No result of " strong { (absent.join(", ")) } " is among those that were given." } }
                    @for command in &without_rows { li { strong.bad { "Not a single row" } " came of " code { (command) } "." } }
                    @if contenders > 0 {
                        li { (of(contenders, "contender")) ", or some number of workers of them, " a href="#left-out" { "left out, with the reasons" } "." }
                    }
                }
            }
        }
    }
}

/// Where the signal came.
fn cut_short(runs: &Runs<'_>) -> String {
    let cut = runs.reports.iter().filter(|report| report.interrupted);
    let names: BTreeSet<String> = cut.map(Runs::name).filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return ": what comes after that is missing".to_owned();
    }
    let names: Vec<String> = names.into_iter().collect();
    format!(": rounds or contenders of {} are missing, and what comes after that", names.join(", "))
}

/// Parts of a series were to come when this was written, and nothing says that they never will.
fn under_way(runs: &Runs<'_>) -> bool {
    runs.parts.iter().any(|part| matches!(part.state, PartState::NotStarted | PartState::Running))
}

/// Experiments without a row, by the reason, and forms of them. Another result may have what one has left out; another form
/// of the same experiment answers another question.
fn left_out<'a>(runs: &Runs<'a>) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut titles = runs.forms();
    titles.extend(runs.parts.iter().filter(|part| part.state == PartState::Done).map(|part| part.title()));
    let measured: BTreeSet<(&str, &str)> = titles.iter().map(|title| form(title)).collect();
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for left in runs.left_out.iter().filter(|left| !measured.contains(&form(&left.experiment))) {
        let (name, reason) = (left.experiment.as_str(), left.reason.trim_end_matches('.'));
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    reasons
}

/// Experiments of which the results say nothing at all. One that was measured with a flag alone is among them: `cycle --rate`
/// does not say what `cycle` does.
fn absent(runs: &Runs<'_>) -> Vec<&'static str> {
    let titles = runs.forms();
    let left_out = runs.left_out.iter().map(|left| left.experiment.as_str());
    let told: BTreeSet<(&str, &str)> = titles.iter().map(String::as_str).chain(left_out).map(form).collect();
    Experiment::ALL.iter().map(|experiment| experiment.name()).filter(|name| !told.contains(&form(name))).collect()
}

/// The commands of results that hold no row.
fn without_rows<'a>(runs: &Runs<'a>) -> Vec<&'a str> {
    let empty = runs.reports.iter().filter(|report| report.results.is_empty());
    empty.map(|report| report.command.as_str()).collect()
}
