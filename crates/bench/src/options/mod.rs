//! The flags of a run ([`Options`]), and the checked settings that follow from them ([`Settings`]).
//!
//! Every contradiction is found here, before anything is started.

mod applicable;
mod settings;

use std::fmt;

use sessile_core::Durability;
use sessile_scan::Profile;

pub use crate::experiment::{CycleOp, Experiment};
use crate::workload::Workload;
pub(crate) use settings::Settings;

/// The flags as given. `None`: the preset decides.
#[derive(Clone, Debug)]
pub struct Options {
    /// Registry names, `name#variant`, reference rows or URLs; empty for all.
    pub stores: Vec<String>,
    pub workers: Option<Vec<usize>>,
    /// Sessions to fill: one number, several for `scale` and `perl`.
    pub sessions: Option<Vec<usize>>,
    pub payload_bytes: Option<usize>,
    /// Seconds of a sample.
    pub seconds: Option<f64>,
    pub rounds: Option<usize>,
    /// Requests a second of each worker, instead of a closed loop.
    pub rate: Option<f64>,
    /// Whether processors may sleep between paced requests.
    pub let_sleep: bool,
    /// Simulated round trip to a private server, in milliseconds.
    pub round_trip_ms: Option<f64>,
    /// How many times all sessions are rewritten before the rounds.
    pub churn: Option<usize>,
    /// `ops` in the published form.
    pub as_published: bool,
    /// Operations of `cycle` and `scale`.
    pub ops: Option<Vec<CycleOp>>,
    /// Payload sizes of `scale`, and of `cycle` with the workload `profile`.
    pub profile: Option<Profile>,
    /// Seconds that filling a contender may take at each size of `scale`.
    pub fill_max: Option<f64>,
    /// What the requests of `cycle` do, instead of a change each.
    pub workload: Option<Workload>,
    /// Seed of ids, payloads, choices and order.
    pub seed: u64,
    pub quick: bool,
    pub durability: Durability,
    /// A contender without that tier is measured in the nearest one that it has.
    pub nearest_tier: bool,
    pub command: Vec<String>,
}

/// All contenders with the full presets.
impl Default for Options {
    fn default() -> Options {
        Options {
            stores: Vec::new(),
            workers: None,
            sessions: None,
            payload_bytes: None,
            seconds: None,
            rounds: None,
            rate: None,
            let_sleep: false,
            round_trip_ms: None,
            churn: None,
            as_published: false,
            ops: None,
            profile: None,
            fill_max: None,
            workload: None,
            seed: 1,
            quick: false,
            durability: Durability::None,
            nearest_tier: false,
            command: Vec::new(),
        }
    }
}

