//! Which flags apply to which experiment.
//!
//! Invariant: a flag that would change nothing is refused with a sentence that says where it
//! applies. Ranges of values are checked by [`super::settings`].

use super::{Options, UsageError};
use crate::experiment::Experiment;
use crate::workload::Workload;

impl Options {
    pub(super) fn check_applicable(
        &self,
        experiment: Experiment,
        workers: &[usize],
    ) -> Result<(), UsageError> {
        use Experiment::{Cycle, Lifecycle, Ops, Perl, Scale};
        if let Some(why) = self.conflict(experiment, workers) {
            return Err(UsageError(why.to_owned()));
        }
        let name = experiment.name();
        let cycles = matches!(experiment, Cycle | Scale);
        let why = match experiment {
            Ops | Scale if self.rate.is_some() => {
                format!("{name} is a closed loop; --rate is for cycle, contention and gc")
            }
            _ if self.churn.is_some() && experiment != Cycle => {
                format!("{name} rewrites nothing beforehand; --churn is for cycle")
            }
            _ if self.as_published && experiment != Ops => {
                format!("only ops has a published form; leave --as-published out of {name}")
            }
            _ if self.ops.is_some() && !cycles => {
                format!("{name} has its own operations; --op is for cycle and scale")
            }
            _ if self.ops.as_ref().is_some_and(Vec::is_empty) => {
                "--op takes cycle, peek or both".to_owned()
            }
            Lifecycle | Perl => return self.check_fixed_flags(experiment),
            _ => return Ok(()),
        };
        Err(UsageError(why))
    }

    /// What the flags contradict in this experiment.
    fn conflict(&self, experiment: Experiment, workers: &[usize]) -> Option<&'static str> {
        use Experiment::{Contention, Faults, Gc, Oversize, Perl, Rebuild};
        let seconds_or_rate = self.seconds.is_some() || self.rate.is_some();
        match experiment {
            Gc if workers != [1] => {
                Some("gc measures one worker beside the sweeping one; --workers can only be 1")
            }
            Perl if workers != [1] => Some("perl has one process; leave --workers out"),
            Oversize if workers != [1] || self.sessions.is_some() => Some(
                "oversize measures one session of one worker; leave --workers and --sessions out",
            ),
            Oversize if self.payload_bytes.is_some() || seconds_or_rate => Some(
                "oversize has its own payload sizes and counts rounds; leave --payload, --seconds \
                 and --rate out",
            ),
            Faults if workers.len() != 1 || self.sessions.is_some() || self.rate.is_some() => Some(
                "faults takes one number of workers and has its own sessions; leave --sessions and \
                 --rate out",
            ),
            Rebuild if workers.len() != 1 || seconds_or_rate || self.round_trip_ms.is_some() => {
                Some(
                    "rebuild takes one number of parallel views (--workers), views (--sessions) \
                     and --payload",
                )
            }
            Contention if workers.contains(&1) => {
                Some("one worker has no contention; give contention --workers 2 or more")
            }
            Contention if self.sessions.as_ref().is_some_and(|sessions| *sessions != [1]) => {
                Some("contention is about one session; --sessions can only be 1")
            }
            _ => None,
        }
    }

    fn check_fixed_flags(&self, experiment: Experiment) -> Result<(), UsageError> {
        let flags = [
            ("--payload", self.payload_bytes.is_some() && experiment == Experiment::Lifecycle),
            ("--seconds", self.seconds.is_some()),
            ("--rate", self.rate.is_some()),
            ("--round-trip", self.round_trip_ms.is_some()),
            ("--profile", self.profile.is_some()),
        ];
        let Some((flag, _)) = flags.iter().find(|(_, given)| *given) else { return Ok(()) };
        let takes = if experiment == Experiment::Lifecycle {
            "--workers and --sessions"
        } else {
            "--payload and --sessions"
        };
        Err(UsageError(format!("{} has no {flag}; it takes {takes}", experiment.name())))
    }

    /// Only `scale` takes sizes of a profile and limits the time of filling.
    pub(super) fn check_sizes(&self, experiment: Experiment) -> Result<(), UsageError> {
        let (name, is_scale) = (experiment.name(), experiment == Experiment::Scale);
        if self.fill_max.is_some() && !is_scale {
            let why = "fills all sessions, however long that takes; --fill-max is for scale";
            return Err(UsageError(format!("{name} {why}")));
        }
        if let Some(workload) = self.workload {
            return self.check_workload(workload, experiment);
        }
        if self.profile.is_some() && !is_scale {
            let why = "have one size; --profile is for scale and for cycle --workload profile";
            return Err(UsageError(format!("the payloads of {name} {why}")));
        }
        Ok(())
    }

    /// A workload fixes sizes and requests; only `profile` takes its sizes from a file.
    fn check_workload(&self, workload: Workload, experiment: Experiment) -> Result<(), UsageError> {
        let why = match workload {
            _ if experiment != Experiment::Cycle => {
                format!("{} has its own requests; --workload is for cycle", experiment.name())
            }
            _ if self.payload_bytes.is_some() || self.ops.is_some() => {
                "a workload has its own payloads and requests; leave --payload and --op out"
                    .to_owned()
            }
            Workload::Profile if self.profile.is_none() => {
                "the workload profile takes its sizes from a file of `sessile scan \
                 --export-profile`: give --profile FILE"
                    .to_owned()
            }
            Workload::Shop | Workload::Bots if self.profile.is_some() => {
                "a workload has its own payloads; --profile is for the workload profile".to_owned()
            }
            _ => return Ok(()),
        };
        Err(UsageError(why))
    }

    /// A closed loop leaves no time to sleep.
    pub(super) fn check_pauses(
        &self,
        experiment: Experiment,
        rate: Option<f64>,
    ) -> Result<(), UsageError> {
        if !self.let_sleep || rate.is_some() || self.round_trip_ms.is_some() {
            return Ok(());
        }
        let name = experiment.name();
        Err(UsageError(format!(
            "{name} works without a pause here; --let-sleep is for contention, gc, cycle --rate, \
             and --round-trip"
        )))
    }
}

/// The load generator needs at least one request for each parallel connection.
pub(super) fn check_requests(
    experiment: Experiment,
    parallel: &[usize],
    requests: usize,
) -> Result<(), UsageError> {
    let by_web_server = matches!(experiment, Experiment::Lifecycle | Experiment::Rebuild);
    let most = parallel.iter().max().filter(|most| by_web_server && requests < **most);
    most.map_or(Ok(()), |most| {
        Err(UsageError(format!(
            "{most} parallel requests (--workers) exceed the {requests} requests (--sessions); \
             give {} at least --sessions {most}, or fewer --workers",
            experiment.name()
        )))
    })
}
