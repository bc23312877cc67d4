//! The reports that the page is about, by experiment.

use std::collections::BTreeSet;

use sessile_bench::report::{Environment, Row};
use sessile_bench::{Collection, LeftOutExperiment, Part, Report, reference};

/// All reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runs<'a> {
    pub reports: &'a [Report],
    /// Experiments of which there is no report, and why.
    pub left_out: &'a [LeftOutExperiment],
    /// How far each part of a series has come, where it was one.
    pub parts: &'a [Part],
    /// A signal ended the measurement.
    pub interrupted: bool,
}

/// The rows of one experiment in one report.
#[derive(Clone, Debug)]
pub(crate) struct Run<'a> {
    all: &'a [Report],
    pub report: &'a Report,
    /// Which of all reports it is, as they were given, from 1: `recommend` names it so in its notes.
    pub place: usize,
    pub rows: Vec<&'a Row>,
    /// What a heading or a caption says of the durability tier of all rows, where other parts of the section have another one:
    /// empty, or how the heading ends.
    pub beside: String,
}

impl<'a> Runs<'a> {
    pub(crate) fn of(results: &'a Collection) -> Runs<'a> {
        Runs {
            reports: &results.runs,
            left_out: &results.left_out,
            parts: &results.parts,
            interrupted: results.interrupted,
        }
    }

    /// Why there is no report of an experiment, or of a form of it that flags give, as far as somebody has said so. The values
    /// of the flags, and further ones, do not matter.
    pub(crate) fn reason(&self, experiment: &str) -> Option<&'a str> {
        let left = self.left_out.iter().find(|left| form(&left.experiment) == form(experiment));
        left.map(|left| left.reason.as_str()).or_else(|| self.reason(experiment.split_once(' ')?.0))
    }

    /// What was measured by an experiment, other than workloads.
    pub(crate) fn of_experiment(&self, name: &str) -> Vec<Run<'a>> {
        self.of_rows(|row| row.experiment == name && row.workload.is_none())
    }

    /// The same, each tier of a report apart: what a commit costs and what promises nothing stand in no curve, chart or table
    /// together. Only reports that are meant count, also for whether there are several tiers.
    pub(crate) fn by_tier(&self, name: &str, is_meant: impl Fn(&Report) -> bool) -> Vec<Run<'a>> {
        let meant = || self.of_experiment(name).into_iter().filter(|run| is_meant(run.report));
        let several = tiers(&meant().collect::<Vec<Run<'_>>>()).len() > 1;
        meant().flat_map(|run| run.apart(several)).collect()
    }

    /// What was measured of workloads, which is beside no other.
    pub(crate) fn of_workloads(&self) -> Vec<Run<'a>> {
        self.of_rows(|row| row.workload.is_some())
    }

    fn of_rows(&self, are_meant: impl Fn(&Row) -> bool) -> Vec<Run<'a>> {
        let run = |(index, report): (usize, &'a Report)| Run {
            all: self.reports,
            report,
            place: index + 1,
            rows: report.results.iter().filter(|row| are_meant(row)).collect(),
            beside: String::new(),
        };
        self.reports.iter().enumerate().map(run).filter(|run| !run.rows.is_empty()).collect()
    }

    /// The names of all experiments that were run.
    pub(crate) fn experiments(&self) -> BTreeSet<&'a str> {
        self.reports.iter().flat_map(|report| &report.results).map(|row| row.experiment.as_str()).collect()
    }

    /// The experiments, and forms of them, of which there is a row.
    pub(crate) fn forms(&self) -> BTreeSet<String> {
        let titles = |report: &'a Report| report.results.iter().map(move |row| report.title_of(row));
        self.reports.iter().flat_map(titles).collect()
    }

    /// What each report is of, in a word: its experiments, with the flags that tell one form of them from another.
    pub(crate) fn name(report: &Report) -> String {
        let mut names: Vec<String> = report.results.iter().map(|row| report.title_of(row)).collect();
        names.dedup();
        names.join(", ")
    }

    /// The machines, with the reports that were made there. Another file system is another machine: it decides what a commit costs.
    pub(crate) fn machines(&self) -> Vec<(&'a Environment, Vec<&'a Report>)> {
        let mut machines: Vec<(&Environment, Vec<&Report>)> = Vec::new();
        for report in self.reports {
            let here = &report.environment;
            let same = |known: &Environment| {
                let hardware = |of: &Environment| (of.cpu.clone(), of.cores, of.memory_bytes);
                let software = |of: &Environment| {
                    [&of.kernel, &of.system, &of.disk_file_system, &of.sessile, &of.build].map(String::clone)
                };
                (hardware(known), software(known)) == (hardware(here), software(here))
            };
            match machines.iter_mut().find(|(known, _)| same(known)) {
                Some((_, reports)) => reports.push(report),
                None => machines.push((here, vec![report])),
            }
        }
        machines
    }
}

