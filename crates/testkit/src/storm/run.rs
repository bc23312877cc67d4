//! A whole storm: start, rage, listen, then the reckoning.
//!
//! After the last process is dead every session is read back, the store is verified, everything is destroyed
//! and swept by a clock that is past every tombstone, and the space is compared with that of the empty store.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use sessile_core::{Budget, Clock, ErrorKind, Limits, Sessions, Ttl};

use super::actor::key;
use super::checker::Checker;
use super::crew::{Crew, Deeds, Fate, Weather};
use super::event::Event;
use super::listener::Listener;
use super::names::Names;
use super::prober::{self, Errand};
use super::target::{SpaceRule, Target};
use super::verdict::{Space, Verdict};
use super::work::{Orders, Pools};
use crate::check::{Failure, ensure};

/// What remains beside the empty store's own space: a segment, a directory that has grown.
const SPACE_SLACK_BYTES: u64 = 8 << 20;
/// One part of so many of what was in use most may wait to be used again.
const KEPT_PART: u64 = 3;
/// The largest thing that a killed writer had begun.
const BEGUN_BYTES_MAX: u64 = 210_000;

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program that becomes a worker when its first argument is the worker's word.
    pub program: PathBuf,
    /// How long it lasts.
    pub seconds: f64,
    /// Of all choices.
    pub seed: u64,
    /// How wild it is.
    pub weather: Weather,
    /// Longest time after the death of its holder that a lock may stay taken.
    pub stuck_ms_max: u64,
    /// Kills and take-overs below which the run is void.
    pub least: (u64, u64),
}

/// Runs a storm over a store.
///
/// # Errors
///
/// When the harness itself fails. What the store does wrong is in the verdict.
pub fn run(plan: &Plan, target: &Target) -> Result<Verdict, Failure> {
    let store = target.open(Clock::system())?;
    let nonce = fastrand::u64(..);
    warm_up(&store, nonce)?;
    let empty = target.occupied();
    let (fates, heard_fates) = channel();
    let (errands, taken) = channel();
    let (reports, heard_reports) = channel();
    let prober = spawn_prober(&store, nonce, taken, reports);
    let checker = Checker::new(plan.stuck_ms_max);
    let mut listener = Listener::new(checker, heard_fates, heard_reports, errands.clone());
    let deeds = rage(plan, target, nonce, fates, &mut listener)?;
    let read_back = read_back(&mut listener, errands, prober)?;
    let ids = listener.checker.ids();
    let mut verdict = Verdict {
        store: target.name.clone(),
        seconds: plan.seconds,
        processes: plan.weather.processes,
        seed: plan.seed,
        deeds,
        tally: std::mem::take(&mut listener.checker.tally),
        read_back,
        verified: None,
        space: None,
        details: Vec::new(),
        notes: Vec::new(),
        least: plan.least,
    };
    verify(&store, &mut verdict);
    let most = target.occupied();
    Names::of_run(nonce).forget();
    remove_all(&store, target, nonce, &ids, &mut verdict)?;
    verify(&store, &mut verdict);
    drop(store);
    measure(target, (empty, most), &mut verdict);
    Ok(verdict)
}

/// So that what a store makes once, with its first session, counts as empty.
fn warm_up(store: &Sessions, nonce: u64) -> Result<(), Failure> {
    let key = key(nonce, u64::MAX)?;
    store.create(&key, b"first", Ttl::sliding(Duration::from_secs(60))?)?;
    Ok(store.destroy(&key)?)
}

type Prober = std::thread::JoinHandle<sessile_core::Result<()>>;

fn spawn_prober(store: &Sessions, nonce: u64, taken: Receiver<Errand>, reports: Sender<(u64, Event)>) -> Prober {
    let store = store.clone();
    std::thread::spawn(move || prober::serve(store, nonce, &taken, reports))
}

