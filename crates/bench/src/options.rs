//! What the user asked for, and whether it makes sense.
//!
//! [`Options`] are the flags as given; [`Settings`] are complete and checked. Every contradiction is found
//! here, before anything is started.

use std::fmt;
use std::time::Duration;

use sessile_core::Durability;

pub use crate::experiment::{CycleOp, Experiment};
use crate::experiments::perl;
use crate::payload::PAYLOAD_BYTES_MIN;
use crate::presets::{Preset, preset, up_to_processors};
use crate::spread::Spread;
use crate::traffic::Workload;
use crate::workload::{FAULTS_LOCK_TTL, LONG_TTL, PAYLOAD_BYTES, PAYLOAD_BYTES_MAX, REGISTRY_BYTES, SESSION_TTL};

/// The flags. `None` is: the preset decides.
#[derive(Clone, Debug)]
pub struct Options {
    /// Registry names, `name#variant`, names of reference rows, or URLs; empty for all.
    pub stores: Vec<String>,
    /// Numbers of workers.
    pub workers: Option<Vec<usize>>,
    /// Sessions that are filled in: one number, several for `scale` and `perl`.
    pub sessions: Option<Vec<usize>>,
    /// Payload size.
    pub payload_bytes: Option<usize>,
    /// Length of a sample.
    pub seconds: Option<f64>,
    /// Rounds.
    pub rounds: Option<usize>,
    /// Requests a second of each worker, in place of a closed loop.
    pub rate: Option<f64>,
    /// Processors may go to sleep between paced requests.
    pub let_sleep: bool,
    /// How long a round trip to a private server takes, in milliseconds.
    pub round_trip_ms: Option<f64>,
    /// Before the rounds, this many times the number of sessions is rewritten.
    pub churn: Option<usize>,
    /// `ops` as it was published, with what that timed besides the stores.
    pub as_published: bool,
    /// What `cycle` and `scale` measure.
    pub ops: Option<Vec<CycleOp>>,
    /// Payload spreads of `scale`.
    pub spreads: Option<Vec<Spread>>,
    /// How long filling one contender may take at each size of `scale`, in seconds.
    pub fill_max: Option<f64>,
    /// What the requests of `cycle` do, in place of a change each.
    pub workload: Option<Workload>,
    /// Seed of ids, payloads, choices and order.
    pub seed: u64,
    /// The preset of minutes.
    pub quick: bool,
    /// The tier.
    pub durability: Durability,
    /// The command line, for the result.
    pub command: Vec<String>,
}

/// No flag is given: all that can run, with the full presets.
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
            spreads: None,
            fill_max: None,
            workload: None,
            seed: 1,
            quick: false,
            durability: Durability::None,
            command: Vec::new(),
        }
    }
}

/// Complete and checked.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub experiment: Experiment,
    pub workers: Vec<usize>,
    /// Sessions that are filled in now.
    pub sessions: usize,
    /// All that `scale` and `perl` go through.
    pub sizes: Vec<usize>,
    pub payload_bytes: usize,
    /// How payload sizes differ now.
    pub spread: Spread,
    pub spreads: Vec<Spread>,
    /// `None`: filling may take as long as it takes.
    pub fill_max: Option<Duration>,
    pub workload: Option<Workload>,
    pub seconds: f64,
    pub warm_up_seconds: f64,
    pub rounds: usize,
    /// `None`: closed loop.
    pub rate: Option<f64>,
    pub let_sleep: bool,
    /// To private servers.
    pub round_trip: Option<Duration>,
    pub churn: usize,
    pub as_published: bool,
    pub ops: Vec<CycleOp>,
    pub seed: u64,
    /// Time to live of the sessions.
    pub ttl: Duration,
    /// How long locks last in private stores where they end with time; `None` for what is usual there.
    pub lock_ttl: Option<Duration>,
    pub durability: Durability,
}

/// The options contradict each other or name what does not exist. One sentence, for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

