//! Bounds on figures for scripts: `p99_us>5000` fails the run if a row of a store exceeds it.
//!
//! Invariant: a bound that applies to no row, or to a figure that was not measured, is broken: a
//! check of nothing must not pass. Reference rows are checked only when they are named.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::experiment::Experiment;
use crate::options::UsageError;
use crate::reference;
use crate::report::{Report, Row};
use crate::selection::{LeftOut, Selection};

/// `[EXPERIMENT:][STORE:]FIGURE<NUMBER` or `>`: the condition under which a run fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    text: String,
    /// `None`: all experiments.
    experiment: Option<Experiment>,
    /// A store or a variant (`files#shm`); `None`: all stores.
    store: Option<String>,
    figure: &'static BoundFigure,
    comparison: BoundOperator,
    value: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum BoundOperator {
    Below,
    Above,
}

#[derive(Debug)]
struct BoundFigure {
    name: &'static str,
    /// `None` if it was not measured.
    of: fn(&Row) -> Option<f64>,
}

impl PartialEq for BoundFigure {
    fn eq(&self, other: &BoundFigure) -> bool {
        self.name == other.name
    }
}

const FIGURES: &[BoundFigure] = &[
    // The median of a store that did nothing in most rounds is 0, and measured.
    BoundFigure {
        name: "ops_per_second",
        of: |row| known(row.ops_per_second.high).and(Some(row.ops_per_second.median)),
    },
    BoundFigure { name: "p50_us", of: |row| known(row.latency_us.p50) },
    BoundFigure { name: "p90_us", of: |row| known(row.latency_us.p90) },
    BoundFigure { name: "p99_us", of: |row| known(row.latency_us.p99) },
    BoundFigure { name: "p999_us", of: |row| known(row.latency_us.p999) },
    BoundFigure { name: "max_us", of: |row| known(row.latency_us.max) },
    BoundFigure {
        name: "cpu_us_per_op",
        of: |row| known(row.cpu_us_per_op.client + row.cpu_us_per_op.server),
    },
    BoundFigure { name: "bytes_per_session", of: |row| known(row.bytes_per_session as f64) },
];

/// 0 in a row means: not measured.
fn known(value: f64) -> Option<f64> {
    (value > 0.0).then_some(value)
}

impl FromStr for Bound {
    type Err = UsageError;

    fn from_str(text: &str) -> Result<Bound, UsageError> {
        let form = "[EXPERIMENT:][STORE:]FIGURE>NUMBER, for example p99_us>5000";
        let wrong = |why: String| UsageError(format!("{why}; write {form}"));
        let at = text.find(['<', '>']).ok_or_else(|| wrong("it has neither < nor >".to_owned()))?;
        let (left, right) = text.split_at(at);
        let comparison =
            if right.starts_with('<') { BoundOperator::Below } else { BoundOperator::Above };
        let number = right.get(1..).unwrap_or_default().trim();
        let value = number.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
        let value = value.ok_or_else(|| wrong(format!("{number:?} is no number, 0 or more")))?;
        let (about, name) =
            left.rsplit_once(':').map_or((None, left), |(about, name)| (Some(about), name));
        let (experiment, store) = about.map_or((None, None), subject);
        if store.as_ref().is_some_and(String::is_empty) {
            return Err(wrong("the name of its store is empty".to_owned()));
        }
        let name = name.trim();
        let figure = FIGURES.iter().find(|figure| figure.name == name).ok_or_else(|| {
            let known: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
            wrong(format!("{name:?} is no figure; known: {}", known.join(", ")))
        })?;
        Ok(Bound { text: text.to_owned(), experiment, store, figure, comparison, value })
    }
}

fn subject(about: &str) -> (Option<Experiment>, Option<String>) {
    let (first, rest) =
        about.split_once(':').map_or((about, None), |(first, rest)| (first, Some(rest)));
    match Experiment::from_name(first.trim()) {
        Some(experiment) => (Some(experiment), rest.map(|store| store.trim().to_owned())),
        None => (None, Some(about.trim().to_owned())),
    }
}

pub(crate) struct BoundScope {
    pub experiment: Experiment,
    /// Name and title of each contender.
    pub contenders: Vec<(String, String)>,
    pub left_out: Vec<LeftOut>,
}

impl BoundScope {
    pub(crate) fn of(experiment: Experiment, selection: &Selection) -> BoundScope {
        let contenders = selection
            .choices
            .iter()
            .map(|choice| (choice.store.to_owned(), choice.title()))
            .collect();
        BoundScope { experiment, contenders, left_out: selection.left_out.clone() }
    }
}

