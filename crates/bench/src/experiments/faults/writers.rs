//! Workers under load are killed one by one at random moments and replaced.
//!
//! Each has sessions of its own, so nobody waits for a dead worker here, and its last write stays.

use std::time::Duration;

use super::holder::check_sessions;
use super::journal::{Journal, Kill};
use super::load_worker::{LoadWorker, LoaderLog, stop_all};
use super::{FaultFindings, FaultRun, SessionLayout};
use crate::interruption::interrupted;
use crate::monotonic::now_ns;
use crate::worker::faults::FoundContent;
use crate::worker::protocol::ContenderFailure;

/// Shortest load before a kill; the longest is twice this.
const BEFORE: Duration = Duration::from_millis(20);

pub(super) fn measure(
    run: &mut FaultRun<'_>,
    layout: &SessionLayout,
    workers: usize,
    journal: &mut Journal,
) -> Result<FaultFindings, ContenderFailure> {
    let mut found = FaultFindings::new(run);
    let mut unused =
        layout.written.clone().step_by(layout.each).map(|first| first..first + layout.each);
    let mut loaders = Vec::new();
    for sessions in unused.by_ref().take(workers) {
        loaders.push(LoadWorker::start(run, sessions)?);
    }
    let mut log = Vec::new();
    for sessions in unused {
        if interrupted() {
            break;
        }
        let moment = BEFORE.mul_f64(run.random.f64());
        run.wait(BEFORE + moment);
        let victim = run.random.usize(..loaders.len());
        let mut dead = loaders.swap_remove(victim);
        let at_ns = now_ns();
        dead.kill();
        found.faults.kills += 1;
        log.push((dead.drain()?, at_ns));
        loaders.push(LoadWorker::start(run, sessions)?);
    }
    let end_ns = now_ns();
    log.extend(stop_all(loaders, run.stuck_after)?.into_iter().map(|log| (log, end_ns)));
    for (log, at_ns) in log {
        record_log(log, Kill::of_workers(at_ns), run, journal, &mut found);
    }
    let kill = Kill::of_workers(end_ns);
    check_sessions(run, layout.written.clone(), journal, Some(kill), &mut found)?;
    Ok(found)
}

fn record_log(
    log: LoaderLog,
    kill: Kill,
    run: &FaultRun<'_>,
    journal: &mut Journal,
    found: &mut FaultFindings,
) {
    if log.stuck {
        found.count_stuck(run.stuck_after);
    }
    for access in &log.accesses {
        journal.record_change(access, Some(kill), found);
        if let FoundContent::Failed(failure) = &access.found {
            found.count_failure(&failure.message);
        }
    }
}
