//! Everything dies at once: the server under load, or all processes of an embedded store.
//!
//! The workers of a server go on meanwhile. Errors that they get in between are counted and are no
//! fault.

use std::time::{Duration, Instant};

use sessile_results::DurabilityPromise;
use sessile_results::statistics::Spread;

use super::holder::check_sessions;
use super::journal::{Journal, Kill};
use super::load_worker::{LoadWorker, LoaderLog, STOP_WITHIN, stop_all};
use super::{FaultFindings, FaultRun, SessionLayout, kills_of_all};
use crate::interruption::interrupted;
use crate::monotonic::now_ns;
use crate::worker::faults::{FoundContent, SessionAccess};
use crate::worker::process::failure;
use crate::worker::protocol::ContenderFailure;

/// After the server is back.
const WORKS_WITHIN: Duration = Duration::from_secs(30);
/// The load goes on this long after all workers work again.
const AFTERWARDS: Duration = Duration::from_millis(100);
/// The tier that syncs each second promises nothing about the last second, so the load must last
/// longer.
const SECONDS_OF_SECOND: f64 = 1.5;

/// In nanoseconds of the monotonic clock.
struct CrashTimes {
    kill: Kill,
    /// All killed processes are gone.
    dead_ns: u64,
    back_ns: u64,
}

pub(super) fn measure(
    run: &mut FaultRun<'_>,
    layout: &SessionLayout,
    workers: usize,
    served: bool,
    journal: &mut Journal,
) -> Result<FaultFindings, ContenderFailure> {
    use sessile_core::Durability;

    let settings = &run.bench.settings;
    let promise = match run.contender.choice.tier() {
        _ if !served => DurabilityPromise::Everything,
        Durability::None => DurabilityPromise::Nothing,
        Durability::Second => DurabilityPromise::AllButTheLastSecond,
        Durability::Commit => DurabilityPromise::Everything,
    };
    let least =
        if promise == DurabilityPromise::AllButTheLastSecond { SECONDS_OF_SECOND } else { 0.0 };
    let load = Duration::from_secs_f64(settings.seconds.max(least));
    let rounds = kills_of_all(settings.rounds);
    let mut found = FaultFindings::new(run);
    found.faults.promise = promise;
    let mut down_us = Vec::new();
    for _ in 0..rounds {
        if interrupted() {
            break;
        }
        let loaders = start_all(run, layout, workers)?;
        run.wait(load);
        let crash = if served {
            served_round(run, loaders, promise, journal, &mut found)?
        } else {
            embedded_round(run, loaders, layout, journal, &mut found)?
        };
        down_us.push((crash.back_ns - crash.kill.at_ns) as f64 / 1e3);
        found.faults.kills += 1;
        // Its workers were killed too, or cannot reconnect to their server.
        let (contender, launch) = (&mut *run.contender, &run.bench.launch);
        contender.group.replace_killed(
            launch,
            &contender.opening,
            contender.deployment.server_pid(),
        )?;
        check_sessions(run, layout.last.clone(), journal, Some(crash.kill), &mut found)?;
    }
    found.faults.down_us = served.then(|| Spread::of(&down_us).median);
    Ok(found)
}

pub(super) fn start_all(
    run: &mut FaultRun<'_>,
    layout: &SessionLayout,
    workers: usize,
) -> Result<Vec<LoadWorker>, ContenderFailure> {
    let firsts = layout.last.clone().step_by(layout.each).take(workers);
    firsts.map(|first| LoadWorker::start(run, first..first + layout.each)).collect()
}

fn served_round(
    run: &mut FaultRun<'_>,
    loaders: Vec<LoadWorker>,
    promise: DurabilityPromise,
    journal: &mut Journal,
    found: &mut FaultFindings,
) -> Result<CrashTimes, ContenderFailure> {
    let at_ns = now_ns();
    run.contender.deployment.kill_server();
    let dead_ns = now_ns();
    run.contender.deployment.restart_server().map_err(|why| failure("restart", why))?;
    let back_ns = now_ns();
    let crash = CrashTimes { kill: Kill { at_ns, over_ns: back_ns, promise }, dead_ns, back_ns };
    let deadline = Instant::now() + WORKS_WITHIN;
    while !loaders.iter().all(|loader| loader.works_since(dead_ns))
        && Instant::now() < deadline
        && !interrupted()
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    run.wait(AFTERWARDS);
    for log in stop_all(loaders, run.stuck_after)? {
        if log.stuck {
            found.count_stuck(run.stuck_after);
        }
        match log.accesses.iter().find(|access| access.asked_ns > dead_ns && is_update(access)) {
            Some(first) => found.times_ns.push(first.ended_ns.saturating_sub(crash.kill.at_ns)),
            None => found.count_failure(&format!(
                "a worker did not work again within {} s",
                WORKS_WITHIN.as_secs()
            )),
        }
        record_log(&log, &crash, journal, found);
    }
    Ok(crash)
}