/// The options contradict each other or name something unknown. One sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options { quick: true, ..Options::default() }
    }

    fn profile() -> Profile {
        let none = r#"{"buckets":[],"unknown":1}"#;
        let sizes = r#"{"from_bytes":32,"below_bytes":64,"entries":1,"bytes":40}"#;
        let text = format!(
            r#"{{"schema":1,"sizes_are":"payload","entries":1,"bytes":40,"sizes":[{sizes}],
            "age":{none},"idle":{none}}}"#
        );
        Profile::parse(&text).unwrap()
    }

    fn assert_refused(wrong: &[(Experiment, Options)]) {
        for (experiment, options) in wrong {
            assert!(options.check(*experiment).is_err(), "{experiment:?} {options:?}");
        }
    }

    #[test]
    fn flags_out_of_range_and_flags_without_meaning_are_refused() {
        assert_refused(&[
            (Experiment::Cycle, Options { workers: Some(vec![0]), ..options() }),
            (Experiment::Cycle, Options { workers: Some(vec![]), ..options() }),
            (Experiment::Cycle, Options { sessions: Some(vec![0]), ..options() }),
            (Experiment::Cycle, Options { rounds: Some(0), ..options() }),
            (Experiment::Cycle, Options { seconds: Some(0.0), ..options() }),
            (Experiment::Cycle, Options { seconds: Some(f64::NAN), ..options() }),
            (Experiment::Cycle, Options { payload_bytes: Some(8), ..options() }),
            (Experiment::Cycle, Options { payload_bytes: Some(1 << 40), ..options() }),
            (Experiment::Cycle, Options { rate: Some(0.0), ..options() }),
            (Experiment::Cycle, Options { churn: Some(1_000_000), ..options() }),
            (Experiment::Cycle, Options { ops: Some(Vec::new()), ..options() }),
            (Experiment::Ops, Options { rate: Some(50.0), ..options() }),
            (Experiment::Ops, Options { churn: Some(1), ..options() }),
            (Experiment::Gc, Options { ops: Some(vec![CycleOp::Peek]), ..options() }),
            (Experiment::Cycle, Options { sessions: Some(vec![1, 2]), ..options() }),
            (Experiment::Cycle, Options { profile: Some(profile()), ..options() }),
            (Experiment::Scale, Options { sessions: Some(vec![]), ..options() }),
            (Experiment::Scale, Options { rate: Some(5.0), ..options() }),
            (Experiment::Scale, Options { fill_max: Some(0.0), ..options() }),
            (Experiment::Cycle, Options { fill_max: Some(5.0), ..options() }),
            (Experiment::Ops, Options { workload: Some(Workload::Shop), ..options() }),
            (Experiment::Cycle, Options { workload: Some(Workload::Profile), ..options() }),
            (
                Experiment::Cycle,
                Options { workload: Some(Workload::Shop), payload_bytes: Some(500), ..options() },
            ),
            (
                Experiment::Cycle,
                Options { workload: Some(Workload::Shop), profile: Some(profile()), ..options() },
            ),
        ]);
    }

    #[test]
    fn flags_that_contradict_the_experiment_are_refused() {
        assert_refused(&[
            (Experiment::Contention, Options { workers: Some(vec![1]), ..options() }),
            (Experiment::Contention, Options { sessions: Some(vec![5]), ..options() }),
            (Experiment::Contention, Options { rate: Some(0.0), ..options() }),
            (Experiment::Gc, Options { workers: Some(vec![8]), ..options() }),
            (Experiment::Lifecycle, Options { payload_bytes: Some(100), ..options() }),
            (Experiment::Lifecycle, Options { seconds: Some(1.0), ..options() }),
            (
                Experiment::Lifecycle,
                Options { workers: Some(vec![8]), sessions: Some(vec![7]), ..options() },
            ),
            (Experiment::Lifecycle, Options { as_published: true, ..options() }),
            (Experiment::Lifecycle, Options { churn: Some(1), ..options() }),
            (Experiment::Lifecycle, Options { ops: Some(vec![CycleOp::Peek]), ..options() }),
            (Experiment::Perl, Options { as_published: true, ..options() }),
            (Experiment::Perl, Options { churn: Some(1), ..options() }),
            (Experiment::Perl, Options { ops: Some(vec![CycleOp::Peek]), ..options() }),
            (Experiment::Perl, Options { workers: Some(vec![2]), ..options() }),
            (Experiment::Perl, Options { seconds: Some(1.0), ..options() }),
            (Experiment::Perl, Options { round_trip_ms: Some(1.0), ..options() }),
            (Experiment::Perl, Options { payload_bytes: Some(199), ..options() }),
            (Experiment::Perl, Options { sessions: Some(vec![100_001]), ..options() }),
            (Experiment::Oversize, Options { workers: Some(vec![8]), ..options() }),
            (Experiment::Oversize, Options { payload_bytes: Some(1_500), ..options() }),
            (Experiment::Faults, Options { workers: Some(vec![2, 4]), ..options() }),
            (Experiment::Faults, Options { sessions: Some(vec![8]), ..options() }),
            (Experiment::Faults, Options { rate: Some(5.0), ..options() }),
            (Experiment::Rebuild, Options { seconds: Some(1.0), ..options() }),
            (Experiment::Rebuild, Options { workers: Some(vec![1, 4]), ..options() }),
            (Experiment::Rebuild, Options { sessions: Some(vec![3]), ..options() }),
            (Experiment::Rebuild, Options { workers: Some(vec![41]), ..options() }),
        ]);
    }

    /// It was taken, and changed nothing.
    #[test]
    fn processors_may_sleep_only_where_requests_have_pauses() {
        use Experiment::{
            Contention, Cycle, Faults, Gc, Lifecycle, Ops, Oversize, Perl, Rebuild, Scale,
        };
        let options = || Options { let_sleep: true, ..options() };
        let refused = |experiment: Experiment, options: Options| {
            options.check(experiment).is_err_and(|error| error.0.contains("--let-sleep is for"))
        };
        for experiment in [Cycle, Ops, Scale, Oversize, Faults, Rebuild, Lifecycle, Perl] {
            assert!(refused(experiment, options()), "{experiment:?}");
        }
        for experiment in [Contention, Gc] {
            assert!(options().check(experiment).unwrap().let_sleep, "{experiment:?}");
        }
        let (rate, round_trip_ms) = (Some(250.0), Some(0.3));
        assert!(Options { rate, ..options() }.check(Cycle).unwrap().let_sleep);
        assert!(Options { round_trip_ms, ..options() }.check(Ops).unwrap().let_sleep);
    }

    #[test]
    fn a_flag_overrides_the_preset() {
        let settings =
            Options { sessions: Some(vec![7]), workers: Some(vec![8, 1, 8]), ..options() };
        let settings = settings.check(Experiment::Cycle).unwrap();
        assert_eq!((settings.sessions, settings.workers, settings.rounds), (7, vec![1, 8], 3));
        let settings = Options { sessions: Some(vec![9, 3, 9]), ..options() }
            .check(Experiment::Scale)
            .unwrap();
        assert_eq!(settings.sizes, [3, 9]);
        assert_eq!(settings.workers.first(), Some(&1));
    }
}
