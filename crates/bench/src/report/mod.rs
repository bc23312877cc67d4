//! The result of a run, and the ways to show it.

pub(crate) mod bars;
mod csv;
mod expiry;
pub(crate) mod faults;
mod lifecycle;
mod markdown;
mod oversize;
mod perl;
mod rebuild;
mod removal;
mod round_sample;
mod scale;
mod space;
mod surroundings;
pub(crate) mod table;
pub(crate) mod visitors;
pub(crate) mod warnings;

use serde::{Deserialize, Serialize};

pub use self::expiry::{ExpiryVerdict, SlowEnd};
pub use self::faults::{Faults, Promise};
pub use self::lifecycle::{Overflow, WebFigures};
pub use self::oversize::Oversize;
pub use self::perl::{KeeperFigures, Race, WholeCache};
pub use self::rebuild::{LargestEntry, Rebuild, Siege};
pub use self::removal::Removal;
pub use self::round_sample::RoundSample;
pub(crate) use self::surroundings::surroundings;
pub use self::visitors::{ServerWork, Visitors};
pub use crate::environment::Environment;
use crate::experiment::{self, Experiment};
use crate::histogram::Latencies;
use crate::naming;
use crate::options::UsageError;
use crate::redact;
pub use crate::selection::LeftOut;
use crate::statistics::Spread;
pub use crate::worker::WorkerMemory;
pub use crate::worker::oversize::{After, Outcome};

/// The version of the JSON form.
pub(crate) const SCHEMA: u32 = 1;

/// Everything that a run found out. Its JSON form is a promise: `schema` changes when a field changes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Version of this shape.
    pub schema: u32,
    /// Where it was measured.
    pub environment: Environment,
    /// How it was called, without places.
    pub command: String,
    /// The seed of ids, payloads, choices and order.
    pub seed: u64,
    /// The settings in force.
    pub settings: Settings,
    /// A signal ended the run: what was not measured to the end by then is missing. Left out when false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// One entry a row.
    pub results: Vec<Row>,
    /// What was not measured, and why.
    pub left_out: Vec<LeftOut>,
    /// What the reader should know before believing a figure.
    pub warnings: Vec<String>,
}

/// Of nothing, measured nowhere.
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

/// The settings in force.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Settings {
    /// Length of a sample in seconds.
    pub seconds: f64,
    /// Not recorded before each sample.
    pub warm_up_seconds: f64,
    /// Time to live of sessions in seconds.
    pub ttl_seconds: u64,
    /// Requests a second of each worker, where that was fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// How long a round trip to a private server took on the way alone, in microseconds, where there was a way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_us: Option<f64>,
    /// Whether processors were kept awake between requests.
    #[serde(default)]
    pub processors_awake: bool,
    /// The part of the processors' time that a hypervisor gave to others during the run; `None` where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen: Option<f64>,
    /// How many times the number of sessions was rewritten before the first round.
    pub churn: usize,
    /// `ops` as it was published: payloads are drawn in the timed part, databases are connected to anew for each
    /// operation, and what is created lives for a minute. Left out when false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_published: bool,
    /// What this result has in common with that of another program which was measured in the same rounds, turn by turn, and
    /// with no other one. Left out where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// Chance that the true median lies between `low` and `high`.
    pub confidence: f64,
}

