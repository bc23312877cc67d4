//! A worker is killed while it holds a session, and another one waits for it: how long does that one wait?
//!
//! Where locks end with time, or never, several are killed at once: their waiters sleep, and disturb nobody's time.

use std::time::Duration;

use super::journal::{Journal, Kill};
use super::{Findings, Layout, Scene};
use crate::monotonic::now_ns;
use crate::reference::AfterDeath;
use crate::worker::faults::{Met, Step, Task};
use crate::worker::process::{Process, TASK_MAX, unexpected};
use crate::worker::protocol::{Failure, Reply, Request};

/// Holders that are killed at once where nobody wakes the waiters.
const BATCH: usize = 10;
/// A waiter has gone to sleep after so long; the holder dies at a random moment after that.
const ASLEEP: Duration = Duration::from_millis(20);
const MOMENTS: Duration = Duration::from_millis(30);

/// One session, who holds it and who waits for it.
struct Handover {
    session: usize,
    holder: Process,
    waiter: Process,
    killed_ns: u64,
}

pub(super) fn measure(scene: &mut Scene<'_>, layout: &Layout, journal: &mut Journal) -> Result<Findings, Failure> {
    let mut found = Findings::new(scene);
    let at_once = if scene.member.choice.after_death() == AfterDeath::Freed { 1 } else { BATCH };
    let sessions: Vec<usize> = layout.held.clone().collect();
    let mut idle: Vec<Process> = Vec::new();
    for batch in sessions.chunks(at_once) {
        let mut handovers = Vec::new();
        for session in batch.iter().copied() {
            let (holder, waiter) = (scene.worker()?, idle.pop().map_or_else(|| scene.worker(), Ok)?);
            handovers.push(Handover { session, holder, waiter, killed_ns: 0 });
        }
        hold(&mut handovers, journal, &mut found)?;
        let moment = MOMENTS.mul_f64(scene.random.f64());
        scene.wait(ASLEEP + moment);
        for handover in &mut handovers {
            handover.killed_ns = now_ns();
            handover.holder.kill();
            found.faults.kills += 1;
        }
        for mut handover in handovers {
            handover.holder.reap();
            if take(&mut handover, scene.stuck_after, journal, &mut found)? {
                idle.push(handover.waiter);
            }
        }
    }
    look(scene, layout.held.clone(), journal, None, &mut found)?;
    Ok(found)
}

/// Each holder has one more update acknowledged, then begins its session and keeps it; a waiter asks for it.
fn hold(handovers: &mut [Handover], journal: &mut Journal, found: &mut Findings) -> Result<(), Failure> {
    for handover in &mut *handovers {
        handover.holder.send(&Request::Fault(Task::Hold(handover.session)))?;
    }
    for handover in &mut *handovers {
        let step = step_of(&mut handover.holder)?;
        journal.change(&step, None, found);
        match step.met {
            Met::Failed(failure) => return Err(failure),
            Met::Counter(_) | Met::Nothing | Met::Damaged => handover.holder.ready(TASK_MAX)?,
        }
        handover.waiter.send(&Request::Fault(Task::Take(handover.session)))?;
    }
    Ok(())
}

/// Whether the waiter gets the session in time; one that does not is killed.
fn take(
    handover: &mut Handover,
    stuck_after: Duration,
    journal: &mut Journal,
    found: &mut Findings,
) -> Result<bool, Failure> {
    let waited = Duration::from_nanos(now_ns().saturating_sub(handover.killed_ns));
    if !handover.waiter.readable(stuck_after.saturating_sub(waited))? {
        handover.waiter.kill();
        found.stuck(stuck_after);
        return Ok(false);
    }
    let step = step_of(&mut handover.waiter)?;
    journal.change(&step, Some(Kill::of_workers(handover.killed_ns)), found);
    match &step.met {
        Met::Failed(failure) => found.fail(&failure.message),
        _ if step.granted_ns < handover.killed_ns => {
            found.fail("a session was given to a second worker while the first one held it");
        }
        Met::Counter(_) | Met::Nothing | Met::Damaged => {
            found.times_ns.push(step.granted_ns - handover.killed_ns);
        }
    }
    Ok(true)
}

fn step_of(process: &mut Process) -> Result<Step, Failure> {
    match process.receive(TASK_MAX)? {
        Reply::Step(step) => Ok(step),
        other => Err(unexpected(&other)),
    }
}

/// A worker that was not there before reads all these sessions.
pub(super) fn look(
    scene: &Scene<'_>,
    sessions: std::ops::Range<usize>,
    journal: &mut Journal,
    kill: Option<Kill>,
    found: &mut Findings,
) -> Result<(), Failure> {
    let mut reader = scene.worker()?;
    reader.send(&Request::Fault(Task::Look(sessions)))?;
    let looked = match reader.receive(TASK_MAX)? {
        Reply::Looked(looked) => looked,
        other => return Err(unexpected(&other)),
    };
    for step in looked {
        journal.look(&step, kill, found);
        if let Met::Failed(failure) = step.met {
            found.faults.unreadable += 1;
            found.first_error.get_or_insert(failure.message);
        }
    }
    Ok(())
}
