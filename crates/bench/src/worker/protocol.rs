//! The protocol between parent and worker: one JSON value a line.
//!
//! A measurement is `Sample`, answered by `Ready`, then `Go` with the common start, answered by
//! `Sampled`. The tasks of `faults` document their answers. Everything else is one request and one
//! answer.
//!
//! With `--baseline` the worker may be another version of this program, so the words on the wire
//! stay.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sessile_core::Durability;
use sessile_results::Workload;

use crate::payload_spread::PayloadSpread;
use crate::worker::faults::{FaultTask, SessionAccess};
use crate::worker::oversize::{SaveReport, SaveTask};

/// The first line to a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenRequest {
    #[serde(rename = "what")]
    pub contender: ContenderSpec,
    /// From 0.
    pub worker: usize,
    /// Of ids and payload text; the same for all workers of a contender.
    pub seed: u64,
    /// Ids to prepare: for filled sessions and for those that samples create.
    pub ids: usize,
    /// The mean where sizes differ.
    pub payload_bytes: usize,
    pub spread: PayloadSpread,
    /// Of the sessions.
    pub ttl: Duration,
    /// Overrides the default where a lock ends with time. A store has it in its URL.
    pub lock_ttl: Option<Duration>,
}

/// How a contender is opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ContenderSpec {
    /// Through the registry.
    Store {
        url: String,
        /// Each timed request opens it anew.
        reconnects: bool,
    },
    Reference {
        name: String,
        /// Its directory or socket.
        place: PathBuf,
        /// The tier, for a row without a server.
        #[serde(default)]
        durability: String,
    },
    Test {
        name: String,
        /// A directory of the test.
        place: PathBuf,
    },
}

impl ContenderSpec {
    pub(crate) fn durability(&self) -> Durability {
        let name = match self {
            ContenderSpec::Reference { durability, .. } => durability,
            ContenderSpec::Store { .. } | ContenderSpec::Test { .. } => "",
        };
        Durability::from_name(name).unwrap_or(Durability::None)
    }
}

/// From parent to worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum WorkerRequest {
    /// Create sessions.
    Fill(SessionRange),
    /// Prepare a sample; answered by `Ready`.
    Sample(SamplePlan),
    /// Measure; answered by `Sampled`.
    Go {
        /// In nanoseconds of the monotonic clock.
        start_ns: u64,
    },
    /// Ends a sample that is `until_told`. Only requests count that were due within this time, in
    /// nanoseconds of the monotonic clock; those that are still queued are served first.
    EndSample(std::ops::Range<u64>),
    /// Read sessions and sum up their counters.
    Verify(SessionRange),
    /// Replace a small payload by a large one, and check the result.
    Save(SaveTask),
    Destroy(SessionRange),
    /// Sweep until a pass found nothing more to remove.
    Sweep,
    Fault(FaultTask),
    /// Ends a load; answered by `Stopped`.
    Stop,
}

/// Every `step`th session of `from..to`, so that workers share the range.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct SessionRange {
    pub from: usize,
    /// Exclusive.
    pub to: usize,
    /// The number of workers.
    pub step: usize,
    /// When filled sessions expire, in nanoseconds of the monotonic clock; `None` for the usual
    /// ttl.
    #[serde(rename = "expiring")]
    pub expire_at_ns: Option<u64>,
    /// When filling gives up, in nanoseconds of the monotonic clock.
    pub until_ns: Option<u64>,
}