const WORKERS_MAX: usize = 256;
const SESSIONS_MAX: usize = 100_000_000;
/// Their values go through a pipe.
const SESSIONS_OF_PERL_MAX: usize = 100_000;
const ROUNDS_MAX: usize = 1_000;
const SECONDS_MAX: f64 = 3_600.0;
const RATE_MAX: f64 = 1_000_000.0;
const ROUND_TRIP_MS_MAX: f64 = 1_000.0;
const CHURN_MAX: usize = 1_000;
/// As long as any task of a worker.
const FILL_SECONDS_MAX: f64 = 3_600.0;

impl Options {
    pub(crate) fn check(&self, experiment: Experiment) -> Result<Settings, UsageError> {
        let preset = preset(experiment, self.quick);
        let preset_workers = || if preset.workers.is_empty() { up_to_processors() } else { preset.workers.to_vec() };
        let mut workers = self.workers.clone().unwrap_or_else(preset_workers);
        workers.sort_unstable();
        workers.dedup();
        if workers.is_empty() || workers.iter().any(|count| !(1..=WORKERS_MAX).contains(count)) {
            return Err(UsageError(format!("--workers takes numbers from 1 to {WORKERS_MAX}, for example 1,8")));
        }
        self.check_applicable(experiment, &workers)?;
        self.check_sizes(experiment)?;
        let payload_bytes = self.payload(experiment);
        let in_perl = experiment == Experiment::Perl;
        let payload_bytes_min = if in_perl { perl::PAYLOAD_BYTES_MIN } else { PAYLOAD_BYTES_MIN };
        in_range("--payload", payload_bytes, payload_bytes_min, PAYLOAD_BYTES_MAX)?;
        let of_workload = self.workload.and_then(Workload::sessions).map(|sessions| vec![sessions]);
        let mut sizes = self.sessions.clone().or(of_workload).unwrap_or_else(|| preset.sessions.to_vec());
        sizes.sort_unstable();
        sizes.dedup();
        let sessions_min = if matches!(experiment, Experiment::Gc | Experiment::Expiry) { 100 } else { 1 };
        for sessions in &sizes {
            in_range("--sessions", *sessions, sessions_min, if in_perl { SESSIONS_OF_PERL_MAX } else { SESSIONS_MAX })?;
        }
        let sessions = match sizes.as_slice() {
            [sessions] => *sessions,
            [smallest, _, ..] if in_perl || experiment == Experiment::Scale => *smallest,
            _ => return Err(UsageError("--sessions takes one number, or several for scale and perl".to_owned())),
        };
        check_requests(experiment, &workers, sessions)?;
        let rounds = self.rounds.unwrap_or(preset.rounds);
        in_range("--rounds", rounds, 1, ROUNDS_MAX)?;
        if experiment == Experiment::Gc && rounds != 1 {
            return Err(UsageError("gc removes what it measures, so it has one round; leave --rounds out".into()));
        }
        let seconds = self.seconds.unwrap_or(preset.seconds);
        if !in_perl && !matches!(experiment, Experiment::Lifecycle | Experiment::Rebuild) {
            in_range("--seconds", seconds, 0.01, SECONDS_MAX)?;
        }
        let rate = self.rate.or(preset.rate);
        in_range("--rate", rate.unwrap_or(RATE_MAX), 0.1, RATE_MAX)?;
        self.check_pauses(experiment, rate)?;
        in_range("--round-trip", self.round_trip_ms.unwrap_or(ROUND_TRIP_MS_MAX), 0.01, ROUND_TRIP_MS_MAX)?;
        let churn = self.churn.unwrap_or(0);
        in_range("--churn", churn, 0, CHURN_MAX)?;
        in_range("--fill-max", self.fill_max.unwrap_or(FILL_SECONDS_MAX), 0.01, FILL_SECONDS_MAX)?;
        // Sessions must outlive filling, rewriting and rounds, which takes longer than the usual ttl on a slow store.
        let long = churn > 0 || matches!(experiment, Experiment::Scale | Experiment::Expiry | Experiment::Lifecycle);
        Ok(Settings {
            experiment,
            workers,
            sessions,
            sizes,
            payload_bytes,
            spread: Spread::Fixed,
            spreads: self.sizes(&preset),
            fill_max: self.fill_max.or(preset.fill_max).map(Duration::from_secs_f64),
            workload: self.workload,
            seconds,
            warm_up_seconds: (seconds / 5.0).clamp(0.01, 1.0),
            rounds,
            rate,
            let_sleep: self.let_sleep,
            round_trip: self.round_trip_ms.map(|ms| Duration::from_secs_f64(ms / 1e3)),
            churn,
            as_published: self.as_published,
            ops: self.ops.clone().unwrap_or_else(|| vec![CycleOp::Cycle]),
            seed: self.seed,
            ttl: if long { LONG_TTL } else { SESSION_TTL },
            lock_ttl: (experiment == Experiment::Faults).then_some(FAULTS_LOCK_TTL),
            durability: self.durability,
        })
    }

