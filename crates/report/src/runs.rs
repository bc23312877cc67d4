//! The reports of the page, by experiment.

use std::collections::BTreeSet;

use sessile_results::grouping::distinct;
use sessile_results::{Collection, LeftOutExperiment, Report, SeriesPart};
use sessile_results::{Environment, Row};
use sessile_stores::StoreEntry;

#[derive(Clone, Copy, Debug)]
pub(crate) struct PageReports<'a> {
    pub stores: &'static [StoreEntry],
    pub reports: &'a [Report],
    /// Experiments without a report, with the reasons.
    pub left_out: &'a [LeftOutExperiment],
    pub parts: &'a [SeriesPart],
    pub interrupted: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct ExperimentRows<'a> {
    all: &'a [Report],
    pub report: &'a Report,
    pub rows: Vec<&'a Row>,
    /// The end of headings and captions: the durability tier, if the section has several.
    pub tier_suffix: String,
}

impl<'a> PageReports<'a> {
    pub(crate) fn of(results: &'a Collection, stores: &'static [StoreEntry]) -> PageReports<'a> {
        PageReports {
            stores,
            reports: &results.runs,
            left_out: &results.left_out,
            parts: &results.parts,
            interrupted: results.interrupted,
        }
    }

    /// The reason why an experiment or form has no report. Values of flags and further flags do not
    /// matter.
    pub(crate) fn reason(&self, experiment: &str) -> Option<&'a str> {
        let left = self.left_out.iter().find(|left| form(&left.experiment) == form(experiment));
        left.map(|left| left.reason.as_str()).or_else(|| self.reason(experiment.split_once(' ')?.0))
    }

    /// Without workloads.
    pub(crate) fn of_experiment(&self, name: &str) -> Vec<ExperimentRows<'a>> {
        self.of_rows(|row| row.question.experiment == name && row.question.workload.is_none())
    }

    /// The rows of an experiment, by report and tier: tiers share no curve, chart or table. Only
    /// reports for which `is_meant` holds count, also for whether there are several tiers.
    pub(crate) fn by_tier(
        &self,
        name: &str,
        is_meant: impl Fn(&Report) -> bool,
    ) -> Vec<ExperimentRows<'a>> {
        let meant = || self.of_experiment(name).into_iter().filter(|run| is_meant(run.report));
        let several = tiers(&meant().collect::<Vec<ExperimentRows<'_>>>()).len() > 1;
        meant().flat_map(|run| run.apart(several)).collect()
    }

    /// The rows of workloads, which are compared with nothing else.
    pub(crate) fn of_workloads(&self) -> Vec<ExperimentRows<'a>> {
        self.of_rows(|row| row.question.workload.is_some())
    }

    fn of_rows(&self, are_meant: impl Fn(&Row) -> bool) -> Vec<ExperimentRows<'a>> {
        let run = |report: &'a Report| ExperimentRows {
            all: self.reports,
            report,
            rows: report.results.iter().filter(|row| are_meant(row)).collect(),
            tier_suffix: String::new(),
        };
        self.reports.iter().map(run).filter(|run| !run.rows.is_empty()).collect()
    }

    pub(crate) fn experiments(&self) -> BTreeSet<&'a str> {
        self.reports
            .iter()
            .flat_map(|report| &report.results)
            .map(|row| row.question.experiment.as_str())
            .collect()
    }

    /// The experiments and forms with rows.
    pub(crate) fn forms(&self) -> BTreeSet<String> {
        let titles =
            |report: &'a Report| report.results.iter().map(move |row| report.title_of(row));
        self.reports.iter().flat_map(titles).collect()
    }

    /// The name of a report: its experiments, with the flags of their forms.
    pub(crate) fn name(report: &Report) -> String {
        let mut names: Vec<String> =
            report.results.iter().map(|row| report.title_of(row)).collect();
        names.dedup();
        names.join(", ")
    }

    /// The machines, with their reports. Another file system or build is another machine: it
    /// decides what a commit costs. Experiments need other servers, which are none.
    pub(crate) fn machines(&self) -> Vec<(&'a Environment, Vec<&'a Report>)> {
        let mut machines: Vec<(&Environment, Vec<&Report>)> = Vec::new();
        for report in self.reports {
            let here = &report.environment;
            let same = |known: &Environment| {
                let (servers, versions) = (known.servers.clone(), known.versions.clone());
                *known == Environment { servers, versions, ..here.clone() }
            };
            match machines.iter_mut().find(|(known, _)| same(known)) {
                Some((_, reports)) => reports.push(report),
                None => machines.push((here, vec![report])),
            }
        }
        machines
    }
}

impl<'a> ExperimentRows<'a> {
    /// A part for each tier, in the order of the rows.
    fn apart(self, several: bool) -> Vec<ExperimentRows<'a>> {
        let part = |tier: &str| ExperimentRows {
            rows: self.rows.iter().filter(|row| row.question.durability == tier).copied().collect(),
            tier_suffix: if several { format!(", tier {tier}") } else { String::new() },
            ..self.clone()
        };
        tiers(std::slice::from_ref(&self)).into_iter().map(part).collect()
    }

    /// The number of a contender among all that the page compares with it, for its colour and mark.
    pub(crate) fn number(&self, row: &Row) -> usize {
        let rows = self.all.iter().flat_map(|report| &report.results);
        let beside = rows.filter(|other| {
            other.subject.kind == row.subject.kind
                && other.question.is_of_lifecycle() == row.question.is_of_lifecycle()
        });
        let titles: BTreeSet<String> = beside.map(|row| row.subject.title()).collect();
        titles.iter().position(|title| *title == row.subject.title()).unwrap_or(0)
    }

    pub(crate) fn only(&self, are_meant: impl Fn(&Row) -> bool) -> Vec<&'a Row> {
        self.rows.iter().copied().filter(|row| are_meant(row)).collect()
    }

    pub(crate) fn distinct<T: Ord + Clone>(&self, of: impl Fn(&Row) -> T) -> Vec<T> {
        let values: BTreeSet<T> = self.rows.iter().map(|row| of(row)).collect();
        values.into_iter().collect()
    }
}

/// The form of an experiment: its name and first flag. `cycle --rate 250` and
/// `cycle --rate 1000 --workers 8` have the same form, `cycle` has another one.
pub(crate) fn form(title: &str) -> (&str, &str) {
    let mut words = title.split(' ');
    (words.next().unwrap_or_default(), words.next().unwrap_or_default())
}

pub(crate) fn tiers<'a>(runs: &[ExperimentRows<'a>]) -> Vec<&'a str> {
    distinct(runs.iter().flat_map(|run| &run.rows).map(|row| row.question.durability.as_str()))
}

pub(crate) fn most_workers(rows: &[&Row]) -> usize {
    rows.iter().map(|row| row.question.workers).max().unwrap_or(0)
}

pub(crate) fn most_rounds(rows: &[&Row]) -> usize {
    rows.iter().map(|row| row.figures.rounds).max().unwrap_or(0)
}

pub(crate) const MARK: &str = "* is no store but a yardstick.";
