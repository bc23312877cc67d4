//! Complete settings, from flags and presets.
//!
//! Invariant: every value is within its range.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use sessile_core::Durability;
use sessile_results::{CycleOp, Experiment, UsageError, Workload};

use super::Options;
use crate::defaults::{
    FAULTS_LOCK_TTL, LONG_TTL, PAYLOAD_BYTES, PAYLOAD_BYTES_MAX, REGISTRY_BYTES, SESSION_TTL,
};
use crate::experiments::lifecycle::drupal;
use crate::payload::PAYLOAD_BYTES_MIN;
use crate::payload_spread::PayloadSpread;
use crate::presets::{Preset, preset, up_to_processors};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub experiment: Experiment,
    pub workers: Vec<usize>,
    /// Sessions of the current size.
    pub sessions: usize,
    /// All sizes of `scale`.
    pub sizes: Vec<usize>,
    pub payload_bytes: usize,
    pub spread: PayloadSpread,
    /// `None`: no limit.
    pub fill_max: Option<Duration>,
    pub workload: Option<Workload>,
    pub seconds: f64,
    pub warm_up_seconds: f64,
    pub rounds: usize,
    /// `None`: closed loop.
    pub rate: Option<f64>,
    pub let_sleep: bool,
    /// Delay to private servers.
    pub round_trip: Option<Duration>,
    pub as_published: bool,
    pub drupal: Option<PathBuf>,
    pub ops: Vec<CycleOp>,
    pub seed: u64,
    pub quick: bool,
    pub ttl: Duration,
    /// Lock ttl of private stores whose locks expire; `None`: their default.
    pub lock_ttl: Option<Duration>,
    pub durability: Durability,
}

const WORKERS_MAX: usize = 256;
const SESSIONS_MAX: usize = 100_000_000;
const ROUNDS_MAX: usize = 1_000;
const SECONDS_MAX: f64 = 3_600.0;
const RATE_MAX: f64 = 1_000_000.0;
const ROUND_TRIP_MS_MAX: f64 = 1_000.0;
/// As long as any task of a worker.
const FILL_SECONDS_MAX: f64 = 3_600.0;

impl Options {
    pub(crate) fn check(&self, experiment: Experiment) -> Result<Settings, UsageError> {
        let preset = preset(experiment, self.quick);
        let workers = self.worker_counts(&preset)?;
        self.check_contradictions(experiment, &workers)?;
        let drupal = self.drupal.as_deref().map(drupal::check).transpose()?;
        let payload_bytes = self.payload(experiment)?;
        let sizes = self.session_counts(experiment, &preset)?;
        // The first size: the only one, or the smallest.
        let sessions = sizes.first().copied().unwrap_or_default();
        check_requests(experiment, &workers, sessions)?;
        let rounds = self.rounds.unwrap_or(preset.rounds);
        in_range("--rounds", rounds, 1, ROUNDS_MAX)?;
        let seconds = self.seconds.unwrap_or(preset.seconds);
        if preset.seconds > 0.0 {
            in_range_of("--duration", seconds, 0.01, SECONDS_MAX, "s")?;
        }
        let rate = self.rate.or(preset.rate);
        in_range("--rate", rate.unwrap_or(RATE_MAX), 0.1, RATE_MAX)?;
        if preset.seconds > 0.0 {
            check_requests_due(rate, seconds)?;
        }
        let round_trip_ms = self.round_trip_ms.unwrap_or(ROUND_TRIP_MS_MAX);
        in_range_of("--round-trip", round_trip_ms, 0.01, ROUND_TRIP_MS_MAX, "ms")?;
        let fill_seconds = self.fill_max.unwrap_or(FILL_SECONDS_MAX);
        in_range_of("--fill-max", fill_seconds, 0.01, FILL_SECONDS_MAX, "s")?;
        // Sessions must outlive filling and rounds, which can exceed the usual ttl on a slow store.
        let long = matches!(experiment, Experiment::Scale | Experiment::Lifecycle);
        Ok(Settings {
            experiment,
            workers,
            sessions,
            sizes,
            payload_bytes,
            spread: self.spread(),
            fill_max: self.fill_max.or(preset.fill_max).map(Duration::from_secs_f64),
            workload: self.workload,
            seconds,
            warm_up_seconds: (seconds / 5.0).clamp(0.01, 1.0),
            rounds,
            rate,
            let_sleep: self.let_sleep,
            round_trip: self.round_trip_ms.map(|ms| Duration::from_secs_f64(ms / 1e3)),
            as_published: self.as_published,
            drupal,
            ops: each_once(self.ops.clone().unwrap_or_else(|| vec![CycleOp::Cycle])),
            seed: self.seed,
            ttl: if long { LONG_TTL } else { SESSION_TTL },
            lock_ttl: (experiment == Experiment::Faults).then_some(FAULTS_LOCK_TTL),
            quick: self.quick,
            durability: self.durability,
        })
    }

