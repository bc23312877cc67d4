//! One folded line at the top of the page about missing results.
//!
//! It distinguishes experiments that were not run, left out, or cut short. Failed rows are not
//! missing.

use std::collections::BTreeSet;

use maud::{Markup, html};
use sessile_results::grouping::{distinct, grouped};
use sessile_results::number::with_noun;
use sessile_results::{Experiment, PartState};

use crate::runs::{PageReports, form};

/// Empty if nothing is missing.
pub(crate) fn notice(runs: &PageReports<'_>) -> Markup {
    if runs.reports.is_empty() && runs.left_out.is_empty() && !runs.interrupted {
        return html! {}; // the page already says that nothing was measured
    }
    let (left_out, absent, without_rows) = (left_out(runs), absent(runs), without_rows(runs));
    let contenders = runs.reports.iter().flat_map(|report| &report.left_out);
    let contenders = contenders.map(|left| left.title()).collect::<BTreeSet<String>>().len();
    let nothing = left_out.is_empty() && absent.is_empty() && without_rows.is_empty();
    let under_way = under_way(runs);
    let cut = runs.interrupted || runs.reports.iter().any(|report| report.interrupted);
    let experiments = left_out.iter().map(|(_, names)| names.len()).sum::<usize>()
        + absent.len()
        + without_rows.len();
    let mut summary = Vec::new();
    if cut || under_way {
        summary.push("the end of the measurement".to_owned());
    }
    if experiments > 0 {
        summary.push(with_noun(experiments, "experiment"));
    }
    if contenders > 0 {
        summary.push(with_noun(contenders, "contender"));
    }
    let summary = summary.join(", ");
    html! {
        @if cut || under_way || !nothing || contenders > 0 {
            details.callout open[cut || under_way] {
                summary {
                    strong { "Missing on this page" } ": " (summary)
                }
                ul {
                    @if cut {
                        li {
                            strong.bad { "The measurement was interrupted" } (cut_short(runs)) "."
                        }
                    }
                    @if under_way && !cut {
                        li {
                            strong.bad { "The measurement has not come to its end" } ": this was "
                            "written while it ran, and it runs still or was killed."
                        }
                    }
                    @for (reason, names) in &left_out {
                        li { strong.bad { (names.join(", ")) } ": " (reason) "." }
                    }
                    @if !absent.is_empty() {
                        li {
                            "No result of " strong { (absent.join(", ")) } " is among those that "
                            "were given."
                        }
                    }
                    @for command in &without_rows {
                        li { strong.bad { "Not a single row" } " came of " code { (command) } "." }
                    }
                    @if contenders > 0 {
                        li {
                            (with_noun(contenders, "contender")) ", or some number of workers of "
                            "them, "
                            a href="#left-out" { "left out, with the reasons" } "."
                        }
                    }
                }
                (install(runs))
            }
        }
    }
}

/// One command for all that is missing.
fn install(runs: &PageReports<'_>) -> Markup {
    let packages = packages(runs);
    html! {
        @if !packages.is_empty() {
            p {
                "To install what was missing on Debian: "
                code { "sudo apt-get install --no-install-recommends " (packages) }
            }
        }
    }
}

/// The packages that reasons name.
fn packages(runs: &PageReports<'_>) -> String {
    let contenders = runs.reports.iter().flat_map(|report| &report.left_out);
    let reasons = contenders.map(|left| left.reason.as_str());
    let reasons = reasons.chain(runs.left_out.iter().map(|left| left.reason.as_str()));
    let named = reasons.flat_map(|reason| {
        let parts = reason.split("Debian package ").skip(1);
        parts.filter_map(|part| part.split([')', ',', ';', ' ']).next())
    });
    named.collect::<BTreeSet<&str>>().into_iter().collect::<Vec<&str>>().join(" ")
}

fn cut_short(runs: &PageReports<'_>) -> String {
    let cut = runs.reports.iter().filter(|report| report.interrupted);
    let names: BTreeSet<String> =
        cut.map(PageReports::name).filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return ": what comes after that is missing".to_owned();
    }
    let names: Vec<String> = names.into_iter().collect();
    format!(": rounds or contenders of {} are missing, and what comes after that", names.join(", "))
}

/// Whether parts of a series were still to come, without a reason against them.
fn under_way(runs: &PageReports<'_>) -> bool {
    runs.parts.iter().any(|part| matches!(part.state, PartState::NotStarted | PartState::Running))
}

/// Experiments, and forms of them, without a row, by reason. Another result may have them. Another
/// form of an experiment answers another question.
fn left_out<'a>(runs: &PageReports<'a>) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut titles = runs.forms();
    titles.extend(
        runs.parts.iter().filter(|part| part.state == PartState::Done).map(|part| part.title()),
    );
    let measured: BTreeSet<(&str, &str)> = titles.iter().map(|title| form(title)).collect();
    let left = runs.left_out.iter().filter(|left| !measured.contains(&form(&left.experiment)));
    let left = left.map(|it| (it.reason.trim_end_matches('.'), it.experiment.as_str()));
    grouped(left).into_iter().map(|(reason, names)| (reason, distinct(names))).collect()
}

/// Experiments without any result or reason. `cycle --rate` does not stand for `cycle`.
fn absent(runs: &PageReports<'_>) -> Vec<&'static str> {
    let titles = runs.forms();
    let left_out = runs.left_out.iter().map(|left| left.experiment.as_str());
    let told: BTreeSet<(&str, &str)> =
        titles.iter().map(String::as_str).chain(left_out).map(form).collect();
    Experiment::ALL
        .iter()
        .map(|experiment| experiment.name())
        .filter(|name| !told.contains(&form(name)))
        .collect()
}

fn without_rows<'a>(runs: &PageReports<'a>) -> Vec<&'a str> {
    let empty = runs.reports.iter().filter(|report| report.results.is_empty());
    empty.map(|report| report.command.as_str()).collect()
}