fn embedded_round(
    run: &mut FaultRun<'_>,
    mut loaders: Vec<LoadWorker>,
    layout: &SessionLayout,
    journal: &mut Journal,
    found: &mut FaultFindings,
) -> Result<CrashTimes, ContenderFailure> {
    let kill = Kill::of_workers(now_ns());
    run.contender.group.kill();
    loaders.iter_mut().for_each(LoadWorker::kill);
    let workers = loaders.len();
    let words = loaders
        .into_iter()
        .map(LoadWorker::drain)
        .collect::<Result<Vec<LoaderLog>, ContenderFailure>>()?;
    run.contender.group.reap();
    let now = now_ns();
    let crash = CrashTimes { kill, dead_ns: now, back_ns: now };
    words.iter().for_each(|log| record_log(log, &crash, journal, found));
    let successors = start_all(run, layout, workers)?;
    // Each must have done something, also on a busy machine. A worker that waits for a lock has
    // not.
    let stuck_from = Instant::now() + run.stuck_after;
    let deadline = stuck_from + STOP_WITHIN;
    while !successors.iter().all(|loader| loader.works_since(now))
        && Instant::now() < deadline
        && !interrupted()
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    run.wait(AFTERWARDS);
    let mut took_ns = Vec::new();
    // What has waited in vain until now need not be waited for once more.
    let rest = stuck_from.saturating_duration_since(Instant::now());
    for log in stop_all(successors, rest)? {
        if log.stuck {
            found.count_stuck(run.stuck_after);
        }
        let first = log.accesses.iter().find(|access| is_update(access));
        let took = first
            .zip(log.open_ns)
            .map(|(first, open_ns)| open_ns + first.ended_ns.saturating_sub(first.asked_ns));
        if took.is_none() && !log.stuck {
            found
                .count_failure("a worker that opened the store anew did not complete an operation");
        }
        took_ns.push(took);
        record_log(&log, &crash, journal, found);
    }
    found.times_ns.extend(slowest(took_ns));
    Ok(crash)
}

/// The longest recovery of a kill. The first process recovers the store for all, and each may meet
/// a lock of a dead one. `None` if one process never recovered.
fn slowest(took_ns: Vec<Option<u64>>) -> Option<u64> {
    took_ns.into_iter().collect::<Option<Vec<u64>>>()?.into_iter().max()
}

pub(super) fn is_update(access: &SessionAccess) -> bool {
    matches!(access.found, FoundContent::Counter(_) | FoundContent::Nothing)
}

/// An operation is refused, not failed, if a server was killed, it ended after the kill, and it
/// began before the worker worked again.
fn record_log(
    log: &LoaderLog,
    crash: &CrashTimes,
    journal: &mut Journal,
    found: &mut FaultFindings,
) {
    let served = crash.back_ns > crash.dead_ns;
    let again =
        log.accesses.iter().find(|access| access.asked_ns > crash.dead_ns && is_update(access));
    let again_ns = again.map_or(u64::MAX, |access| access.ended_ns);
    for access in &log.accesses {
        let kill = (access.ended_ns >= crash.kill.at_ns).then_some(crash.kill);
        journal.record_change(access, kill, found);
        match &access.found {
            FoundContent::Failed(_)
                if served && access.ended_ns >= crash.kill.at_ns && access.asked_ns < again_ns =>
            {
                found.faults.refused += 1;
            }
            FoundContent::Failed(failure) => found.count_failure(&failure.message),
            FoundContent::Counter(_) | FoundContent::Nothing | FoundContent::Damaged => {}
        }
    }
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
