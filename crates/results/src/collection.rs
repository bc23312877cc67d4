//! Results of one or several experiments in one file, as `sessile bench all` writes it.
//!
//! Invariant: the result of one experiment reads as a collection of one.

use serde::{Deserialize, Serialize};

use crate::UsageError;
use crate::{Report, SCHEMA, experiment, report};

/// Results of several experiments, in the order of measuring.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Collection {
    pub schema: u32,
    /// A signal ended the run: experiments or rows are missing. Left out when false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    pub runs: Vec<Report>,
    /// Experiments without a report, and why. Left out when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOutExperiment>,
    /// All parts that `sessile bench all` planned, in order, with their states. Written before the
    /// first figure, so that the file of a killed run says what is missing. Left out for one
    /// experiment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<SeriesPart>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesPart {
    pub experiment: String,
    /// Flags that distinguish this form, for example `--as-published`. Left out when empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub flags: String,
    pub state: PartState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartState {
    NotStarted,
    Running,
    Done,
    /// Ended by a signal; verified rows are kept.
    Interrupted,
    Failed,
    /// Nothing that this machine or the options could measure.
    LeftOut,
}

impl SeriesPart {
    pub fn title(&self) -> String {
        experiment::title(&self.experiment, &self.flags)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutExperiment {
    pub experiment: String,
    pub reason: String,
}

impl Default for Collection {
    fn default() -> Collection {
        Collection {
            schema: SCHEMA,
            interrupted: false,
            runs: Vec::new(),
            left_out: Vec::new(),
            parts: Vec::new(),
        }
    }
}

impl From<Report> for Collection {
    fn from(report: Report) -> Collection {
        Collection { interrupted: report.interrupted, runs: vec![report], ..Collection::default() }
    }
}

impl Collection {
    /// Reads a collection, or one report as a collection of one; refuses another version.
    pub fn from_json(text: &str) -> Result<Collection, UsageError> {
        let value = report::parsed(text)?;
        let Some(runs) = value.get("runs") else {
            return Report::from_value(value).map(Collection::from);
        };
        let runs = runs.as_array().into_iter().flatten();
        std::iter::once(&value).chain(runs).try_for_each(report::check_schema)?;
        report::whole(value)
    }

    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{
        "schema": 1,
        "environment": {
            "cpu": "a processor", "cores": 2, "memory_bytes": 1, "kernel": "6.1",
            "system": "x86_64 linux",
            "disk_file_system": "ext4", "sessile": "0.1.0", "build": "release", "versions": {}
        },
        "command": "sessile bench cycle", "seed": 7,
        "settings": { "seconds": 1.0, "warm_up_seconds": 0.2, "ttl_seconds": 1440,
            "confidence": 0.75 },
        "results": [], "left_out": [], "warnings": []
    }"#;

    #[test]
    fn one_report_is_a_collection_of_one_and_comes_back_as_it_was() {
        let one = Collection::from_json(REPORT).unwrap();
        assert_eq!((one.runs.len(), one.runs[0].seed, one.interrupted), (1, 7, false));
        let mut two = Collection { interrupted: true, ..one.clone() };
        two.runs.extend(one.runs);
        two.left_out.push(LeftOutExperiment {
            experiment: "perl".into(),
            reason: "there is no perl".into(),
        });
        let part = |flags: &str, state| SeriesPart {
            experiment: "ops".into(),
            flags: flags.into(),
            state,
            reason: None,
        };
        two.parts = vec![part("", PartState::Done), part("--as-published", PartState::NotStarted)];
        let text = two.to_json().unwrap();
        assert!(text.contains(r#""state": "not-started""#), "{text}");
        let read = Collection::from_json(&text).unwrap();
        assert_eq!((read.runs.len(), read.interrupted, read.left_out), (2, true, two.left_out));
        assert_eq!(read.parts, two.parts);
        assert_eq!(
            read.parts.iter().map(SeriesPart::title).collect::<Vec<String>>(),
            ["ops", "ops --as-published"]
        );
    }

    #[test]
    fn other_files_and_versions_are_refused_with_a_sentence() {
        let inner = |report: &str| format!(r#"{{ "schema": 1, "runs": [{report}] }}"#);
        let newer = REPORT.replace(r#""schema": 1"#, r#""schema": 9"#);
        for (text, words) in [
            ("nonsense", "not JSON"),
            ("{}", "no result"),
            (r#"{ "runs": [] }"#, "no result"),
            (r#"{ "schema": 2, "runs": [] }"#, "schema 2"),
            (inner("{}").as_str(), "no result"),
            (inner(&newer).as_str(), "schema 9"),
            (newer.as_str(), "schema 9"),
            (r#"{ "schema": 1, "runs": 5 }"#, "not a whole result"),
            (inner(r#"{ "schema": 1 }"#).as_str(), "not a whole result"),
        ] {
            let why = Collection::from_json(text).unwrap_err().0;
            assert!(why.contains(words), "{text}: {why}");
        }
    }

    /// A file could move the cursor of a terminal and change what was shown above.
    #[test]
    fn control_characters_of_a_file_are_not_read() {
        let text = REPORT
            .replace("a processor", r"a \u001b[2Jprocessor\n")
            .replace(r#""versions": {}"#, r#""versions": { "redis\u009b": "7\u0000" }"#);
        for text in [text.clone(), format!(r#"{{ "schema": 1, "runs": [{text}] }}"#)] {
            let read = Collection::from_json(&text).unwrap();
            let machine = &read.runs[0].environment;
            assert_eq!(machine.cpu, "a \u{fffd}[2Jprocessor\u{fffd}");
            let versions = vec![("redis\u{fffd}".to_owned(), "7\u{fffd}".to_owned())];
            assert_eq!(machine.versions.clone().into_iter().collect::<Vec<_>>(), versions);
        }
    }

    #[test]
    fn a_collection_is_no_report_and_says_so() {
        let text = Collection::from_json(REPORT).unwrap().to_json().unwrap();
        let why = Report::from_json(&text).unwrap_err().0;
        assert!(why.contains("several experiments"), "{why}");
    }
}