    /// What no command line of an experiment can rule out by itself.
    fn check_contradictions(
        &self,
        experiment: Experiment,
        workers: &[usize],
    ) -> Result<(), UsageError> {
        let only_profile = matches!(self.workload, Some(Workload::Shop | Workload::Bots))
            || experiment == Experiment::Cycle && self.workload.is_none();
        let why = match experiment {
            Experiment::Faults | Experiment::Rebuild if workers.len() != 1 => {
                "--workers takes one number here"
            }
            Experiment::Contention if workers.contains(&1) => {
                "one worker has no contention; give contention --workers 2 or more"
            }
            _ if self.profile.is_some() && only_profile => {
                "--profile is for --workload profile here"
            }
            Experiment::Cycle if self.let_sleep && self.rate.is_none() => {
                "without --rate there are no pauses in which processors could sleep"
            }
            _ => return Ok(()),
        };
        Err(UsageError(why.to_owned()))
    }

    fn worker_counts(&self, preset: &Preset) -> Result<Vec<usize>, UsageError> {
        let default =
            || if preset.workers.is_empty() { up_to_processors() } else { preset.workers.to_vec() };
        let workers = ascending(self.workers.clone().unwrap_or_else(default));
        if workers.is_empty() || workers.iter().any(|count| !(1..=WORKERS_MAX).contains(count)) {
            return Err(UsageError(format!(
                "--workers takes numbers from 1 to {WORKERS_MAX}, for example 1,8"
            )));
        }
        Ok(workers)
    }

    fn payload(&self, experiment: Experiment) -> Result<usize, UsageError> {
        let usual = if experiment == Experiment::Rebuild { REGISTRY_BYTES } else { PAYLOAD_BYTES };
        let bytes = self.payload_bytes.or(self.workload.and_then(Workload::payload_bytes));
        let bytes = bytes.unwrap_or(usual);
        in_range("--payload", bytes, PAYLOAD_BYTES_MIN, PAYLOAD_BYTES_MAX)?;
        Ok(bytes)
    }

    /// One number of sessions, or several for `scale`.
    fn session_counts(
        &self,
        experiment: Experiment,
        preset: &Preset,
    ) -> Result<Vec<usize>, UsageError> {
        let default = || preset.sessions.to_vec();
        let sizes = ascending(self.sessions.clone().unwrap_or_else(default));
        let least = if experiment == Experiment::Gc { 100 } else { 1 };
        sizes.iter().try_for_each(|it| in_range("--sessions", *it, least, SESSIONS_MAX))?;
        if sizes.is_empty() || (sizes.len() > 1 && experiment != Experiment::Scale) {
            let why = "--sessions takes one number, or several for scale";
            return Err(UsageError(why.to_owned()));
        }
        Ok(sizes)
    }

    fn spread(&self) -> PayloadSpread {
        let profile = || self.profile.clone().map(|it| PayloadSpread::Profile(Box::new(it)));
        match self.workload {
            Some(Workload::Shop) => PayloadSpread::LogNormal,
            Some(Workload::Bots) => PayloadSpread::Fixed,
            Some(Workload::Profile) | None => profile().unwrap_or_default(),
        }
    }
}

/// The load generator needs at least one request for each parallel connection.
fn check_requests(
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

/// Without a request that is due in a sample nothing is measured, which is no fault of a store.
fn check_requests_due(rate: Option<f64>, seconds: f64) -> Result<(), UsageError> {
    rate.filter(|rate| rate * seconds < 1.0).map_or(Ok(()), |rate| {
        Err(UsageError(format!(
            "at --rate {rate} less than one request is due in a sample of --duration {seconds}s; \
             raise one of them"
        )))
    })
}

/// In the order in which they were given.
fn each_once(ops: Vec<CycleOp>) -> Vec<CycleOp> {
    let mut once = Vec::new();
    for op in ops {
        if !once.contains(&op) {
            once.push(op);
        }
    }
    once
}

fn ascending(mut numbers: Vec<usize>) -> Vec<usize> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn in_range<T: PartialOrd + fmt::Display>(
    flag: &str,
    value: T,
    least: T,
    most: T,
) -> Result<(), UsageError> {
    in_range_of(flag, value, least, most, "")
}

/// A number of a unit, as the command line writes it.
fn in_range_of<T: PartialOrd + fmt::Display>(
    flag: &str,
    value: T,
    least: T,
    most: T,
    unit: &str,
) -> Result<(), UsageError> {
    if value >= least && value <= most {
        return Ok(());
    }
    Err(UsageError(format!(
        "{flag} is {value}{unit}, but must lie between {least}{unit} and {most}{unit}"
    )))
}