    /// The size of a payload where all have one.
    fn payload(&self, experiment: Experiment) -> usize {
        let usual = if experiment == Experiment::Rebuild { REGISTRY_BYTES } else { PAYLOAD_BYTES };
        self.payload_bytes.or(self.workload.and_then(Workload::payload_bytes)).unwrap_or(usual)
    }

    /// How sizes differ, one after the other.
    fn sizes(&self, preset: &Preset) -> Vec<Spread> {
        match (self.workload, &self.spreads) {
            (Some(workload), spreads) => vec![workload.spread(spreads.iter().flatten().next())],
            (None, Some(spreads)) => spreads.clone(),
            (None, None) => preset.spreads.to_vec(),
        }
    }

    /// Who works without a pause leaves no processor time to sleep.
    fn check_pauses(&self, experiment: Experiment, rate: Option<f64>) -> Result<(), UsageError> {
        if !self.let_sleep || rate.is_some() || self.round_trip_ms.is_some() {
            return Ok(());
        }
        let name = experiment.name();
        Err(UsageError(format!(
            "{name} works without a pause here; --let-sleep is for contention, gc, expiry, cycle --rate, and --round-trip"
        )))
    }

    /// What its page does is published; ab has no other knobs.
    fn check_lifecycle(&self) -> Result<(), UsageError> {
        let foreign = [
            ("--payload", self.payload_bytes.is_some()),
            ("--seconds", self.seconds.is_some()),
            ("--rate", self.rate.is_some()),
            ("--round-trip", self.round_trip_ms.is_some()),
            ("--spread", self.spreads.is_some()),
        ];
        if let Some((flag, _)) = foreign.iter().find(|(_, given)| *given) {
            let why = format!(
                "the page of lifecycle is what it is, {flag} changes nothing; it takes --workers and --sessions"
            );
            return Err(UsageError(why));
        }
        Ok(())
    }

    /// What one session goes through is published, in one process.
    fn check_perl(&self, workers: &[usize]) -> Result<(), UsageError> {
        let foreign = [
            ("--workers", workers != [1]),
            ("--seconds", self.seconds.is_some()),
            ("--rate", self.rate.is_some()),
            ("--round-trip", self.round_trip_ms.is_some()),
            ("--spread", self.spreads.is_some()),
        ];
        let why = |flag| format!("perl has one process, and so many sessions as it has; leave {flag} out");
        let wrong = foreign.iter().find(|(_, given)| *given).map(|(flag, _)| UsageError(why(flag)));
        wrong.map_or(Ok(()), Err)
    }

