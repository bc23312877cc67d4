//! Workers under load are killed one by one at random moments and replaced.
//!
//! Each has sessions of its own, so nobody waits for a dead worker here, and its last write stays.

use std::time::Duration;

use super::FaultRun;
use super::load_worker::LoadWorker;
use crate::interruption::interrupted;
use crate::worker::protocol::WorkerResult;

/// Shortest load before a kill; the longest is twice this.
const BEFORE: Duration = Duration::from_millis(20);

pub(super) fn measure(run: &mut FaultRun<'_>) -> WorkerResult<()> {
    let (written, each) = (run.layout.written.clone(), run.layout.each);
    let mut unused = written.clone().step_by(each).map(|first| first..first + each);
    let mut loaders = Vec::new();
    for sessions in unused.by_ref().take(run.workers) {
        loaders.push(LoadWorker::start(run, sessions)?);
    }
    let mut logs = Vec::new();
    for sessions in unused {
        if interrupted() {
            break;
        }
        let moment = BEFORE.mul_f64(run.random.f64());
        run.wait(BEFORE + moment);
        let victim = run.random.usize(..loaders.len());
        let mut dead = loaders.swap_remove(victim);
        dead.kill();
        run.found.faults.kills += 1;
        logs.push(dead.drain()?);
        loaders.push(LoadWorker::start(run, sessions)?);
    }
    logs.extend(run.stop_all(loaders, run.stuck_after)?);
    // The store survives, so nothing is excused.
    logs.iter().for_each(|log| run.record(log, None, 0));
    run.check_sessions(written, None)
}
