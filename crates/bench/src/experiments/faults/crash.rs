//! Everything dies at once: the server under load, or all processes of an embedded store.
//!
//! The workers of a server go on meanwhile. Errors that they get in between are counted and are no
//! fault.

use std::time::{Duration, Instant};

use sessile_core::Durability;
use sessile_results::DurabilityPromise;
use sessile_results::statistics::Spread;

use super::journal::Kill;
use super::load_worker::{LoadWorker, LoaderLog, STOP_WITHIN, await_updates};
use super::{FaultRun, kills_of_all};
use crate::interruption::interrupted;
use crate::monotonic::now_ns;
use crate::worker::process::failure;
use crate::worker::protocol::WorkerResult;

/// After the server is back.
const WORKS_WITHIN: Duration = Duration::from_secs(30);
/// The load goes on this long after all workers work again.
const AFTERWARDS: Duration = Duration::from_millis(100);
/// The tier that syncs each second promises nothing about the last second, so the load must last
/// longer.
const SECONDS_OF_SECOND: f64 = 1.5;

pub(super) fn measure(run: &mut FaultRun<'_>, served: bool) -> WorkerResult<()> {
    let settings = &run.bench.settings;
    let promise = match run.contender.choice.tier() {
        _ if !served => DurabilityPromise::Everything,
        Durability::None => DurabilityPromise::Nothing,
        Durability::Second => DurabilityPromise::AllButTheLastSecond,
        Durability::Commit => DurabilityPromise::Everything,
    };
    run.found.faults.promise = promise;
    let least =
        if promise == DurabilityPromise::AllButTheLastSecond { SECONDS_OF_SECOND } else { 0.0 };
    let load = Duration::from_secs_f64(settings.seconds.max(least));
    let mut down_us = Vec::new();
    for _ in 0..kills_of_all(settings.rounds) {
        if interrupted() {
            break;
        }
        let loaders = run.start_all()?;
        run.wait(load);
        let kill = if served {
            served_round(run, loaders, promise)?
        } else {
            embedded_round(run, loaders)?
        };
        down_us.push((kill.over_ns - kill.at_ns) as f64 / 1e3);
        run.found.faults.kills += 1;
        // Its workers were killed too, or cannot reconnect to their server.
        let (contender, launch) = (&mut *run.contender, &run.bench.launch);
        contender.group.replace_killed(
            launch,
            &contender.opening,
            contender.deployment.server_pid(),
        )?;
        run.check_sessions(run.layout.last.clone(), Some(kill))?;
    }
    run.found.faults.down_us = served.then(|| Spread::of(&down_us).median);
    Ok(())
}

fn served_round(
    run: &mut FaultRun<'_>,
    loaders: Vec<LoadWorker>,
    promise: DurabilityPromise,
) -> WorkerResult<Kill> {
    let at_ns = now_ns();
    run.contender.deployment.kill_server();
    let dead_ns = now_ns();
    run.contender.deployment.restart_server().map_err(|why| failure("restart", why))?;
    let kill = Kill { at_ns, over_ns: now_ns(), promise };
    await_updates(&loaders, dead_ns, Instant::now() + WORKS_WITHIN);
    run.wait(AFTERWARDS);
    for log in run.stop_all(loaders, run.stuck_after)? {
        let again_ns = log.update_since(dead_ns).map(|first| first.ended_ns);
        match again_ns {
            Some(again_ns) => run.found.times_ns.push(again_ns.saturating_sub(at_ns)),
            None if log.stuck => {}
            None => run.found.count_failure(&format!(
                "a worker did not work again within {} s",
                WORKS_WITHIN.as_secs()
            )),
        }
        // What it asked for before it worked again is refused.
        run.record(&log, Some(kill), again_ns.map_or(u64::MAX, |again_ns| again_ns - 1));
    }
    Ok(kill)
}

fn embedded_round(run: &mut FaultRun<'_>, mut loaders: Vec<LoadWorker>) -> WorkerResult<Kill> {
    let at_ns = now_ns();
    run.contender.group.kill();
    loaders.iter_mut().for_each(LoadWorker::kill);
    let logs = loaders.into_iter().map(LoadWorker::drain);
    let logs = logs.collect::<WorkerResult<Vec<LoaderLog>>>()?;
    run.contender.group.reap();
    // The store survives, so nothing is excused and nothing refused.
    let kill = Kill { at_ns, over_ns: now_ns(), promise: DurabilityPromise::Everything };
    logs.iter().for_each(|log| run.record(log, Some(kill), 0));
    let successors = run.start_all()?;
    // Each must have done something, also on a busy machine. A worker that waits for a lock has
    // not.
    let stuck_from = Instant::now() + run.stuck_after;
    await_updates(&successors, kill.over_ns, stuck_from + STOP_WITHIN);
    run.wait(AFTERWARDS);
    let mut took_ns = Vec::new();
    // What has waited in vain until now need not be waited for once more.
    let rest = stuck_from.saturating_duration_since(Instant::now());
    for log in run.stop_all(successors, rest)? {
        let first = log.update_since(0).zip(log.open_ns);
        let took =
            first.map(|(first, open_ns)| open_ns + first.ended_ns.saturating_sub(first.asked_ns));
        if took.is_none() && !log.stuck {
            run.found
                .count_failure("a worker that opened the store anew did not complete an operation");
        }
        took_ns.push(took);
        run.record(&log, Some(kill), 0);
    }
    run.found.times_ns.extend(slowest(took_ns));
    Ok(kill)
}

/// The longest recovery of a kill. The first process recovers the store for all, and each may meet
/// a lock of a dead one. `None` if one process never recovered.
fn slowest(took_ns: Vec<Option<u64>>) -> Option<u64> {
    took_ns.into_iter().collect::<Option<Vec<u64>>>()?.into_iter().max()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The median over all who opened the store was shown as the time to recover it, which only the
    /// first of them had done.
    #[test]
    fn the_time_of_a_kill_contains_the_recovery() {
        assert_eq!(slowest(vec![Some(900), Some(2), Some(3), Some(2)]), Some(900));
        assert_eq!(slowest(vec![Some(2), Some(700)]), Some(700));
        assert_eq!(slowest(vec![Some(900), None]), None, "one of them still waits");
    }
}
