//! The flags of a run ([`Options`]), and the checked settings that follow from them ([`Settings`]).
//!
//! Every contradiction is found here, before anything is started.

mod settings;

use std::path::PathBuf;

use sessile_core::Durability;
use sessile_results::Workload;
use sessile_scan::Profile;

pub use sessile_results::{CycleOp, Experiment};
pub(crate) use settings::Settings;

/// The flags as given. `None`: the preset decides.
#[derive(Clone, Debug)]
pub struct Options {
    /// Registry names, `name#variant`, reference rows or URLs; empty for all.
    pub stores: Vec<String>,
    pub workers: Option<Vec<usize>>,
    /// Sessions to fill: one number, several for `scale`.
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
    /// `ops` in the published form.
    pub as_published: bool,
    /// A copy of Drupal 7, whose pages `lifecycle` measures.
    pub drupal: Option<PathBuf>,
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
    /// A contender that has no tier as strong is measured in its strongest one, not left out.
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
            as_published: false,
            drupal: None,
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

    #[test]
    fn flags_out_of_range_and_flags_that_contradict_each_other_are_refused() {
        use Experiment::{Contention, Cycle, Faults, Lifecycle, Rebuild, Scale};
        let workload = Some(Workload::Shop);
        for (experiment, options) in [
            (Cycle, Options { workers: Some(vec![0]), ..options() }),
            (Cycle, Options { workers: Some(vec![]), ..options() }),
            (Cycle, Options { sessions: Some(vec![0]), ..options() }),
            (Cycle, Options { rounds: Some(0), ..options() }),
            (Cycle, Options { seconds: Some(0.0), ..options() }),
            (Cycle, Options { seconds: Some(f64::NAN), ..options() }),
            (Cycle, Options { payload_bytes: Some(8), ..options() }),
            (Cycle, Options { payload_bytes: Some(1 << 40), ..options() }),
            (Cycle, Options { rate: Some(0.0), ..options() }),
            (Cycle, Options { sessions: Some(vec![1, 2]), ..options() }),
            (Cycle, Options { profile: Some(profile()), ..options() }),
            (Cycle, Options { profile: Some(profile()), workload, ..options() }),
            (Cycle, Options { let_sleep: true, ..options() }),
            (Cycle, Options { rate: Some(0.5), seconds: Some(1.5), ..options() }),
            (Contention, Options { seconds: Some(0.01), ..options() }),
            (Scale, Options { sessions: Some(vec![]), ..options() }),
            (Scale, Options { fill_max: Some(0.0), ..options() }),
            (Contention, Options { workers: Some(vec![1]), ..options() }),
            (Contention, Options { rate: Some(0.0), ..options() }),
            (Lifecycle, Options { workers: Some(vec![8]), sessions: Some(vec![7]), ..options() }),
            (Faults, Options { workers: Some(vec![2, 4]), ..options() }),
            (Rebuild, Options { workers: Some(vec![1, 4]), ..options() }),
            (Rebuild, Options { sessions: Some(vec![3]), ..options() }),
            (Rebuild, Options { workers: Some(vec![41]), ..options() }),
        ] {
            assert!(options.check(experiment).is_err(), "{experiment:?} {options:?}");
        }
    }

    /// All rows failed with "no operation succeeded", and `recommend` excluded their stores.
    #[test]
    fn a_sample_in_which_no_request_is_due_is_refused_by_the_names_of_both_flags() {
        let of = |rate, seconds| {
            Options { rate: Some(rate), seconds: Some(seconds), ..options() }
                .check(Experiment::Cycle)
        };
        let why = of(0.5, 1.5).unwrap_err().0;
        assert!(why.contains("--rate 0.5") && why.contains("--duration 1.5s"), "{why}");
        assert!(of(0.5, 2.0).is_ok());
    }

    /// `--op cycle,cycle` measured each contender twice.
    #[test]
    fn an_operation_that_is_named_twice_is_measured_once() {
        let ops = Some(vec![CycleOp::Peek, CycleOp::Cycle, CycleOp::Peek]);
        let settings = Options { ops, ..options() }.check(Experiment::Cycle).unwrap();
        assert_eq!(settings.ops, [CycleOp::Peek, CycleOp::Cycle]);
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
