//! The result of one experiment, and its JSON form.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Environment, Experiment, LeftOut, Row, UsageError, experiment};

/// Version of the JSON form.
pub const SCHEMA: u32 = 1;

/// The result of a run. Its JSON form is a promise: `schema` changes when a field changes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    pub schema: u32,
    pub environment: Environment,
    /// The redacted command line.
    pub command: String,
    pub seed: u64,
    pub settings: Settings,
    /// A signal ended the run, so rows or rounds are missing. Left out when false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    pub results: Vec<Row>,
    pub left_out: Vec<LeftOut>,
    pub warnings: Vec<String>,
}

impl Default for Report {
    fn default() -> Report {
        Report {
            schema: SCHEMA,
            environment: Environment::default(),
            command: String::new(),
            seed: 0,
            settings: Settings::default(),
            interrupted: false,
            results: Vec::new(),
            left_out: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Settings {
    /// Seconds of a sample.
    pub seconds: f64,
    /// Unrecorded time before each sample.
    pub warm_up_seconds: f64,
    pub ttl_seconds: u64,
    /// Fixed requests a second of each worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Simulated round trip to private servers, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_us: Option<f64>,
    /// Whether processors were kept awake between requests.
    #[serde(default)]
    pub processors_awake: bool,
    /// Part of the processor time that the hypervisor gave to others; `None` if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen: Option<f64>,
    /// `ops` in the published form: payloads drawn in the timed part, reconnecting databases,
    /// created sessions live a minute. Left out when false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_published: bool,
    /// An identifier shared only with the result of another program measured in the same rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// Probability that the true median lies between `low` and `high`.
    pub confidence: f64,
}

impl Report {
    /// The experiment; `None` without rows.
    pub fn experiment(&self) -> Option<&str> {
        self.results.first().map(|row| row.question.experiment.as_str())
    }

    /// The flags of the experiment's form, as in the parts of `sessile bench all`: `--as-published`
    /// of `ops`; rate and workload of `cycle`. Empty for the plain form.
    pub fn flags(&self) -> String {
        let rate =
            self.settings.rate.filter(|_| self.experiment() == Some(Experiment::Cycle.name()));
        let flags = [
            self.settings.as_published.then(|| "--as-published".to_owned()),
            self.workload().map(|name| format!("--workload {name}")),
            rate.filter(|_| !self.settings.as_published).map(|rate| format!("--rate {rate}")),
        ];
        flags.into_iter().flatten().collect::<Vec<String>>().join(" ")
    }

    pub fn workload(&self) -> Option<&str> {
        self.results.first()?.question.workload.as_deref()
    }

    /// The row's experiment with its flags: `ops --as-published`.
    pub fn title_of(&self, row: &Row) -> String {
        experiment::title(&row.question.experiment, &self.flags())
    }

    pub fn bad_rows(&self) -> impl Iterator<Item = &Row> {
        self.results.iter().filter(|row| row.is_bad())
    }

    /// Refuses a text of another version.
    pub fn from_json(text: &str) -> Result<Report, UsageError> {
        Report::from_value(parsed(text)?)
    }

    pub fn from_value(value: Value) -> Result<Report, UsageError> {
        if value.get("runs").is_some() {
            let why = "it holds the results of several experiments (sessile bench all), and this \
                       takes those of one";
            return Err(UsageError(why.to_owned()));
        }
        if value.get("results").is_none() {
            return Err(UsageError(NO_RESULT.to_owned()));
        }
        check_schema(&value)?;
        whole(value)
    }

    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}

const NO_RESULT: &str = "it is no result of sessile bench --export-json";

/// The value in a file of anybody, whose texts go to terminals and pages.
pub(crate) fn parsed(text: &str) -> Result<Value, UsageError> {
    let value = serde_json::from_str(text);
    value
        .map(without_control_characters)
        .map_err(|error| UsageError(format!("it is not JSON: {error}")))
}

fn without_control_characters(value: Value) -> Value {
    let shown = |text: String| text.replace(char::is_control, "\u{fffd}");
    match value {
        Value::String(text) => Value::String(shown(text)),
        Value::Array(all) => all.into_iter().map(without_control_characters).collect(),
        Value::Object(all) => all
            .into_iter()
            .map(|(name, value)| (shown(name), without_control_characters(value)))
            .collect(),
        other => other,
    }
}

pub(crate) fn check_schema(value: &Value) -> Result<(), UsageError> {
    Err(UsageError(match value.get("schema").and_then(Value::as_u64) {
        Some(schema) if schema == u64::from(SCHEMA) => return Ok(()),
        Some(schema) => format!("it has schema {schema}, and this program reads schema {SCHEMA}"),
        None => NO_RESULT.to_owned(),
    }))
}

pub(crate) fn whole<T: DeserializeOwned>(value: Value) -> Result<T, UsageError> {
    serde_json::from_value(value)
        .map_err(|error| UsageError(format!("it is not a whole result: {error}")))
}
