//! The names of the experiments, and of the operations of `cycle` and `scale`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Create, read and change, each on its own.
    Ops,
    /// Locked requests one after the other.
    Cycle,
    /// All workers on one session.
    Contention,
    /// Effect of removing expired sessions on requests.
    Gc,
    /// The cycle with growing numbers of sessions.
    Scale,
    /// The whole life of a session in one request to a web server.
    Lifecycle,
    /// Sessions in PHP, Python, Node and Perl, each in its own runtime.
    Languages,
    /// Payloads of 0.5 to 8 MB: stored, refused or lost.
    Oversize,
    /// Killed workers and servers: what is lost or stuck, and for how long.
    Faults,
    /// A page that rebuilds its cache entry on each view because the save was lost.
    Rebuild,
}

impl Experiment {
    pub const ALL: &[Experiment] = &[
        Experiment::Ops,
        Experiment::Cycle,
        Experiment::Contention,
        Experiment::Gc,
        Experiment::Scale,
        Experiment::Lifecycle,
        Experiment::Languages,
        Experiment::Oversize,
        Experiment::Faults,
        Experiment::Rebuild,
    ];

    pub fn from_name(name: &str) -> Option<Experiment> {
        Experiment::ALL.iter().copied().find(|experiment| experiment.name() == name)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Experiment::Ops => "ops",
            Experiment::Cycle => "cycle",
            Experiment::Contention => "contention",
            Experiment::Gc => "gc",
            Experiment::Scale => "scale",
            Experiment::Lifecycle => "lifecycle",
            Experiment::Languages => "languages",
            Experiment::Oversize => "oversize",
            Experiment::Faults => "faults",
            Experiment::Rebuild => "rebuild",
        }
    }
}

/// The operation of `contention` in which workers go as fast as they can.
pub const CLOSED_LOOP: &str = "closed-loop";

/// An experiment with the flags of its form: `ops --as-published`.
pub fn title(experiment: &str, flags: &str) -> String {
    [experiment, flags].join(" ").trim_end().to_owned()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CycleOp {
    /// Begin, read, change, commit.
    Cycle,
    /// Read without a lock.
    Peek,
}

impl CycleOp {
    pub const fn name(self) -> &'static str {
        match self {
            CycleOp::Cycle => "cycle",
            CycleOp::Peek => "peek",
        }
    }

    pub fn from_name(name: &str) -> Option<CycleOp> {
        [CycleOp::Cycle, CycleOp::Peek].into_iter().find(|op| op.name() == name)
    }
}
