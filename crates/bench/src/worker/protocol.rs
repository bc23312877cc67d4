//! What parent and worker say to each other: one JSON value a line.
//!
//! A measurement has three phases: `Sample` is answered by `Ready`, then `Go` sets the common start, then
//! the answer is `Sampled`. The tasks of `faults` say themselves what is answered. Everything else is one request and one
//! answer.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::spread::Spread;
use crate::traffic::Workload;
use crate::worker::faults::{Step, Task};
use crate::worker::oversize::{Save, Saved};

/// The first line to a worker: what it is to open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Opening {
    /// The contender.
    pub what: What,
    /// Which worker this is, from 0.
    pub worker: usize,
    /// Seed of ids and payload text; the same for all workers of a contender.
    pub seed: u64,
    /// How many ids are prepared: the sessions that are filled in, and those that samples create.
    pub ids: usize,
    /// Payload size; the mean where sizes differ.
    pub payload_bytes: usize,
    /// How sizes differ.
    pub spread: Spread,
    /// Time to live of the sessions.
    pub ttl: Duration,
    /// Where a lock ends with time: after how long, if not after what is usual there. A store has it in its URL.
    pub lock_ttl: Option<Duration>,
}

/// How a contender is opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum What {
    /// Through the registry.
    Store {
        /// Its URL.
        url: String,
        /// Whether each request that is timed opens it anew.
        reconnects: bool,
    },
    /// A reference row.
    Reference {
        /// Its name.
        name: String,
        /// Its directory or socket.
        place: PathBuf,
    },
    /// A contender that a test brings along.
    Test {
        /// Which one.
        name: String,
        /// A directory of the test.
        place: PathBuf,
    },
}

/// From parent to worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Create sessions.
    Fill(Range),
    /// Prepare to measure; answered by `Ready`.
    Sample(Plan),
    /// Measure from this moment on; answered by `Sampled`.
    Go {
        /// When to start, in nanoseconds of the monotonic clock.
        start_ns: u64,
    },
    /// Rewrite sessions; not measured.
    Churn(Churn),
    /// Read sessions and add up their counters.
    Verify(Range),
    /// Replace a small payload by a large one, and look what became of it.
    Save(Save),
    /// Remove sessions.
    Destroy(Range),
    /// Sweep, call after call, until a pass found nothing more to remove.
    Sweep,
    /// A part of `faults`.
    Fault(Task),
    /// Ends a load; answered by `Stopped`.
    Stop,
}

/// How a store is aged before it is measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Churn {
    /// Sessions to choose from, uniformly.
    pub sessions: std::ops::Range<usize>,
    /// Whole locked cycles.
    pub cycles: usize,
    /// Seed of the choice of sessions.
    pub seed: u64,
}

/// Every `step`th session of `from..to`: how workers share work.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Range {
    /// The first session.
    pub from: usize,
    /// The end, not included.
    pub to: usize,
    /// Distance from one to the next: the number of workers.
    pub step: usize,
    /// When filled sessions expire; `None` for the usual ttl.
    pub expiring: Option<Expiring>,
    /// When filling ends, done or not, in nanoseconds of the monotonic clock; `None` for not before it is done.
    pub until_ns: Option<u64>,
}

/// When the sessions of a range expire: all at one moment, or one after the other.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Expiring {
    /// The first of them.
    pub first: usize,
    /// When it expires, in nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// How much later the next one does.
    pub apart_ns: u64,
}

impl Range {
    /// All sessions of a range, whole.
    pub(crate) fn whole(range: &std::ops::Range<usize>) -> Range {
        Range { from: range.start, to: range.end, step: 1, expiring: None, until_ns: None }
    }
}