/// One measured combination of contender, operation and number of workers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    /// The experiment.
    pub experiment: String,
    /// Registry name, or that of a reference row.
    pub store: String,
    /// URL without places, hosts and secrets.
    pub url: String,
    /// What makes it different from others of the same name.
    pub variant: String,
    /// The operation.
    pub op: String,
    /// Number of worker processes.
    pub workers: usize,
    /// Sessions in the store.
    pub sessions: usize,
    /// Payload size; the mean where sizes differ.
    pub payload_bytes: usize,
    /// `fixed`, or how sizes differ.
    pub payload_spread: String,
    /// The workload, where the requests did something else than change a session each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The tier.
    pub durability: String,
    /// `embedded` or `socket`: figures are compared only within one.
    pub kind: String,
    /// Rounds that were completed.
    pub rounds: usize,
    /// Operations a second over all workers.
    pub ops_per_second: Spread,
    /// What each round gave, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<RoundSample>,
    /// Latency over all rounds and workers.
    pub latency_us: LatencyUs,
    /// Operations that were recorded.
    pub operations: u64,
    /// Failed operations and damaged payloads.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
    /// Sessions that were not there.
    pub misses: u64,
    /// Acknowledged updates that are not in the store. Counted once a contender, after the last round, and
    /// put on its row with the most workers.
    pub lost: u64,
    /// Why there are no figures, if so.
    pub failed: Option<String>,
    /// CPU time of an operation.
    pub cpu_us_per_op: CpuUs,
    /// Space a session: files and shared mappings, or growth of the server's or of the worker's memory. In `cycle`
    /// and `ops` at the end of the run, with all sessions that are there then; 0 where it cannot be told.
    pub bytes_per_session: u64,
    /// p99.9 of the calls of each round, from the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999_us_of_rounds: Option<Spread>,
    /// Whether expired sessions make the slow end slower; on the row of the stream that met them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiry: Option<ExpiryVerdict>,
    /// What became of a large payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oversize: Option<Oversize>,
    /// What was lost, stuck or refused when workers and servers were killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
    /// What became of a cache entry that each view of a page needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<Rebuild>,
    /// What the workers of the row occupy after its last sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<WorkerMemory>,
    /// The lowest count of cycles of a worker as a part of the mean: 1 is perfectly fair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
    /// Waits of begins on one session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waits>,
    /// Latency counts between bounds that are the same for all rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Buckets>,
    /// What a sweep or deletion beside the measurement did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removal: Option<Removal>,
    /// Whether requests that sweep are a second mode of the latencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<Modes>,
    /// What was measured through a web server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<WebFigures>,
    /// What was measured inside Perl.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeper: Option<KeeperFigures>,
    /// What `make php-gc-bench` knows more finely than a row has room for, as it wrote it. Where it is, the row is of a handler in
    /// PHP's own process, also if that has the name of a store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub php: Option<serde_json::Value>,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say which quantile")]
pub struct LatencyUs {
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// CPU time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuUs {
    /// Of the workers.
    pub client: f64,
    /// Of the server. 0 where there is none, where nobody has looked into its process (`rebuild`, a store of the user's), and
    /// where it took less than the kernel counts: a reader shows no figure then, see [`CpuUs::of_server`].
    pub server: f64,
}

/// Waits of begins, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// Begins that were recorded.
    pub begins: u64,
    /// Of those, the ones that found the session taken.
    pub taken: u64,
    /// Median over the begins that found it taken.
    pub taken_p50: f64,
    /// Their 99th percentile.
    pub taken_p99: f64,
    /// Median over all begins.
    pub all_p50: f64,
    /// Their 99th percentile.
    pub all_p99: f64,
}

/// A histogram.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Buckets {
    /// Upper bounds in microseconds; the last count is beyond all of them.
    pub bounds_us: Vec<u64>,
    /// Counts, one more than bounds.
    pub counts: Vec<u64>,
}

/// Requests that did something extra, beside those that did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Modes {
    /// Median of the plain ones in microseconds.
    pub plain_p50: f64,
    /// Median of those that swept.
    pub sweeping_p50: f64,
    /// How many swept.
    pub sweeping: u64,
    /// The 90th percentile of those that swept.
    pub sweeping_p90: f64,
    /// 2 when a tenth of those that swept took more than four times the 99th percentile of the others.
    pub modes: u32,
}

impl Modes {
    /// With fewer sessions there is so little to remove that a sweep may not stand out: one mode says nothing then.
    pub const SESSIONS_MIN: usize = 50_000;

    pub(crate) fn of(plain: &Latencies, sweeping: &Latencies) -> Modes {
        let (plain_p50, sweeping_p50) = (plain.us(0.5), sweeping.us(0.5));
        let sweeping_p90 = sweeping.us(0.9);
        let modes = if sweeping_p90 > 4.0 * plain.us(0.99) { 2 } else { 1 };
        Modes { plain_p50, sweeping_p50, sweeping_p90, sweeping: sweeping.count(), modes }
    }
}

impl CpuUs {
    /// Of the server, where that is known.
    pub fn of_server(&self) -> Option<f64> {
        Some(self.server).filter(|us| *us > 0.0)
    }
}

