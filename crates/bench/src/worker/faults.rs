//! What workers do in `faults`: hold a session until they are killed, take one over, change sessions of their own without a
//! pause, and look what is there.
//!
//! Invariant: a commit is reported after the store has acknowledged it and before anything else is done, so whoever kills a
//! worker and then reads what it said knows of every acknowledged commit but, perhaps, the last one.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};
use sessile_core::{Error, ErrorKind, Result};

use crate::contender::Contender;
use crate::monotonic::now_ns;
use crate::payload::Payloads;
use crate::worker::protocol::{Failure, Reply};

/// What a worker is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Task {
    /// Change this session once, answered by `Step`; then begin it, answered by `Ready`, and keep it until killed.
    Hold(usize),
    /// Begin this session, however long it takes, and change it; answered by `Step`.
    Take(usize),
    /// Say `Ready`, then change sessions of this range until the next request comes, each answered by `Step`.
    Load(Load),
    /// Read sessions without a lock; answered by `Looked`.
    Look(Range<usize>),
}

/// A load without an end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Load {
    /// The sessions of this worker.
    pub sessions: Range<usize>,
    /// Seed of the choice among them.
    pub seed: u64,
}

/// One locked change of a session, or one look at it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// The session.
    pub session: usize,
    /// When it was asked for, in nanoseconds of the monotonic clock.
    pub asked_ns: u64,
    /// When it was there.
    pub granted_ns: u64,
    /// When the commit was acknowledged, or the failure known.
    pub ended_ns: u64,
    /// What was found. A change has replaced it by what follows from that, and the store has acknowledged it.
    pub met: Met,
    /// How many transactions were done again for it; `None` where nobody counts them.
    #[serde(default)]
    pub restarted: Option<u64>,
}

/// What a worker found at the id of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Met {
    /// A payload with this counter; a change makes it one higher.
    Counter(u64),
    /// Nothing; a change starts the session anew, with 0.
    Nothing,
    /// Something else than was ever written; it is left as it is.
    Damaged,
    /// The operation failed.
    Failed(Failure),
}

/// After a failure a worker waits for so long: a visitor does not come again at once either, and the processors are
/// needed to start what is down.
const REST: Duration = Duration::from_millis(1);

/// Does a task. `reopen` opens a contender anew that does not find back to its server by itself.
///
/// # Errors
///
/// When the parent no longer listens.
pub(crate) fn perform(
    contender: &mut Box<dyn Contender>,
    payloads: &Payloads,
    task: &Task,
    reopen: &dyn Fn() -> Option<Result<Box<dyn Contender>>>,
    answer: &mut dyn FnMut(Reply) -> io::Result<()>,
) -> io::Result<()> {
    match task {
        Task::Hold(session) => {
            answer(Reply::Step(step(&mut **contender, payloads, *session)))?;
            let held = contender.begin(*session).map(|found| found.is_some());
            answer(match held {
                Ok(true) => Reply::Ready,
                Ok(false) => Reply::Failed(missing()),
                Err(error) => Reply::Failed(Failure::of(&error)),
            })
        }
        Task::Take(session) => loop {
            let step = step(&mut **contender, payloads, *session);
            let waits = matches!(&step.met, Met::Failed(failure) if failure.code == LOCK_TIMEOUT);
            if !waits || asked() {
                return answer(Reply::Step(step));
            }
        },
        Task::Load(load) => {
            answer(Reply::Ready)?;
            change_on(contender, payloads, load, reopen, answer)
        }
        Task::Look(sessions) => {
            answer(Reply::Looked(sessions.clone().map(|session| look(&mut **contender, payloads, session)).collect()))
        }
    }
}

/// The word of that kind of error.
const LOCK_TIMEOUT: &str = "lock-timeout";

fn change_on(
    contender: &mut Box<dyn Contender>,
    payloads: &Payloads,
    load: &Load,
    reopen: &dyn Fn() -> Option<Result<Box<dyn Contender>>>,
    answer: &mut dyn FnMut(Reply) -> io::Result<()>,
) -> io::Result<()> {
    let mut random = fastrand::Rng::with_seed(load.seed);
    let mut sessions: Vec<usize> = load.sessions.clone().collect();
    while !asked() {
        let place = random.usize(..sessions.len().max(1));
        let Some(session) = sessions.get(place).copied() else { return Ok(()) };
        let step = step(&mut **contender, payloads, session);
        let (damaged, failed) = (step.met == Met::Damaged, matches!(step.met, Met::Failed(_)));
        answer(Reply::Step(step))?;
        if damaged {
            sessions.swap_remove(place);
        }
        if failed {
            std::thread::sleep(REST);
            // One that cannot be opened yet is tried again after the next failure.
            if let Some(Ok(opened)) = reopen() {
                *contender = opened;
            }
        }
    }
    Ok(())
}

/// Whether the parent has said something more, or is gone.
fn asked() -> bool {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    !matches!(poll(&mut fds, PollTimeout::ZERO), Ok(0))
}

fn step(contender: &mut dyn Contender, payloads: &Payloads, session: usize) -> Step {
    let (asked_ns, before) = (now_ns(), contender.restarted());
    let mut granted_ns = asked_ns;
    let met = change(contender, payloads, session, &mut granted_ns).unwrap_or_else(|error| {
        let _ = contender.release(); // whatever the failed operation may still hold
        not_met(&error)
    });
    let ended_ns = now_ns();
    let restarted = contender.restarted().zip(before).map(|(now, before)| now.saturating_sub(before));
    Step { session, asked_ns, granted_ns, ended_ns, met, restarted }
}

fn change(contender: &mut dyn Contender, payloads: &Payloads, session: usize, granted_ns: &mut u64) -> Result<Met> {
    contender.arrive()?;
    let met = met(payloads, session, contender.begin(session)?);
    *granted_ns = now_ns();
    let counter = match &met {
        Met::Counter(counter) => counter + 1,
        Met::Nothing => 0,
        Met::Damaged | Met::Failed(_) => {
            contender.release()?;
            return Ok(met);
        }
    };
    let mut payload = Vec::new();
    payloads.compose(session as u64, counter, &mut payload);
    contender.commit(&payload)?;
    Ok(met)
}

fn look(contender: &mut dyn Contender, payloads: &Payloads, session: usize) -> Step {
    let asked_ns = now_ns();
    let met = match contender.read(session) {
        Ok(found) => met(payloads, session, found),
        Err(error) => not_met(&error),
    };
    let ended_ns = now_ns();
    Step { session, asked_ns, granted_ns: ended_ns, ended_ns, met, restarted: None }
}

fn met(payloads: &Payloads, session: usize, found: Option<&[u8]>) -> Met {
    match found.map(|payload| payloads.check(session as u64, payload)) {
        Some(Some(counter)) => Met::Counter(counter),
        Some(None) => Met::Damaged,
        None => Met::Nothing,
    }
}

/// A store that finds its record damaged says so.
fn not_met(error: &Error) -> Met {
    if matches!(error.kind(), ErrorKind::Corrupt) { Met::Damaged } else { Met::Failed(Failure::of(error)) }
}

fn missing() -> Failure {
    Failure::of(&Error::new(ErrorKind::Gone, "a session that was there a moment ago is gone"))
}
