//! Estimates how long an experiment takes, from times seen on a machine with two processors.
//!
//! Used for the remaining time and to hold presets to their budget; never for figures.

use std::time::Duration;

use crate::experiment::Experiment;
use crate::experiments::faults::kills_of_all;
use crate::experiments::lifecycle::waves_of_visitors;
use crate::options::Settings;
use crate::oversize;
use crate::reference::AfterDeath;
use crate::selection::{Choice, ContenderSource};

/// In seconds, with workers.
const START_SERVER: f64 = 0.7;
const START_EMBEDDED: f64 = 0.3;
/// Creating a session and reading it at the end, in seconds, for slow stores of each kind.
const SESSION_SERVER: f64 = 300e-6;
const SESSION_DISK: f64 = 120e-6;
const SESSION_MEMORY: f64 = 15e-6;
/// The share of creating.
const CREATING: f64 = 2.0 / 3.0;
/// Average cost of the stores that reach a further size of `scale`, relative to slow ones.
const OF_THE_FASTER: f64 = 0.5;
/// Overhead of a sample in seconds.
const SAMPLE: f64 = 0.02;
/// In seconds (0.47 ms in the record), and the overhead of a sample.
const PAGE: f64 = 0.8e-3;
const PAGE_SAMPLE: f64 = 0.15;
const VISIT: f64 = 0.4e-3;
const VISIT_SAMPLE: f64 = 0.05;
/// Starting and ending nginx and php-fpm.
const SITE: f64 = 0.5;
/// In seconds, averaged over views with and without rebuilding.
const VIEW: f64 = 0.025;
/// Filling a memory of fixed size, in seconds.
const OVERFLOW: f64 = 15.0;

/// A session in Perl in seconds; and a pair of sessions where each costs as much as there are
/// sessions.
const KEEPER: f64 = 1.5e-3;
const WHOLE_CACHE: f64 = 60e-6;

pub(super) fn time(settings: &Settings, choices: &[Choice]) -> Duration {
    let seconds: f64 = match settings.experiment {
        Experiment::Scale => {
            settings.spreads.iter().map(|_| total(choices, |it| scale(settings, it))).sum()
        }
        Experiment::Cycle => {
            total(choices, |it| throughput(settings, it, settings.sessions, settings.ops.len()))
        }
        Experiment::Ops => total(choices, |it| throughput(settings, it, settings.sessions, 3)),
        Experiment::Contention => total(choices, |it| {
            start(it) + (settings.workers.len() * 2 * settings.rounds) as f64 * sample(settings)
        }),
        Experiment::Gc => {
            total(choices, |it| if is_reference(it) { 0.0 } else { gc(settings, it) })
        }
        Experiment::Expiry => {
            total(choices, |it| if is_reference(it) { 0.0 } else { expiry(settings, it) })
        }
        Experiment::Oversize => {
            total(choices, |it| start(it) + (oversize::SIZES.len() * settings.rounds) as f64 * 0.05)
        }
        Experiment::Lifecycle => {
            let (requests, samples) = (settings.sessions as f64, settings.workers.len() as f64);
            let visitors =
                |it: &Choice| waves_of_visitors(it) as f64 * (requests * VISIT + VISIT_SAMPLE);
            let round = |it: &Choice| samples * (requests * PAGE + PAGE_SAMPLE) + visitors(it);
            OVERFLOW + total(choices, |it| SITE + start(it) + settings.rounds as f64 * round(it))
        }
        Experiment::Faults => total(choices, |it| start(it) + faults(settings, it)),
        Experiment::Rebuild => total(choices, |it| {
            SITE + start(it) + (settings.sessions * settings.rounds) as f64 * VIEW
        }),
        Experiment::Perl => total(choices, |it| start(it) + perl(settings, it)),
    };
    Duration::from_secs_f64(seconds)
}

fn total(choices: &[Choice], of: impl Fn(&Choice) -> f64) -> f64 {
    choices.iter().map(of).sum()
}

/// Reference rows neither sweep nor expire.
fn is_reference(choice: &Choice) -> bool {
    matches!(choice.target, ContenderSource::Reference(_))
}

fn start(choice: &Choice) -> f64 {
    if choice.over_socket { START_SERVER } else { START_EMBEDDED }
}