impl LatencyUs {
    pub(crate) fn of(latencies: &Latencies) -> LatencyUs {
        LatencyUs {
            min: latencies.min_us(),
            p50: latencies.us(0.5),
            p90: latencies.us(0.9),
            p99: latencies.us(0.99),
            p999: latencies.us(0.999),
            max: latencies.max_us(),
        }
    }
}

impl Row {
    /// Name and variant as one word.
    pub fn title(&self) -> String {
        naming::title(&self.store, &self.variant)
    }

    /// The title as tables and charts show it: a way over TCP is longer than one over a unix socket, and is told.
    pub fn shown_title(&self) -> String {
        let over_tcp = self.kind == "socket" && self.url.contains(redact::SHOWN_HOST);
        if over_tcp { format!("{} (tcp)", self.title()) } else { self.title() }
    }

    /// Whether something went wrong.
    pub fn is_bad(&self) -> bool {
        self.failed.is_some() || self.errors + self.misses + self.lost > 0
    }

    /// What went wrong, in words.
    pub(crate) fn fault(&self) -> String {
        let counts = || format!("{} errors, {} misses, {} lost updates", self.errors, self.misses, self.lost);
        let of_kills = self.faults.as_ref().map(Faults::in_words).filter(|words| !words.is_empty());
        self.failed.clone().or(of_kills).unwrap_or_else(counts)
    }
}

impl Report {
    /// The name of the experiment; `None` if there is no row.
    pub fn experiment(&self) -> Option<&str> {
        self.results.first().map(|row| row.experiment.as_str())
    }

    /// The flags that make the experiment another question than it is without them, as `sessile bench all` has them in its
    /// parts: `--as-published` of `ops`, the rate of `cycle`, which alone is a closed loop, and its workload. Empty for the plain
    /// form.
    pub fn flags(&self) -> String {
        let rate = self.settings.rate.filter(|_| self.experiment() == Some(Experiment::Cycle.name()));
        let flags = [
            self.settings.as_published.then(|| "--as-published".to_owned()),
            self.workload().map(|name| format!("--workload {name}")),
            rate.filter(|_| !self.settings.as_published).map(|rate| format!("--rate {rate}")),
        ];
        flags.into_iter().flatten().collect::<Vec<String>>().join(" ")
    }

    /// The name of the workload, where there was one.
    pub fn workload(&self) -> Option<&str> {
        self.results.first()?.workload.as_deref()
    }

    /// The experiment of a row of it, with the flags that tell it from another form: `ops --as-published`.
    pub fn title_of(&self, row: &Row) -> String {
        experiment::title(&row.experiment, &self.flags())
    }

    /// Rows in which something went wrong.
    pub fn bad_rows(&self) -> impl Iterator<Item = &Row> {
        self.results.iter().filter(|row| row.is_bad())
    }

    /// A report from its JSON form.
    ///
    /// # Errors
    ///
    /// One sentence, for the user, when the text is something else or of another version.
    pub fn from_json(text: &str) -> Result<Report, UsageError> {
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| UsageError(format!("it is not JSON: {error}")))?;
        Report::from_value(value)
    }

    pub(crate) fn from_value(value: serde_json::Value) -> Result<Report, UsageError> {
        match value.get("schema").and_then(serde_json::Value::as_u64) {
            Some(schema) if schema == u64::from(SCHEMA) && value.get("results").is_some() => {}
            Some(schema) if value.get("results").is_some() => {
                let why = format!("it has schema {schema}, and this program reads schema {SCHEMA}");
                return Err(UsageError(why));
            }
            _ if value.get("runs").is_some() => {
                let why =
                    "it holds the results of several experiments (sessile bench all), and this takes those of one";
                return Err(UsageError(why.to_owned()));
            }
            _ => return Err(UsageError("it is no result of sessile bench --json".to_owned())),
        }
        serde_json::from_value(value).map_err(|error| UsageError(format!("it is not a whole result: {error}")))
    }

    /// The report as JSON.
    ///
    /// # Errors
    ///
    /// None in practice: the shape has no maps with odd keys and no non-finite numbers are kept as such.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}
