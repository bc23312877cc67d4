//! The tasks of workers in `faults`.
//!
//! Invariant: a commit is reported after its acknowledgement and before anything else is done. So
//! the parent of a killed worker knows every acknowledged commit except, perhaps, the last one.

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
use crate::worker::protocol::{ContenderFailure, WorkerReply};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FaultTask {
    /// Change this session once, answered by `Step`; then begin it, answered by `Ready`, and hold
    /// it until killed.
    Hold(usize),
    /// Begin this session, however long it takes, and change it; answered by `Step`.
    #[serde(rename = "Take")]
    TakeOver(usize),
    /// Answer `Ready`, then change these sessions until the next request, each answered by `Step`.
    Load(UpdateLoad),
    /// Read sessions without a lock; answered by `Looked`.
    #[serde(rename = "Look")]
    Peek(Range<usize>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UpdateLoad {
    pub sessions: Range<usize>,
    /// Of the choice among them.
    pub seed: u64,
}

/// One locked change of a session, or one read of it. Times are in nanoseconds of the monotonic
/// clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionAccess {
    pub session: usize,
    /// When the operation was called.
    pub asked_ns: u64,
    /// When the lock was granted or the read had ended.
    pub granted_ns: u64,
    /// When the commit was acknowledged or the failure was known.
    pub ended_ns: u64,
    /// The content before the change. A change without a failure was acknowledged.
    #[serde(rename = "met")]
    pub found: FoundContent,
    /// Transactions that were repeated for it; `None` if nothing counts them.
    #[serde(default)]
    pub restarted: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FoundContent {
    /// A payload with this counter; a change increments it.
    Counter(u64),
    /// A change starts the session anew with counter 0.
    Nothing,
    /// A payload that was never written; it is left alone.
    Damaged,
    Failed(ContenderFailure),
}

impl SessionAccess {
    /// Whether it has changed the session.
    pub(crate) const fn is_update(&self) -> bool {
        matches!(self.found, FoundContent::Counter(_) | FoundContent::Nothing)
    }
}

/// Pause after a failure: visitors do not retry at once either, and the server that starts needs
/// the processors.
const REST: Duration = Duration::from_millis(1);

/// Does a task. `reopen` replaces a contender that cannot reconnect to its server. Fails when the
/// parent no longer listens.
pub(crate) fn perform(
    contender: &mut Box<dyn Contender>,
    payloads: &Payloads,
    task: &FaultTask,
    reopen: &dyn Fn() -> Option<Result<Box<dyn Contender>>>,
    answer: &mut dyn FnMut(WorkerReply) -> io::Result<()>,
) -> io::Result<()> {
    match task {
        FaultTask::Hold(session) => {
            answer(WorkerReply::Access(change_session(&mut **contender, payloads, *session)))?;
            let held = contender.begin(*session).map(|found| found.is_some());
            answer(match held {
                Ok(true) => WorkerReply::Ready,
                Ok(false) => WorkerReply::Failed(missing()),
                Err(error) => WorkerReply::Failed(ContenderFailure::from_error(&error)),
            })
        }
        FaultTask::TakeOver(session) => loop {
            let access = change_session(&mut **contender, payloads, *session);
            let waits = matches!(
                &access.found,
                FoundContent::Failed(failure) if failure.code == LOCK_TIMEOUT
            );
            if !waits || has_request() {
                return answer(WorkerReply::Access(access));
            }
        },
        FaultTask::Load(load) => {
            answer(WorkerReply::Ready)?;
            run_load(contender, payloads, load, reopen, answer)
        }
        FaultTask::Peek(sessions) => answer(WorkerReply::Peeked(
            sessions
                .clone()
                .map(|session| peek_session(&mut **contender, payloads, session))
                .collect(),
        )),
    }
}

/// Code of that kind of error.
const LOCK_TIMEOUT: &str = "lock-timeout";

fn run_load(
    contender: &mut Box<dyn Contender>,
    payloads: &Payloads,
    load: &UpdateLoad,
    reopen: &dyn Fn() -> Option<Result<Box<dyn Contender>>>,
    answer: &mut dyn FnMut(WorkerReply) -> io::Result<()>,
) -> io::Result<()> {
    let mut random = fastrand::Rng::with_seed(load.seed);
    let mut sessions: Vec<usize> = load.sessions.clone().collect();
    while !has_request() {
        let place = random.usize(..sessions.len().max(1));
        let Some(session) = sessions.get(place).copied() else { return Ok(()) };
        let access = change_session(&mut **contender, payloads, session);
        let (damaged, failed) = (
            access.found == FoundContent::Damaged,
            matches!(access.found, FoundContent::Failed(_)),
        );
        answer(WorkerReply::Access(access))?;
        if damaged {
            sessions.swap_remove(place);
        }
        if failed {
            std::thread::sleep(REST);
            // The next failure tries again.
            if let Some(Ok(opened)) = reopen() {
                *contender = opened;
            }
        }
    }
    Ok(())
}

/// Whether the parent has sent something or is gone.
fn has_request() -> bool {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    !matches!(poll(&mut fds, PollTimeout::ZERO), Ok(0))
}

fn change_session(
    contender: &mut dyn Contender,
    payloads: &Payloads,
    session: usize,
) -> SessionAccess {
    let (asked_ns, before) = (now_ns(), contender.restarted());
    let mut granted_ns = asked_ns;
    let found = change(contender, payloads, session, &mut granted_ns).unwrap_or_else(|error| {
        let _ = contender.release(); // the failed operation may hold a lock
        failed_content(&error)
    });
    let ended_ns = now_ns();
    let restarted =
        contender.restarted().zip(before).map(|(now, before)| now.saturating_sub(before));
    SessionAccess { session, asked_ns, granted_ns, ended_ns, found, restarted }
}

fn change(
    contender: &mut dyn Contender,
    payloads: &Payloads,
    session: usize,
    granted_ns: &mut u64,
) -> Result<FoundContent> {
    contender.start_request()?;
    let found = identify(payloads, session, contender.begin(session)?);
    *granted_ns = now_ns();
    let counter = match &found {
        FoundContent::Counter(counter) => counter + 1,
        FoundContent::Nothing => 0,
        FoundContent::Damaged | FoundContent::Failed(_) => {
            contender.release()?;
            return Ok(found);
        }
    };
    let mut payload = Vec::new();
    payloads.compose(session as u64, counter, &mut payload);
    contender.commit(&payload)?;
    Ok(found)
}

fn peek_session(
    contender: &mut dyn Contender,
    payloads: &Payloads,
    session: usize,
) -> SessionAccess {
    let asked_ns = now_ns();
    let found = match contender.read(session) {
        Ok(found) => identify(payloads, session, found),
        Err(error) => failed_content(&error),
    };
    let ended_ns = now_ns();
    SessionAccess { session, asked_ns, granted_ns: ended_ns, ended_ns, found, restarted: None }
}

fn identify(payloads: &Payloads, session: usize, found: Option<&[u8]>) -> FoundContent {
    match found.map(|payload| payloads.check(session as u64, payload)) {
        Some(Some(counter)) => FoundContent::Counter(counter),
        Some(None) => FoundContent::Damaged,
        None => FoundContent::Nothing,
    }
}

/// A store reports a damaged record itself.
fn failed_content(error: &Error) -> FoundContent {
    if matches!(error.kind(), ErrorKind::Corrupt) {
        FoundContent::Damaged
    } else {
        FoundContent::Failed(ContenderFailure::from_error(error))
    }
}

fn missing() -> ContenderFailure {
    ContenderFailure::from_error(&Error::new(
        ErrorKind::Gone,
        "a session that was there a moment ago is gone",
    ))
}