fn session(choice: &Choice) -> f64 {
    let on_disk = match choice.target {
        ContenderSource::Fixture(_, fixture) | ContenderSource::FixtureOn(_, fixture, _) => {
            fixture.url.contains("{disk}")
        }
        ContenderSource::Reference(reference) => reference.on_disk,
        _ => false,
    };
    match (choice.over_socket, on_disk) {
        (true, _) => SESSION_SERVER,
        (false, true) => SESSION_DISK,
        (false, false) => SESSION_MEMORY,
    }
}

fn sample(settings: &Settings) -> f64 {
    settings.seconds + settings.warm_up_seconds + SAMPLE
}

fn throughput(settings: &Settings, choice: &Choice, sessions: usize, ops: usize) -> f64 {
    start(choice) + sessions as f64 * session(choice) + samples(settings, choice, ops)
}

/// All samples of this number of operations.
fn samples(settings: &Settings, choice: &Choice, ops: usize) -> f64 {
    let workers = settings
        .workers
        .iter()
        .filter(|workers| choice.shared_by_processes || **workers == 1)
        .count();
    (workers * ops * settings.rounds) as f64 * sample(settings)
}

/// The first size, and all that can be filled in time. Slow stores get no further.
fn scale(settings: &Settings, choice: &Choice) -> f64 {
    let most = settings.fill_max.map_or(f64::INFINITY, |most| most.as_secs_f64());
    let filling = |sessions: usize| sessions as f64 * session(choice);
    let reached = settings.sizes.iter().enumerate().filter_map(|(place, sessions)| match place {
        0 => Some(filling(*sessions)),
        _ if filling(*sessions) * CREATING > most => None,
        _ => Some(filling(*sessions) * OF_THE_FASTER),
    });
    reached
        .map(|filling| start(choice) + filling + samples(settings, choice, settings.ops.len()))
        .sum()
}

/// Filling, sweeping with pauses of four times as long, deleting, and the small store beside it.
fn gc(settings: &Settings, choice: &Choice) -> f64 {
    2.0 * start(choice)
        + 4.0
        + 4.0 * settings.seconds
        + settings.sessions as f64 * session(choice) * 3.0
}

fn expiry(settings: &Settings, choice: &Choice) -> f64 {
    let expiring = settings.rate.unwrap_or(0.0) * settings.seconds / 10.0;
    let round = 3.0 * sample(settings) + 0.3 + 2.0 * expiring * session(choice);
    start(choice) + settings.sessions as f64 * session(choice) + settings.rounds as f64 * round
}

/// Ten killed holders wait at once where locks expire.
fn faults(settings: &Settings, choice: &Choice) -> f64 {
    let (kills, tens) = (settings.rounds as f64, settings.rounds.div_ceil(10) as f64);
    let all = kills_of_all(settings.rounds) as f64;
    let held = if choice.after_death() == AfterDeath::Freed { 0.1 * kills } else { 2.5 * tens };
    let back = if choice.over_socket { 1.5 } else { 0.3 };
    held + 0.1 * kills + all * (settings.seconds + back)
}

/// Sessions are made, reopened and read; a keeper that depends on their number repeats that for
/// each size.
fn perl(settings: &Settings, choice: &Choice) -> f64 {
    let whole_cache =
        matches!(choice.target, ContenderSource::Keeper(keeper) if keeper.depends_on_number);
    let most = settings.sizes.last().copied().unwrap_or(0) as f64;
    let sessions = if whole_cache { most * most * WHOLE_CACHE } else { most * 3.0 * KEEPER };
    (settings.rounds + 1) as f64 * sessions
}

/// This machine's speed relative to the expectation.
pub(super) struct MachineSpeed {
    expected: f64,
    took: f64,
}

impl MachineSpeed {
    pub(super) fn new() -> MachineSpeed {
        MachineSpeed { expected: 0.0, took: 0.0 }
    }

    pub(super) fn took(&mut self, expected: Duration, took: Duration) {
        self.expected += expected.as_secs_f64();
        self.took += took.as_secs_f64();
    }

    pub(super) fn applied_to(&self, expected: Duration) -> Duration {
        let factor =
            if self.expected > 0.0 { (self.took / self.expected).clamp(0.2, 5.0) } else { 1.0 };
        expected.mul_f64(factor)
    }
}