impl SessionRange {
    pub(crate) fn whole(range: &std::ops::Range<usize>) -> SessionRange {
        SessionRange { from: range.start, to: range.end, step: 1, ..SessionRange::default() }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SampleAction {
    Create,
    /// Without a lock.
    Read,
    /// Begin exclusively, read, change, commit.
    #[default]
    Cycle,
    /// A `Cycle` whose latency ends when `begin` has granted the lock.
    Begin,
    /// A `Cycle` that calls PHP's garbage collection in a tenth of all cases: a sweep with the
    /// default budget inside the start of a request, unless sessions expire by themselves.
    StartWithSweep,
    /// A request of a workload. Sessions with one request use the ids of `fresh`.
    Request(Workload),
}

impl SampleAction {
    /// Whether it creates sessions under the ids of `fresh`, and ends when they are used up.
    pub(crate) const fn creates(self) -> bool {
        match self {
            SampleAction::Create => true,
            SampleAction::Request(workload) => workload.creates(),
            SampleAction::Read
            | SampleAction::Cycle
            | SampleAction::Begin
            | SampleAction::StartWithSweep => false,
        }
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SamplePlan {
    pub action: SampleAction,
    /// Chosen uniformly.
    pub sessions: std::ops::Range<usize>,
    /// Unused ids for `Create` and `WorkerRequest`.
    pub fresh: std::ops::Range<usize>,
    /// Not recorded.
    pub warm_up_ns: u64,
    /// Recorded.
    pub measure_ns: u64,
    /// Ends the sample after this many recorded operations.
    pub operations_max: Option<u64>,
    /// Of the choice of sessions.
    pub seed: u64,
    /// Arrivals a second; `None` for a closed loop.
    pub rate: Option<f64>,
    /// Work inside the lock.
    pub hold_ns: u64,
    /// Report each lease, which shows waits.
    pub record_leases: bool,
    /// Arrivals come until `EndSample`, which says what counts.
    #[serde(default)]
    pub until_told: bool,
    /// Draw a payload in the timed part before each write, and create sessions that live for a
    /// minute.
    pub as_published: bool,
}

impl SamplePlan {
    /// A closed loop without duration and sessions.
    pub(crate) fn new(action: SampleAction) -> SamplePlan {
        SamplePlan { action, ..SamplePlan::default() }
    }
}

/// From worker to parent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum WorkerReply {
    /// The contender is open, or a sample is prepared.
    Ready,
    /// Answers `Fill`, `Verify`, `Destroy` and `Sweep`.
    Done(TaskTotals),
    Sampled(Box<SampleResult>),
    Saved(SaveReport),
    /// A change of a session.
    #[serde(rename = "Step")]
    Access(SessionAccess),
    /// A read of each of several sessions.
    #[serde(rename = "Looked")]
    Peeked(Vec<SessionAccess>),
    /// A load has ended.
    Stopped {
        /// Duration of opening the contender.
        open_ns: u64,
    },
    /// The contender cannot be opened.
    Failed(ContenderFailure),
}

/// What a worker, or its parent for it, may fail in.
pub(crate) type WorkerResult<T> = Result<T, ContenderFailure>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContenderFailure {
    /// The stable word of its kind.
    pub code: String,
    pub message: String,
}

/// A server, a directory or a worker of ours did not start.
pub(crate) const NOT_STARTED: &str = "start";
pub(crate) const NO_ROOM: &str = "no-room";
pub(crate) const TOO_SLOW: &str = "too-slow";

impl ContenderFailure {
    pub(crate) fn not_started(message: String) -> ContenderFailure {
        ContenderFailure { code: NOT_STARTED.to_owned(), message }
    }

    /// Otherwise its contender is left out with the reason: a failed row is a fault of the store.
    pub(crate) fn is_of_store(&self) -> bool {
        ![NOT_STARTED, NO_ROOM, TOO_SLOW].contains(&self.code.as_str())
    }

    pub(crate) fn from_error(error: &sessile_core::Error) -> ContenderFailure {
        ContenderFailure { code: error.kind().code().to_owned(), message: format!("{error:#}") }
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TaskTotals {
    /// Sessions done; of a sweep, records removed.
    pub count: u64,
    /// Sum of the counters that were read.
    pub counters: u64,
    /// Sessions that do not exist.
    pub misses: u64,
    /// Failed calls and wrong payloads.
    pub errors: u64,
    pub first_error: Option<String>,
    /// Of a sweep until the end of the last call that removed something.
    pub elapsed_ns: u64,
    /// On the monotonic clock.
    #[serde(default)]
    pub started_ns: u64,
    /// Of the worker.
    pub cpu_us: u64,
    pub longest_ns: u64,
}

impl TaskTotals {
    /// Leaves the times to the caller, which knows whether both ran at the same time.
    pub(crate) fn add(&mut self, other: TaskTotals) {
        self.count += other.count;
        self.counters += other.counters;
        self.misses += other.misses;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.cpu_us += other.cpu_us;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SampleResult {
    /// Recorded ones.
    pub operations: u64,
    /// Acknowledged commits, including the warm-up.
    pub commits: u64,
    /// Sessions that do not exist.
    pub misses: u64,
    /// Failed calls and wrong payloads.
    pub errors: u64,
    pub first_error: Option<String>,
    /// From the first recorded start to the end; in a closed loop without announcements.
    pub elapsed_ns: u64,
    /// Of the worker.
    pub cpu_us: u64,
    /// Nanoseconds, as an HDR histogram, V2, base64.
    pub latency: String,
    /// Latencies of requests that also swept.
    pub latency_extra: Option<String>,
    /// If `record_leases` is set.
    pub leases: Vec<LeaseTimes>,
    /// Number of ids used, from the front of `fresh`.
    pub created: usize,
}

/// The life of one lease, in nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseTimes {
    /// When the request was due (fixed rate) or made (closed loop).
    pub due_ns: u64,
    /// When `begin` was called.
    pub asked_ns: u64,
    /// When `begin` returned.
    pub granted_ns: u64,
    /// When `commit` returned.
    pub released_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::faults::FoundContent;

    /// `--baseline` talks to workers of another version.
    #[test]
    fn renamed_items_keep_their_words_on_the_wire() {
        let access = SessionAccess {
            session: 1,
            asked_ns: 2,
            granted_ns: 3,
            ended_ns: 4,
            found: FoundContent::Nothing,
            restarted: None,
        };
        let expected = r#"{"session":1,"asked_ns":2,"granted_ns":3,"ended_ns":4,"met":"Nothing","#;
        let access = serde_json::to_string(&WorkerReply::Access(access)).unwrap();
        assert!(access.starts_with(&format!(r#"{{"Step":{expected}"#)), "{access}");
        assert_eq!(
            serde_json::to_string(&WorkerReply::Peeked(Vec::new())).unwrap(),
            r#"{"Looked":[]}"#
        );
        let tasks = [
            (FaultTask::TakeOver(7), r#"{"Take":7}"#),
            (FaultTask::Peek(0..2), r#"{"Look":{"start":0,"end":2}}"#),
        ];
        for (task, expected) in tasks {
            assert_eq!(serde_json::to_string(&task).unwrap(), expected);
        }
    }
}