pub(crate) fn check(bounds: &[Bound], parts: &[BoundScope]) -> Result<(), UsageError> {
    bounds.iter().try_for_each(|bound| bound.can_be_met(parts))
}

impl Bound {
    fn can_be_met(&self, parts: &[BoundScope]) -> Result<(), UsageError> {
        let refused =
            |why: String| Err(UsageError(format!("--fail-if on {}: {why}", self.figure.name)));
        let of_it = |part: &&BoundScope| {
            self.experiment.is_none_or(|experiment| experiment == part.experiment)
        };
        let parts: Vec<&BoundScope> = parts.iter().filter(of_it).collect();
        if let (Some(experiment), true) = (self.experiment, parts.is_empty()) {
            return refused(format!("{} is not among what is measured", experiment.name()));
        }
        let is_met = |part: &&BoundScope| {
            part.contenders
                .iter()
                .any(|(store, title)| self.is_about(part.experiment.name(), store, title))
        };
        if parts.iter().any(is_met) {
            return Ok(());
        }
        let Some(name) = &self.store else {
            return refused(
                "only reference rows are measured, which are meant when they are named".to_owned(),
            );
        };
        // The name may be a URL with a password.
        let shown =
            if name.contains(['@', '/']) { "such a store".to_owned() } else { format!("{name:?}") };
        let left = parts
            .iter()
            .flat_map(|part| &part.left_out)
            .find(|left| left.store == *name || left.title() == *name);
        if let Some(left) = left {
            return refused(format!("{shown} is left out: {}", left.reason));
        }
        let known: BTreeSet<&str> = parts
            .iter()
            .flat_map(|part| &part.contenders)
            .map(|(_, title)| title.as_str())
            .collect();
        refused(format!(
            "{shown} is not among what is measured: {}",
            Vec::from_iter(known).join(", ")
        ))
    }

    /// What breaks the bound: one entry for each row, and one for all stores without the figure.
    ///
    /// Failed rows have no figures and are reported elsewhere.
    pub fn broken_by(&self, reports: &[Report]) -> Vec<String> {
        let rows =
            reports.iter().flat_map(|report| report.results.iter().map(move |row| (report, row)));
        let rows: Vec<(&Report, &Row)> =
            rows.filter(|(_, row)| row.failed.is_none() && self.is_about_row(row)).collect();
        if rows.is_empty() {
            return vec![format!("{}: no row was measured that it is about", self.text)];
        }
        // Some experiments and operations lack some figures.
        let has_figure = |row: &Row| (self.figure.of)(row).is_some();
        let known: BTreeSet<String> =
            rows.iter().filter(|(_, row)| has_figure(row)).map(|(_, row)| row.title()).collect();
        let unknown: BTreeSet<String> = rows
            .iter()
            .map(|(_, row)| row.title())
            .filter(|title| !known.contains(title))
            .collect();
        let broken_in = |(report, row): (&Report, &Row)| {
            let run = if reports.len() > 1 {
                format!("{}: ", report.title_of(row))
            } else {
                String::new()
            };
            self.broken_in(row).map(|what| format!("{}: {run}{what}", self.text))
        };
        let mut broken: Vec<String> = rows.into_iter().filter_map(broken_in).collect();
        if !unknown.is_empty() {
            let unknown: Vec<String> = unknown.into_iter().collect();
            broken.push(format!(
                "{}: {} was not measured of {}",
                self.text,
                self.figure.name,
                unknown.join(", ")
            ));
        }
        broken
    }

    fn broken_in(&self, row: &Row) -> Option<String> {
        let value = (self.figure.of)(row)?;
        let beyond = match self.comparison {
            BoundOperator::Below => value < self.value,
            BoundOperator::Above => value > self.value,
        };
        beyond.then(|| format!("{} {} at {} has {value:.1}", row.title(), row.op, row.workers))
    }

    fn is_about_row(&self, row: &Row) -> bool {
        self.is_about(&row.experiment, &row.store, &row.title())
    }