    /// Refuses flags that say nothing, or something impossible, to this experiment.
    fn check_applicable(&self, experiment: Experiment, workers: &[usize]) -> Result<(), UsageError> {
        use Experiment::{Contention, Cycle, Expiry, Faults, Gc, Lifecycle, Ops, Oversize, Perl, Rebuild, Scale};
        let name = experiment.name();
        let cycles = matches!(experiment, Cycle | Scale);
        let why = match experiment {
            Gc if workers != [1] => {
                "gc measures one worker beside the one that sweeps; --workers can only be 1".to_owned()
            }
            Expiry if workers != [1] => "expiry is about one stream of requests; --workers can only be 1".to_owned(),
            Oversize if workers != [1] || self.sessions.is_some() => {
                "oversize looks at one session of one worker; leave --workers and --sessions out".to_owned()
            }
            Oversize if self.payload_bytes.is_some() || self.seconds.is_some() || self.rate.is_some() => {
                "oversize has sizes of its own and no time; leave --payload, --seconds and --rate out".to_owned()
            }
            Faults if workers.len() != 1 || self.sessions.is_some() || self.rate.is_some() => {
                "faults has one number of workers and sessions of its own; leave --sessions and --rate out".to_owned()
            }
            Rebuild
                if workers.len() != 1
                    || self.seconds.is_some()
                    || self.round_trip_ms.is_some()
                    || self.rate.is_some() =>
            {
                "rebuild takes one number of views at a time (--workers), views (--sessions) and --payload".to_owned()
            }
            Contention if workers.contains(&1) => {
                "one worker has nobody to contend with; give contention --workers 2 or more".to_owned()
            }
            Contention if self.sessions.as_ref().is_some_and(|sessions| *sessions != [1]) => {
                "contention is about one session; --sessions can only be 1".to_owned()
            }
            Ops | Scale if self.rate.is_some() => {
                format!("{name} is a closed loop; --rate is for cycle, contention, gc and expiry")
            }
            _ if self.churn.is_some() && !cycles => {
                format!("{name} rewrites nothing beforehand; --churn is for cycle and scale")
            }
            _ if self.as_published && experiment != Ops => {
                format!("only ops was published like that; leave --as-published out of {name}")
            }
            _ if self.ops.is_some() && !cycles => format!("{name} has its own operations; --op is for cycle and scale"),
            _ if self.ops.as_ref().is_some_and(Vec::is_empty) => "--op takes cycle, peek or both".to_owned(),
            Lifecycle => return self.check_lifecycle(),
            Perl => return self.check_perl(workers),
            _ => return Ok(()),
        };
        Err(UsageError(why))
    }

    /// A workload says what there is to say of sizes and requests, but for the sizes of a store that was scanned.
    fn check_workload(&self, workload: Workload, experiment: Experiment) -> Result<(), UsageError> {
        let has_profile = matches!(self.spreads.as_deref(), Some([Spread::Profile(_)]));
        let why = match workload {
            _ if experiment != Experiment::Cycle => {
                format!("the requests of {} do what they do; --workload is for cycle", experiment.name())
            }
            _ if self.payload_bytes.is_some() || self.ops.is_some() => {
                "a workload has payloads and requests of its own; leave --payload and --op out".to_owned()
            }
            Workload::Profile if !has_profile => {
                "the workload profile has its sizes from a file of `sessile scan --export-profile`: give it --profile FILE \
                 and no --spread"
                    .to_owned()
            }
            Workload::YcsbA | Workload::Shop | Workload::Bots | Workload::BigAdmin if self.spreads.is_some() => {
                "a workload has payloads of its own; leave --spread out, and --profile for all but the one called profile".to_owned()
            }
            _ => return Ok(()),
        };
        Err(UsageError(why))
    }

    /// Only `scale` goes through sizes of payloads, and up to as many sessions as there is time for.
    fn check_sizes(&self, experiment: Experiment) -> Result<(), UsageError> {
        let (name, is_scale) = (experiment.name(), experiment == Experiment::Scale);
        if self.fill_max.is_some() && !is_scale {
            let why = "fills in as many sessions as it is told, however long that takes; --fill-max is for scale";
            return Err(UsageError(format!("{name} {why}")));
        }
        if let Some(workload) = self.workload {
            return self.check_workload(workload, experiment);
        }
        let why = match &self.spreads {
            Some(_) if !is_scale => {
                format!("the payloads of {name} have one size; --spread and --profile are for scale")
            }
            Some(spreads) if spreads.is_empty() => "--spread takes fixed, lognormal or both".to_owned(),
            _ => return Ok(()),
        };
        Err(UsageError(why))
    }
}

/// Its load generator has as many requests under way at once as there are workers, and makes no more than there are sessions.
fn check_requests(experiment: Experiment, parallel: &[usize], requests: usize) -> Result<(), UsageError> {
    let by_web_server = matches!(experiment, Experiment::Lifecycle | Experiment::Rebuild);
    let most = parallel.iter().max().filter(|most| by_web_server && requests < **most);
    most.map_or(Ok(()), |most| {
        Err(UsageError(format!(
            "{most} requests at a time (--workers) need one each to make, and --sessions is {requests}; give {} at least \
             --sessions {most}, or fewer --workers",
            experiment.name()
        )))
    })
}

