//! Bounds on figures, for scripts: `p99_us>5000` fails a run in which a store's row is beyond it.
//!
//! It owns one invariant: a bound that looks at no row is broken, because a check of nothing must not pass, and so is one on a
//! figure that was not measured of a store. Reference rows are no stores and are looked at only when they are named.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::options::UsageError;
use crate::reference;
use crate::report::{Report, Row};

/// `[STORE:]FIGURE<NUMBER` or with `>`: what makes a run fail.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    text: String,
    /// A store, or one variant of it (`files#shm`); all stores when `None`.
    store: Option<String>,
    figure: &'static Figure,
    comparison: Comparison,
    value: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Below,
    Above,
}

#[derive(Debug)]
struct Figure {
    name: &'static str,
    /// `None` where it was not measured.
    of: fn(&Row) -> Option<f64>,
}

impl PartialEq for Figure {
    fn eq(&self, other: &Figure) -> bool {
        self.name == other.name
    }
}

/// The figures that can be bounded, by their names in the JSON.
const FIGURES: &[Figure] = &[
    // Of a store that did nothing in most of its rounds the median is 0, and measured.
    Figure { name: "ops_per_second", of: |row| known(row.ops_per_second.high).and(Some(row.ops_per_second.median)) },
    Figure { name: "p50_us", of: |row| known(row.latency_us.p50) },
    Figure { name: "p90_us", of: |row| known(row.latency_us.p90) },
    Figure { name: "p99_us", of: |row| known(row.latency_us.p99) },
    Figure { name: "p999_us", of: |row| known(row.latency_us.p999) },
    Figure { name: "max_us", of: |row| known(row.latency_us.max) },
    Figure { name: "cpu_us_per_op", of: |row| known(row.cpu_us_per_op.client + row.cpu_us_per_op.server) },
    Figure { name: "bytes_per_session", of: |row| known(row.bytes_per_session as f64) },
];

/// A row has 0 where nothing was measured; what is measured takes some time and some space.
fn known(value: f64) -> Option<f64> {
    (value > 0.0).then_some(value)
}

impl FromStr for Bound {
    type Err = UsageError;

    fn from_str(text: &str) -> Result<Bound, UsageError> {
        let wrong = |why: String| UsageError(format!("{why}; write [STORE:]FIGURE>NUMBER, for example p99_us>5000"));
        let at = text.find(['<', '>']).ok_or_else(|| wrong("it has neither < nor >".to_owned()))?;
        let (left, right) = text.split_at(at);
        let comparison = if right.starts_with('<') { Comparison::Below } else { Comparison::Above };
        let number = right.get(1..).unwrap_or_default().trim();
        let value = number.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
        let value = value.ok_or_else(|| wrong(format!("{number:?} is no number, 0 or more")))?;
        let (store, name) = match left.rsplit_once(':') {
            Some((store, name)) => (Some(store.trim().to_owned()), name.trim()),
            None => (None, left.trim()),
        };
        let figure = FIGURES.iter().find(|figure| figure.name == name).ok_or_else(|| {
            let known: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
            wrong(format!("{name:?} is no figure; known: {}", known.join(", ")))
        })?;
        Ok(Bound { text: text.to_owned(), store, figure, comparison, value })
    }
}

impl Bound {
    /// What breaks it, one entry a row, and one for the stores that it tells nothing of. Rows that failed as a whole have no
    /// figures and are told elsewhere.
    pub fn broken_by(&self, report: &Report) -> Vec<String> {
        let rows: Vec<&Row> = report.results.iter().filter(|row| row.failed.is_none() && self.is_about(row)).collect();
        if rows.is_empty() {
            return vec![format!("{}: no row was measured that it is about", self.text)];
        }
        let (with, without): (Vec<&Row>, Vec<&Row>) = rows.into_iter().partition(|row| (self.figure.of)(row).is_some());
        // Of some operations an experiment does not know all figures.
        let known: BTreeSet<String> = with.iter().map(|row| row.title()).collect();
        let unknown: BTreeSet<String> =
            without.iter().map(|row| row.title()).filter(|it| !known.contains(it)).collect();
        let mut broken: Vec<String> = with.into_iter().filter_map(|row| self.broken_in(row)).collect();
        if !unknown.is_empty() {
            let unknown: Vec<String> = unknown.into_iter().collect();
            broken.push(format!("{}: {} was not measured of {}", self.text, self.figure.name, unknown.join(", ")));
        }
        broken
    }

    fn broken_in(&self, row: &Row) -> Option<String> {
        let value = (self.figure.of)(row)?;
        let beyond = match self.comparison {
            Comparison::Below => value < self.value,
            Comparison::Above => value > self.value,
        };
        beyond.then(|| format!("{}: {} {} at {} has {value:.1}", self.text, row.title(), row.op, row.workers))
    }

    fn is_about(&self, row: &Row) -> bool {
        match &self.store {
            Some(name) => *name == row.store || *name == row.title(),
            None => reference::by_name(&row.store).is_none(),
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
        assert_eq!((bound.store.as_deref(), bound.figure.name, bound.value), (Some("files#shm"), "p99_us", 5000.0));
        assert_eq!("ops_per_second<1e3".parse::<Bound>().unwrap().comparison, Comparison::Below);
        for (text, words) in [
            ("p99_us", "neither"),
            ("p99>5", "known: ops_per_second"),
            ("p99_us>=5", "no number"),
            ("p99_us>-1", "no number"),
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
            "cpu": "a processor", "cores": 2, "memory_bytes": 1, "kernel": "6.1", "system": "x86_64 linux",
            "disk_file_system": "ext4", "sessile": "0.1.0", "build": "release", "versions": {}
        },
        "command": "sessile bench oversize", "seed": 7,
        "settings": { "seconds": 1.0, "warm_up_seconds": 0.2, "ttl_seconds": 1440, "churn": 0, "confidence": 0.75 },
        "results": [], "left_out": [], "warnings": []
    }"#;

    /// `oversize` has no 99th percentile, and not every store can tell its space: both stood there as 0, which is below any bound.
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
        let broken = |report: &Report, bound: &str| bound.parse::<Bound>().unwrap().broken_by(report);
        let mut report = Report::from_json(REPORT).unwrap();
        report.results =
            vec![row("files", "save", 9.0, 4_096), row("files", "read", 0.0, 0), row("memory", "save", 5.0, 0)];
        assert_eq!(broken(&report, "p99_us>5000"), ["p99_us>5000: p99_us was not measured of files, memory"]);
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
        assert_eq!(broken(&report, "files:ops_per_second<1"), ["files:ops_per_second<1: files save at 1 has 0.0"]);
        assert_eq!(broken(&report, "p50_us<6"), ["p50_us<6: memory save at 1 has 5.0"]);
        assert_eq!(broken(&report, "sqlite:p50_us<6"), ["sqlite:p50_us<6: no row was measured that it is about"]);
    }
}
