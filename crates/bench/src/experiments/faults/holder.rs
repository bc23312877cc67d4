//! A worker is killed while it holds a session: how long does the next one wait?
//!
//! Where locks end with time, or never, several holders are killed at once: their waiters sleep and
//! delay nobody.

use std::time::Duration;

use super::FaultRun;
use crate::interruption::interrupted;
use crate::monotonic::now_ns;
use crate::reference::AfterDeath;
use crate::worker::faults::{FaultTask, FoundContent, SessionAccess};
use crate::worker::process::{TASK_MAX, WorkerProcess, unexpected};
use crate::worker::protocol::{WorkerReply, WorkerRequest, WorkerResult};

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

pub(super) fn measure(run: &mut FaultRun<'_>) -> WorkerResult<()> {
    let at_once = if run.contender.choice.after_death == AfterDeath::Freed { 1 } else { BATCH };
    let sessions: Vec<usize> = run.layout.held.clone().collect();
    let mut idle: Vec<WorkerProcess> = Vec::new();
    for batch in sessions.chunks(at_once) {
        let mut handovers = Vec::new();
        for session in batch.iter().copied() {
            let (holder, waiter) =
                (run.open_worker()?, idle.pop().map_or_else(|| run.open_worker(), Ok)?);
            handovers.push(Handover { session, holder, waiter, killed_ns: 0 });
        }
        hold_all(run, &mut handovers)?;
        let moment = MOMENTS.mul_f64(run.random.f64());
        run.wait(ASLEEP + moment);
        for handover in &mut handovers {
            handover.killed_ns = now_ns();
            handover.holder.kill();
            run.found.faults.kills += 1;
        }
        for mut handover in handovers {
            handover.holder.reap();
            if await_handover(run, &mut handover)? {
                idle.push(handover.waiter);
            }
        }
    }
    run.check_sessions(run.layout.held.clone(), None)
}

/// Each holder has one more update acknowledged, then holds its session; a waiter asks for it.
fn hold_all(run: &mut FaultRun<'_>, handovers: &mut [Handover]) -> WorkerResult<()> {
    for handover in &mut *handovers {
        handover.holder.send(&WorkerRequest::Fault(FaultTask::Hold(handover.session)))?;
    }
    for handover in &mut *handovers {
        let access = receive_access(&mut handover.holder)?;
        run.journal.record_change(&access, None, &mut run.found);
        if let FoundContent::Failed(failure) = access.found {
            return Err(failure);
        }
        handover.holder.ready(TASK_MAX, interrupted)?;
        handover.waiter.send(&WorkerRequest::Fault(FaultTask::TakeOver(handover.session)))?;
    }
    Ok(())
}

/// Whether the waiter gets the session in time; else it is killed.
fn await_handover(run: &mut FaultRun<'_>, handover: &mut Handover) -> WorkerResult<bool> {
    let waited = Duration::from_nanos(now_ns().saturating_sub(handover.killed_ns));
    if !handover.waiter.readable(run.stuck_after.saturating_sub(waited), interrupted)? {
        handover.waiter.kill();
        run.found.count_stuck(run.stuck_after);
        return Ok(false);
    }
    let access = receive_access(&mut handover.waiter)?;
    // The store survives, so nothing is excused.
    run.journal.record_change(&access, None, &mut run.found);
    match &access.found {
        FoundContent::Failed(failure) => run.found.count_failure(&failure.message),
        _ if access.granted_ns < handover.killed_ns => run
            .found
            .count_failure("a session was given to a second worker while the first one held it"),
        _ => run.found.times_ns.push(access.granted_ns - handover.killed_ns),
    }
    Ok(true)
}

fn receive_access(process: &mut WorkerProcess) -> WorkerResult<SessionAccess> {
    match process.receive(TASK_MAX, interrupted)? {
        WorkerReply::Access(access) => Ok(access),
        other => Err(unexpected(&other)),
    }
}