impl<'a> Run<'a> {
    /// A part for each tier, in the order of the rows.
    fn apart(self, several: bool) -> Vec<Run<'a>> {
        let part = |tier: &str| Run {
            rows: self.rows.iter().filter(|row| row.durability == tier).copied().collect(),
            beside: if several { format!(", tier {tier}") } else { String::new() },
            ..self.clone()
        };
        tiers(std::slice::from_ref(&self)).into_iter().map(part).collect()
    }

    /// The tier of all rows; nothing where they have several, or none is named.
    pub(crate) fn tier(&self) -> Option<&'a str> {
        let first = self.rows.first()?.durability.as_str();
        (!first.is_empty() && self.rows.iter().all(|row| row.durability == first)).then_some(first)
    }
}

impl Run<'_> {
    /// The number of a contender among all that are shown beside it somewhere on the page, for its colour and mark.
    pub(crate) fn number(&self, row: &Row) -> usize {
        let rows = self.all.iter().flat_map(|report| &report.results);
        let beside = rows.filter(|other| {
            other.kind == row.kind && (other.experiment == "lifecycle") == (row.experiment == "lifecycle")
        });
        let titles: BTreeSet<String> = beside.map(Row::title).collect();
        titles.iter().position(|title| *title == row.title()).unwrap_or(0)
    }

    /// The values that a property has in the rows, each once, in their order.
    pub(crate) fn distinct<T: Ord + Clone>(&self, of: impl Fn(&Row) -> T) -> Vec<T> {
        let values: BTreeSet<T> = self.rows.iter().map(|row| of(row)).collect();
        values.into_iter().collect()
    }
}

/// What makes an experiment a question of its own: its name and the first of its flags, if there is one. `cycle --rate 250` and
/// `cycle --rate 1000 --workers 8` are of the same form, and `cycle` is of another one.
pub(crate) fn form(title: &str) -> (&str, &str) {
    let mut words = title.split(' ');
    (words.next().unwrap_or_default(), words.next().unwrap_or_default())
}

/// The durability tiers of all rows, each once, in their order.
pub(crate) fn tiers<'a>(runs: &[Run<'a>]) -> Vec<&'a str> {
    let mut tiers: Vec<&str> = Vec::new();
    for row in runs.iter().flat_map(|run| &run.rows) {
        if !tiers.contains(&row.durability.as_str()) {
            tiers.push(&row.durability);
        }
    }
    tiers
}

/// Each title once, in the order of the rows.
pub(crate) fn titles(rows: &[&Row]) -> Vec<String> {
    let mut titles: Vec<String> = Vec::new();
    for title in rows.iter().map(|row| row.shown_title()) {
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    titles
}

/// The name of a contender, with a mark if it is no store.
pub(crate) fn marked(title: &str) -> String {
    if reference::by_name(title).is_some() { format!("{title} *") } else { title.to_owned() }
}

/// What the mark means.
pub(crate) const MARK: &str = "* is no store but a yardstick.";

/// What went wrong in a row whose figures stand all the same, in a few words.
pub(crate) fn fault(row: &Row) -> Option<String> {
    let counts = [("errors", row.errors), ("misses", row.misses), ("lost", row.lost)];
    let said: Vec<String> =
        counts.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{count} {what}")).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// What went wrong in a row, with its reason; nothing when it is sound.
pub(crate) fn complaint(row: &Row) -> Option<String> {
    if let Some(why) = &row.failed {
        return Some(format!("failed: {why}"));
    }
    let fault = fault(row)?;
    Some(row.first_error.as_ref().map_or(fault.clone(), |first| format!("{fault}; the first: {first}")))
}