/// The storm itself, while a second thread listens.
fn rage(
    plan: &Plan,
    target: &Target,
    nonce: u64,
    fates: Sender<Fate>,
    listener: &mut Listener,
) -> Result<Deeds, Failure> {
    let orders = Orders { url: target.url.clone(), nonce, incarnation: 0, seed: plan.seed, pools: Pools::default() };
    let over = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let listening = Arc::clone(&over);
        scope.spawn(move || {
            while !listening.load(Ordering::Acquire) || !listener.done() {
                listener.round();
            }
        });
        let raged = Crew::start(plan.program.clone(), orders, plan.weather.processes, fates).and_then(|mut crew| {
            crew.rage(Duration::from_secs_f64(plan.seconds), &plan.weather)?;
            // The last processes are not part of the storm: their deaths are no random moments.
            let deeds = crew.deeds;
            crew.end_all()?;
            Ok(Deeds { ended: crew.deeds.ended, ..deeds })
        });
        over.store(true, Ordering::Release);
        raged
    })
}

/// Locks and reads every session that was ever mentioned. Returns how many. A store that has failed already is
/// only read: a lock that stays for ever costs seconds each time.
fn read_back(listener: &mut Listener, errands: Sender<Errand>, prober: Prober) -> Result<u64, Failure> {
    listener.errands = None;
    let ids = listener.checker.ids();
    let sound = listener.checker.tally.problems.is_empty();
    let locks = ids.iter().filter(|_| sound).map(|id| Errand::Lock(*id));
    for errand in locks.chain(ids.iter().map(|id| Errand::Read(*id))) {
        errands.send(errand).map_err(|_| Failure("the prober has ended".into()))?;
    }
    drop(errands);
    prober.join().map_err(|_| Failure("the prober panicked".into()))??;
    for _ in 0..1_000 {
        listener.round();
        if listener.done() {
            return Ok(ids.len() as u64);
        }
    }
    Err(Failure("some reads could never be judged: the harness is broken".into()))
}

fn verify(store: &Sessions, verdict: &mut Verdict) {
    match store.verify(&mut |_| ()) {
        Ok(verified) => {
            verdict.verified = Some(verdict.verified.unwrap_or(0).max(verified.checked));
            verified.problems.iter().for_each(|problem| verdict.tally.note(format!("verify: {problem}")));
            verdict.tally.problems_untold += verified.unlisted;
        }
        Err(error) if *error.kind() == ErrorKind::Unsupported => {
            let note = "invariants: the store has no verify".to_owned();
            if !verdict.notes.contains(&note) {
                verdict.notes.push(note);
            }
        }
        Err(error) => verdict.tally.note(format!("verify: {error:#}")),
    }
}

fn remove_all(
    store: &Sessions,
    target: &Target,
    nonce: u64,
    ids: &[u64],
    verdict: &mut Verdict,
) -> Result<(), Failure> {
    for id in ids {
        store.destroy(&key(nonce, *id)?)?;
    }
    // Past every tombstone: what is still there then is there for ever.
    let later = target.open(Clock::ahead_of_system(Limits::TOMBSTONE_TTL * 3 + Limits::GRACE_MAX))?;
    for _ in 0..2 {
        let mut steps = 0;
        while !later.sweep(Budget { records_max: 100_000, time_max: Duration::from_secs(1) })?.complete {
            steps += 1;
            ensure(steps < 100_000, || "a sweep never completes".into())?;
        }
    }
    verdict.details = later.details()?;
    match later.stat() {
        // In somebody's store there may be others.
        Ok(stat) if target.dir.is_some() && stat.sessions + stat.expired > 0 => {
            let (sessions, expired) = (stat.sessions, stat.expired);
            verdict.tally.note(format!("{sessions} sessions and {expired} expired ones are left after removing all"));
        }
        Err(error) if *error.kind() != ErrorKind::Unsupported => return Err(error.into()),
        _ => {}
    }
    Ok(())
}

fn measure(target: &Target, (empty, most): (Option<u64>, Option<u64>), verdict: &mut Verdict) {
    let more = match target.space {
        SpaceRule::Unchecked(why) => return verdict.notes.push(format!("space: {why}")),
        SpaceRule::Back => 0,
        SpaceRule::BackButBegun(_) => verdict.tally.killed_in_change * BEGUN_BYTES_MAX,
        SpaceRule::BackButKept(_) => most.unwrap_or(0) / KEPT_PART,
    };
    let (Some(empty), Some(most), Some(after)) = (empty, most, target.occupied()) else { return };
    let limit = empty + SPACE_SLACK_BYTES + more;
    verdict.space = Some(Space { empty, most, after, limit });
    if after > limit {
        let problem = format!("{after} bytes are occupied after everything was removed, {empty} when empty");
        verdict.tally.note(problem);
    }
}
