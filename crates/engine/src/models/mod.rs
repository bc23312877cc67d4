//! Model checks: the engine's own code, run by a few threads in orders that a scheduler chooses.
//!
//! Each model states its invariants as sentences and asserts them. Each also has mutations, the
//! same code with one mistake ([`Mutation`]), and counts only because it fails on every one of
//! them. Threads are processes here: each opens the store for itself, and dies at a chosen write if
//! the model says so.
//!
//! The orders come from fixed seeds, so a run is the same everywhere; SESSILE_MODEL_RUNS asks for
//! that many times more, from other seeds. Not a proof, and not a model of weak memory:
//! docs/decisions/0008-models.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use sessile_core::{Clock, Timestamp};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::memory::{Mutation, machine, with_mutation};
use crate::{Engine, EngineOptions, open};

mod claim;
mod index;
mod lock;
mod owners;
mod publish;
mod recovery;

/// The clock of all models stands still.
const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);
const SEED: u64 = 1;
/// Long pauses of one run, at points that the scheduler chooses.
const PAUSES: [usize; 2] = [1, 2];
/// Orders of each scheduler that are tried in search of a mistake ...
const HUNT: usize = 10_000;
/// ... of one scheduler before it is another's turn.
const BATCH: usize = 250;
/// More accesses than this in one run are a loop.
const STEPS_MAX: usize = 50_000;

/// When a sleep may end by itself.
#[derive(Clone, Copy)]
enum Sleep {
    /// Only when nobody else can do anything.
    ToTheEnd,
    /// At any moment.
    Restless,
}

/// Runs a model in so many orders of each scheduler.
fn holds(runs: usize, sleep: Sleep, model: fn(&Path)) {
    let (more, seed) = match std::env::var("SESSILE_MODEL_RUNS")
        .ok()
        .and_then(|times| times.parse::<usize>().ok())
    {
        Some(times) => (times, std::process::id().into()),
        None => (1, SEED),
    };
    run_all(seed, runs * more, &FailurePersistence::Print, sleep, model);
}

/// The model fails on this mistake, and says one of these sentences.
fn notices(mutation: Mutation, sentences: &[&str], sleep: Sleep, model: fn(&Path)) {
    let hunt = || {
        let seeds = (0..HUNT / BATCH).map(|batch| SEED + batch as u64);
        seeds.for_each(|seed| run_all(seed, BATCH, &FailurePersistence::None, sleep, model));
    };
    let failure = with_mutation(mutation, || catch_unwind(AssertUnwindSafe(hunt)))
        .expect_err("a mistake is noticed");
    let said = failure
        .downcast_ref::<String>()
        .map(String::as_str)
        .or(failure.downcast_ref::<&str>().copied());
    let as_stated =
        said.is_some_and(|said| sentences.iter().any(|sentence| said.contains(sentence)));
    assert!(as_stated, "{mutation:?} is noticed for another reason: {said:?}");
}

/// So many orders of each scheduler: random ones find what needs many switches, the others what
/// needs long pauses.
fn run_all(seed: u64, runs: usize, failures: &FailurePersistence, sleep: Sleep, model: fn(&Path)) {
    for pauses in PAUSES {
        run(PctScheduler::new_from_seed(seed, pauses + 1, runs), failures.clone(), sleep, model);
    }
    run(RandomScheduler::new_from_seed(seed, runs), failures.clone(), sleep, model);
}

fn run(
    scheduler: impl Scheduler + 'static,
    failures: FailurePersistence,
    sleep: Sleep,
    model: fn(&Path),
) {
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    config.failure_persistence = failures;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let folder_of_runs = folder.path().to_owned();
    let number = AtomicU64::new(0);
    Runner::new(scheduler, config).run(move || {
        let number = number.fetch_add(1, Relaxed);
        let path = folder_of_runs.join(number.to_string());
        machine::begin(matches!(sleep, Sleep::Restless));
        model(&path);
        machine::end();
        std::fs::remove_dir_all(path).unwrap();
    });
}

type Bodies<const N: usize> = [Box<dyn FnOnce() + Send>; N];

fn process(path: &Path) -> Engine {
    open(path, Clock::manual(NOW), &EngineOptions::default()).unwrap()
}