impl Expiring {
    /// When a session expires.
    pub(crate) fn moment_of(self, session: usize) -> u64 {
        self.at_ns + self.apart_ns * session.saturating_sub(self.first) as u64
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Store a new session.
    Create,
    /// Read without a lock.
    Read,
    /// Begin exclusively, read, change, commit.
    Cycle,
    /// The same; what is recorded is the time until `begin` has granted the lock.
    Begin,
    /// The same as `Cycle`, and in a tenth of all cases what a handler does for PHP's garbage collection: a sweep with the
    /// default budget inside the start of a request, unless what has expired goes by itself.
    StartWithSweep,
    /// The same as `Cycle`, but one call of ten, at a random place among them, is for the next id of `fresh`. Its
    /// session has expired or never was, so the call starts it anew.
    Stream,
    /// What the requests of a workload do. Ids of `fresh` are those of sessions that have one request.
    Request(Workload),
}

impl Action {
    /// Whether it makes sessions under the ids of `fresh`, and ends when they are used up.
    pub(crate) const fn creates(self) -> bool {
        match self {
            Action::Create => true,
            Action::Request(workload) => workload.creates(),
            Action::Read | Action::Cycle | Action::Begin | Action::StartWithSweep | Action::Stream => false,
        }
    }
}

/// One sample of one worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// What to do.
    pub action: Action,
    /// Sessions to choose from, uniformly unless a workload says otherwise.
    pub sessions: std::ops::Range<usize>,
    /// For `Create` and `Request` the unused ids, for `Stream` those without a live session.
    pub fresh: std::ops::Range<usize>,
    /// Not recorded at first.
    pub warm_up_ns: u64,
    /// Recorded after that.
    pub measure_ns: u64,
    /// End after this many recorded operations, if given.
    pub operations_max: Option<u64>,
    /// Seed of the choice of sessions.
    pub seed: u64,
    /// Arrivals a second. `None`: closed loop, the next operation starts when the last has ended.
    pub rate: Option<f64>,
    /// Work inside the lock.
    pub hold_ns: u64,
    /// Report each lease, so that waits can be told from undisturbed begins.
    pub record_leases: bool,
    /// Draw a payload in the timed part before each write, and create sessions that live for a minute.
    pub as_published: bool,
}

impl Plan {
    /// A plan of this action with nothing else said: closed loop, no time, no sessions.
    pub(crate) fn of(action: Action) -> Plan {
        Plan {
            action,
            sessions: 0..0,
            fresh: 0..0,
            warm_up_ns: 0,
            measure_ns: 0,
            operations_max: None,
            seed: 0,
            rate: None,
            hold_ns: 0,
            record_leases: false,
            as_published: false,
        }
    }
}

/// From worker to parent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Opened, or prepared for a sample.
    Ready,
    /// What `Fill`, `Churn`, `Verify`, `Destroy` and `Sweep` did.
    Done(Done),
    /// What was measured.
    Sampled(Box<Sampled>),
    /// What became of a large payload.
    Saved(Saved),
    /// One change of a session.
    Step(Step),
    /// One look at each of several sessions.
    Looked(Vec<Step>),
    /// A load has ended.
    Stopped {
        /// How long this worker took to open the contender.
        open_ns: u64,
    },
    /// The contender cannot be opened.
    Failed(Failure),
}

/// An error, as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The stable word of its kind.
    pub code: String,
    /// The message.
    pub message: String,
}

impl Failure {
    /// An error of a store.
    pub(crate) fn of(error: &sessile_core::Error) -> Failure {
        Failure { code: error.kind().code().to_owned(), message: format!("{error:#}") }
    }
}

/// The account of a task that is not measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Done {
    /// Sessions dealt with; for a sweep, records removed; for a churn, acknowledged commits.
    pub count: u64,
    /// Sum of the counters that were read.
    pub counters: u64,
    /// Sessions that were not there.
    pub misses: u64,
    /// Calls that failed, and payloads that are not what was written.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
    /// How long it took.
    pub elapsed_ns: u64,
    /// CPU time that the worker used for it.
    pub cpu_us: u64,
    /// Longest single call.
    pub longest_ns: u64,
}

impl Done {
    /// Another account beside this one. How long both took is left to who knows whether that was at the same time.
    pub(crate) fn add(&mut self, other: Done) {
        self.count += other.count;
        self.counters += other.counters;
        self.misses += other.misses;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.cpu_us += other.cpu_us;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// What one worker measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sampled {
    /// Recorded operations.
    pub operations: u64,
    /// Acknowledged commits, the warm-up included.
    pub commits: u64,
    /// Sessions that were not there.
    pub misses: u64,
    /// Calls that failed, and payloads that are not what was written.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
    /// Time from the first recorded start to the end; in a closed loop without the announcements between requests.
    pub elapsed_ns: u64,
    /// CPU time of the worker meanwhile.
    pub cpu_us: u64,
    /// Latencies in nanoseconds: an HDR histogram, V2, base64.
    pub latency: String,
    /// The part of the latencies in which something extra was done (a sweep); of a stream, all of them once more, but
    /// from the call instead of the moment when it was due.
    pub latency_extra: Option<String>,
    /// The leases, if asked for.
    pub leases: Vec<LeaseTimes>,
    /// Ids of `fresh` that have been used up, counted from its front.
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