    fn is_about(&self, experiment: &str, store: &str, title: &str) -> bool {
        self.experiment.is_none_or(|it| it.name() == experiment)
            && match &self.store {
                Some(name) => name == store || name == title,
                None => reference::by_name(store).is_none(),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::LatencyUs;
    use crate::statistics::Spread;

    #[test]
    fn a_bound_is_read_and_a_malformed_one_says_what_is_known() {
        let bound: Bound = "files#shm:p99_us > 5000".parse().unwrap();
        assert_eq!(
            (bound.store.as_deref(), bound.figure.name, bound.value),
            (Some("files#shm"), "p99_us", 5000.0)
        );
        assert_eq!("ops_per_second<1e3".parse::<Bound>().unwrap().comparison, BoundOperator::Below);
        for (text, words) in [
            ("p99_us", "neither"),
            ("p99>5", "known: ops_per_second"),
            ("p99_us>=5", "no number"),
            ("p99_us>-1", "no number"),
            (":p99_us>5", "is empty"),
            ("cycle::p99_us>5", "is empty"),
            ("p99_us>nan", "no number"),
            ("", "for example"),
        ] {
            let refused = text.parse::<Bound>().unwrap_err().to_string();
            assert!(refused.contains(words), "{text}: {refused}");
        }
    }

    const REPORT: &str = r#"{
        "schema": 1,
        "environment": {
            "cpu": "a processor", "cores": 2, "memory_bytes": 1, "kernel": "6.1",
            "system": "x86_64 linux",
            "disk_file_system": "ext4", "sessile": "0.1.0", "build": "release", "versions": {}
        },
        "command": "sessile bench oversize", "seed": 7,
        "settings": { "seconds": 1.0, "warm_up_seconds": 0.2, "ttl_seconds": 1440, "churn": 0,
            "confidence": 0.75 },
        "results": [], "left_out": [], "warnings": []
    }"#;

    /// `oversize` has no 99th percentile, and not every store can tell its space: both stood there
    /// as 0, which is below any bound.
    #[test]
    fn a_bound_on_what_was_not_measured_is_broken() {
        let row = |store: &str, op: &str, p50: f64, bytes_per_session: u64| Row {
            store: store.into(),
            variant: "default".into(),
            op: op.into(),
            workers: 1,
            latency_us: LatencyUs { p50, ..LatencyUs::default() },
            bytes_per_session,
            ..Row::default()
        };
        let broken = |report: &Report, bound: &str| {
            bound.parse::<Bound>().unwrap().broken_by(std::slice::from_ref(report))
        };
        let mut report = Report::from_json(REPORT).unwrap();
        report.results = vec![
            row("files", "save", 9.0, 4_096),
            row("files", "read", 0.0, 0),
            row("memory", "save", 5.0, 0),
        ];
        assert_eq!(
            broken(&report, "p99_us>5000"),
            ["p99_us>5000: p99_us was not measured of files, memory"]
        );
        assert_eq!(
            broken(&report, "bytes_per_session>9000"),
            ["bytes_per_session>9000: bytes_per_session was not measured of memory"]
        );
        assert_eq!(
            broken(&report, "files:bytes_per_session>9000"),
            Vec::<String>::new(),
            "one of its rows has the figure"
        );
        report.results[0].ops_per_second = Spread { median: 0.0, low: 0.0, high: 5.0 };
        assert_eq!(
            broken(&report, "files:ops_per_second<1"),
            ["files:ops_per_second<1: files save at 1 has 0.0"]
        );
        assert_eq!(broken(&report, "p50_us<6"), ["p50_us<6: memory save at 1 has 5.0"]);
        assert_eq!(
            broken(&report, "sqlite:p50_us<6"),
            ["sqlite:p50_us<6: no row was measured that it is about"]
        );
    }

    /// What an experiment does not measure another one may.
    #[test]
    fn a_bound_on_several_experiments_names_the_one_that_broke_it_and_can_be_about_one_of_them() {
        let report = |experiment: &str, p99: f64| {
            let mut report = Report::from_json(REPORT).unwrap();
            let latency_us = LatencyUs { p50: 5.0, p99, ..LatencyUs::default() };
            let (experiment, store, variant) =
                (experiment.into(), "files".into(), "default".into());
            report.results = vec![Row {
                experiment,
                store,
                variant,
                op: "x".into(),
                latency_us,
                ..Row::default()
            }];
            report
        };
        let mut paced = report("cycle", 900.0);
        paced.settings.rate = Some(250.0);
        let all = [report("cycle", 7.0), report("oversize", 0.0), paced];
        let broken = |bound: &str| bound.parse::<Bound>().unwrap().broken_by(&all);
        assert_eq!(broken("p99_us>800"), ["p99_us>800: cycle --rate 250: files x at 0 has 900.0"]);
        assert_eq!(broken("cycle:files:p99_us>6").len(), 2);
        assert_eq!(
            broken("oversize:p99_us>6"),
            ["oversize:p99_us>6: p99_us was not measured of files"]
        );
        assert_eq!(
            broken("perl:p99_us>6"),
            ["perl:p99_us>6: no row was measured that it is about"]
        );
        assert_eq!(
            broken("cycle:memory:p99_us>6"),
            ["cycle:memory:p99_us>6: no row was measured that it is about"]
        );
    }
}
