//! What can be asked for: the names of the experiments, and of the operations of `cycle` and `scale`.

/// Which experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Create, read and change, each on its own.
    Ops,
    /// One locked request after the other.
    Cycle,
    /// All workers on one session.
    Contention,
    /// What removing expired sessions does to requests.
    Gc,
    /// The cycle with more and more sessions.
    Scale,
    /// A steady stream of requests, some of which meet an expired session.
    Expiry,
    /// The whole life of a session in one request to a web server.
    Lifecycle,
    /// Sessions in Perl: open, ten reads and ten writes, close.
    Perl,
    /// Payloads of half a megabyte to eight: stored, refused or lost.
    Oversize,
    /// Workers and servers that are killed: what is lost, what is stuck, how long it takes.
    Faults,
    /// A page that builds its cache entry on each view, because the save was lost.
    Rebuild,
}

impl Experiment {
    /// Every one.
    pub const ALL: &[Experiment] = &[
        Experiment::Ops,
        Experiment::Cycle,
        Experiment::Contention,
        Experiment::Gc,
        Experiment::Scale,
        Experiment::Expiry,
        Experiment::Lifecycle,
        Experiment::Perl,
        Experiment::Oversize,
        Experiment::Faults,
        Experiment::Rebuild,
    ];

    /// The experiment of this name.
    pub fn from_name(name: &str) -> Option<Experiment> {
        Experiment::ALL.iter().copied().find(|experiment| experiment.name() == name)
    }

    /// The word in results.
    pub const fn name(self) -> &'static str {
        match self {
            Experiment::Ops => "ops",
            Experiment::Cycle => "cycle",
            Experiment::Contention => "contention",
            Experiment::Gc => "gc",
            Experiment::Scale => "scale",
            Experiment::Expiry => "expiry",
            Experiment::Lifecycle => "lifecycle",
            Experiment::Perl => "perl",
            Experiment::Oversize => "oversize",
            Experiment::Faults => "faults",
            Experiment::Rebuild => "rebuild",
        }
    }
}

/// An experiment with the flags that tell one form of it from another, as one text: `ops --as-published`. The plain form has no
/// flags.
pub(crate) fn title(experiment: &str, flags: &str) -> String {
    [experiment, flags].join(" ").trim_end().to_owned()
}

/// What a worker does with a session in `cycle` and `scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CycleOp {
    /// Begin exclusively, read, change, commit.
    Cycle,
    /// Read without a lock.
    Peek,
}

impl CycleOp {
    /// The word in `--op` and in results.
    pub const fn name(self) -> &'static str {
        match self {
            CycleOp::Cycle => "cycle",
            CycleOp::Peek => "peek",
        }
    }

    /// The operation of this name.
    pub fn from_name(name: &str) -> Option<CycleOp> {
        [CycleOp::Cycle, CycleOp::Peek].into_iter().find(|op| op.name() == name)
    }
}
