//! A worker is killed while it holds a session: how long does the next one wait?
//!
//! Where locks end with time, or never, several holders are killed at once: their waiters sleep and
//! delay nobody.

use std::time::Duration;

use super::journal::{Journal, Kill};
use super::{FaultFindings, FaultRun, SessionLayout};
use crate::interruption::interrupted;
use crate::monotonic::now_ns;
use crate::reference::AfterDeath;
use crate::worker::faults::{FaultTask, FoundContent, SessionAccess};
use crate::worker::process::{TASK_MAX, WorkerProcess, unexpected};
use crate::worker::protocol::{ContenderFailure, WorkerReply, WorkerRequest};

/// Killed at once where nobody wakes the waiters.
const BATCH: usize = 10;
/// A waiter sleeps after this. The holder dies at a random moment after that.
const ASLEEP: Duration = Duration::from_millis(20);
const MOMENTS: Duration = Duration::from_millis(30);

struct Handover {
    session: usize,
    holder: WorkerProcess,
    waiter: WorkerProcess,
    killed_ns: u64,
}

pub(super) fn measure(
    run: &mut FaultRun<'_>,
    layout: &SessionLayout,
    journal: &mut Journal,
) -> Result<FaultFindings, ContenderFailure> {
    let mut found = FaultFindings::new(run);
    let at_once = if run.contender.choice.after_death() == AfterDeath::Freed { 1 } else { BATCH };
    let sessions: Vec<usize> = layout.held.clone().collect();
    let mut idle: Vec<WorkerProcess> = Vec::new();
    for batch in sessions.chunks(at_once) {
        let mut handovers = Vec::new();
        for session in batch.iter().copied() {
            let (holder, waiter) =
                (run.open_worker()?, idle.pop().map_or_else(|| run.open_worker(), Ok)?);
            handovers.push(Handover { session, holder, waiter, killed_ns: 0 });
        }
        hold_all(&mut handovers, journal, &mut found)?;
        let moment = MOMENTS.mul_f64(run.random.f64());
        run.wait(ASLEEP + moment);
        for handover in &mut handovers {
            handover.killed_ns = now_ns();
            handover.holder.kill();
            found.faults.kills += 1;
        }
        for mut handover in handovers {
            handover.holder.reap();
            if await_handover(&mut handover, run.stuck_after, journal, &mut found)? {
                idle.push(handover.waiter);
            }
        }
    }
    check_sessions(run, layout.held.clone(), journal, None, &mut found)?;
    Ok(found)
}

/// Each holder has one more update acknowledged, then holds its session; a waiter asks for it.
fn hold_all(
    handovers: &mut [Handover],
    journal: &mut Journal,
    found: &mut FaultFindings,
) -> Result<(), ContenderFailure> {
    for handover in &mut *handovers {
        handover.holder.send(&WorkerRequest::Fault(FaultTask::Hold(handover.session)))?;
    }
    for handover in &mut *handovers {
        let access = receive_access(&mut handover.holder)?;
        journal.record_change(&access, None, found);
        match access.found {
            FoundContent::Failed(failure) => return Err(failure),
            FoundContent::Counter(_) | FoundContent::Nothing | FoundContent::Damaged => {
                handover.holder.ready(TASK_MAX, interrupted)?
            }
        }
        handover.waiter.send(&WorkerRequest::Fault(FaultTask::TakeOver(handover.session)))?;
    }
    Ok(())
}

/// Whether the waiter gets the session in time; else it is killed.
fn await_handover(
    handover: &mut Handover,
    stuck_after: Duration,
    journal: &mut Journal,
    found: &mut FaultFindings,
) -> Result<bool, ContenderFailure> {
    let waited = Duration::from_nanos(now_ns().saturating_sub(handover.killed_ns));
    if !handover.waiter.readable(stuck_after.saturating_sub(waited), interrupted)? {
        handover.waiter.kill();
        found.count_stuck(stuck_after);
        return Ok(false);
    }
    let access = receive_access(&mut handover.waiter)?;
    journal.record_change(&access, Some(Kill::of_workers(handover.killed_ns)), found);
    match &access.found {
        FoundContent::Failed(failure) => found.count_failure(&failure.message),
        _ if access.granted_ns < handover.killed_ns => {
            found.count_failure(
                "a session was given to a second worker while the first one held it",
            );
        }
        FoundContent::Counter(_) | FoundContent::Nothing | FoundContent::Damaged => {
            found.times_ns.push(access.granted_ns - handover.killed_ns);
        }
    }
    Ok(true)
}

fn receive_access(process: &mut WorkerProcess) -> Result<SessionAccess, ContenderFailure> {
    match process.receive(TASK_MAX, interrupted)? {
        WorkerReply::Access(access) => Ok(access),
        other => Err(unexpected(&other)),
    }
}

pub(super) fn check_sessions(
    run: &FaultRun<'_>,
    sessions: std::ops::Range<usize>,
    journal: &mut Journal,
    kill: Option<Kill>,
    found: &mut FaultFindings,
) -> Result<(), ContenderFailure> {
    let mut reader = run.open_worker()?;
    reader.send(&WorkerRequest::Fault(FaultTask::Peek(sessions)))?;
    let peeked = match reader.receive(TASK_MAX, interrupted)? {
        WorkerReply::Peeked(peeked) => peeked,
        other => return Err(unexpected(&other)),
    };
    for access in peeked {
        journal.compare(&access, kill, found);
        if let FoundContent::Failed(failure) = access.found {
            found.faults.unreadable += 1;
            found.first_error.get_or_insert(failure.message);
        }
    }
    Ok(())
}
