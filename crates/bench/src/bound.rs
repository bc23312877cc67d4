//! Bounds on figures, for scripts: `p99_us>5000` fails a run in which a store's row is beyond it.
//!
//! It owns one invariant: a bound that looks at no row is broken, because a check of nothing must not pass. Reference
//! rows are no stores and are looked at only when they are named.

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
    of: fn(&Row) -> f64,
}

impl PartialEq for Figure {
    fn eq(&self, other: &Figure) -> bool {
        self.name == other.name
    }
}

/// The figures that can be bounded, by their names in the JSON.
const FIGURES: &[Figure] = &[
    Figure { name: "ops_per_second", of: |row| row.ops_per_second.median },
    Figure { name: "p50_us", of: |row| row.latency_us.p50 },
    Figure { name: "p90_us", of: |row| row.latency_us.p90 },
    Figure { name: "p99_us", of: |row| row.latency_us.p99 },
    Figure { name: "p999_us", of: |row| row.latency_us.p999 },
    Figure { name: "max_us", of: |row| row.latency_us.max },
    Figure { name: "cpu_us_per_op", of: |row| row.cpu_us_per_op.client + row.cpu_us_per_op.server },
    Figure { name: "bytes_per_session", of: |row| row.bytes_per_session as f64 },
];

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
    /// What breaks it, one entry a row. Rows that failed as a whole have no figures and are told elsewhere.
    pub fn broken_by(&self, report: &Report) -> Vec<String> {
        let rows: Vec<&Row> = report.results.iter().filter(|row| row.failed.is_none() && self.is_about(row)).collect();
        if rows.is_empty() {
            return vec![format!("{}: no row was measured that it is about", self.text)];
        }
        let broken = rows.into_iter().filter_map(|row| {
            let value = (self.figure.of)(row);
            let beyond = match self.comparison {
                Comparison::Below => value < self.value,
                Comparison::Above => value > self.value,
            };
            beyond.then(|| format!("{}: {} {} at {} has {value:.1}", self.text, row.title(), row.op, row.workers))
        });
        broken.collect()
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
}