fn in_range<T: PartialOrd + fmt::Display>(flag: &str, value: T, least: T, most: T) -> Result<(), UsageError> {
    if value >= least && value <= most {
        return Ok(());
    }
    Err(UsageError(format!("{flag} is {value}, but must lie between {least} and {most}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options { quick: true, ..Options::default() }
    }

    #[test]
    fn flags_that_make_no_sense_are_refused() {
        let wrong = [
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
            (Experiment::Cycle, Options { spreads: Some(vec![Spread::LogNormal]), ..options() }),
            (Experiment::Scale, Options { sessions: Some(vec![]), ..options() }),
            (Experiment::Scale, Options { spreads: Some(vec![]), ..options() }),
            (Experiment::Scale, Options { rate: Some(5.0), ..options() }),
            (Experiment::Scale, Options { fill_max: Some(0.0), ..options() }),
            (Experiment::Cycle, Options { fill_max: Some(5.0), ..options() }),
            (Experiment::Ops, Options { workload: Some(Workload::Shop), ..options() }),
            (Experiment::Cycle, Options { workload: Some(Workload::Profile), ..options() }),
            (Experiment::Cycle, Options { workload: Some(Workload::Shop), payload_bytes: Some(500), ..options() }),
            (
                Experiment::Cycle,
                Options { workload: Some(Workload::Shop), spreads: Some(vec![Spread::Fixed]), ..options() },
            ),
            (Experiment::Expiry, Options { workers: Some(vec![2]), ..options() }),
            (Experiment::Contention, Options { workers: Some(vec![1]), ..options() }),
            (Experiment::Contention, Options { sessions: Some(vec![5]), ..options() }),
            (Experiment::Contention, Options { rate: Some(0.0), ..options() }),
            (Experiment::Gc, Options { workers: Some(vec![8]), ..options() }),
            (Experiment::Gc, Options { rounds: Some(3), ..options() }),
            (Experiment::Lifecycle, Options { payload_bytes: Some(100), ..options() }),
            (Experiment::Lifecycle, Options { seconds: Some(1.0), ..options() }),
            (Experiment::Lifecycle, Options { workers: Some(vec![8]), sessions: Some(vec![7]), ..options() }),
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
        ];
        for (experiment, options) in wrong {
            assert!(options.check(experiment).is_err(), "{experiment:?} {options:?}");
        }
    }

    /// It was taken, and changed nothing.
    #[test]
    fn processors_may_sleep_only_where_requests_have_pauses() {
        use Experiment::{Contention, Cycle, Expiry, Faults, Gc, Lifecycle, Ops, Oversize, Perl, Rebuild, Scale};
        let options = || Options { let_sleep: true, ..options() };
        let refused = |experiment: Experiment, options: Options| {
            options.check(experiment).is_err_and(|error| error.0.contains("--let-sleep is for"))
        };
        for experiment in [Cycle, Ops, Scale, Oversize, Faults, Rebuild, Lifecycle, Perl] {
            assert!(refused(experiment, options()), "{experiment:?}");
        }
        for experiment in [Contention, Gc, Expiry] {
            assert!(options().check(experiment).unwrap().let_sleep, "{experiment:?}");
        }
        let (rate, round_trip_ms) = (Some(250.0), Some(0.3));
        assert!(Options { rate, ..options() }.check(Cycle).unwrap().let_sleep);
        assert!(Options { round_trip_ms, ..options() }.check(Ops).unwrap().let_sleep);
    }

    #[test]
    fn a_flag_overrides_the_preset() {
        let settings = Options { sessions: Some(vec![7]), workers: Some(vec![8, 1, 8]), ..options() };
        let settings = settings.check(Experiment::Cycle).unwrap();
        assert_eq!((settings.sessions, settings.workers, settings.rounds), (7, vec![1, 8], 3));
        let settings = Options { sessions: Some(vec![9, 3, 9]), ..options() }.check(Experiment::Scale).unwrap();
        assert_eq!(settings.sizes, [3, 9]);
        assert_eq!(settings.workers.first(), Some(&1));
    }
}
