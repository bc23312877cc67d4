//! Everything dies at once: the server under load, which is then started again, or all processes of an embedded store, which
//! others then open.
//!
//! The workers of a server go on meanwhile. What they are told in between is counted, and is no fault: somebody was told.

use std::time::{Duration, Instant};

use super::holder::look;
use super::journal::{Journal, Kill};
use super::loader::{Heard, Loader};
use super::writers::STOP_WITHIN;
use super::{Findings, Layout, Scene, kills_of_all};
use crate::interruption::interrupted;
use crate::monotonic::now_ns;
use crate::report::Promise;
use crate::statistics::Spread;
use crate::worker::faults::{Met, Step};
use crate::worker::process::failure;
use crate::worker::protocol::Failure;

/// A worker that does not work again so long after the server does never will.
const WORKS_WITHIN: Duration = Duration::from_secs(30);
/// The load goes on for so long when all work again.
const AFTERWARDS: Duration = Duration::from_millis(100);
/// What is younger than a second is not promised in the tier that syncs each second: there must be something older.
const SECONDS_OF_SECOND: f64 = 1.5;

/// When what happened, in nanoseconds of the monotonic clock.
struct Crash {
    kill: Kill,
    /// Nothing of what was killed runs any more.
    dead_ns: u64,
    /// The server answers again.
    back_ns: u64,
}

pub(super) fn measure(
    scene: &mut Scene<'_>,
    layout: &Layout,
    workers: usize,
    served: bool,
    journal: &mut Journal,
) -> Result<Findings, Failure> {
    use sessile_core::Durability;

    let settings = &scene.bench.settings;
    let promise = match settings.durability {
        _ if !served => Promise::Everything,
        Durability::None => Promise::Nothing,
        Durability::Second => Promise::AllButTheLastSecond,
        Durability::Commit => Promise::Everything,
    };
    let least = if promise == Promise::AllButTheLastSecond { SECONDS_OF_SECOND } else { 0.0 };
    let load = Duration::from_secs_f64(settings.seconds.max(least));
    let rounds = kills_of_all(settings.rounds);
    let mut found = Findings::new(scene);
    found.faults.promise = promise;
    let mut down_us = Vec::new();
    for _ in 0..rounds {
        if interrupted() {
            break;
        }
        let loaders = start_all(scene, layout, workers)?;
        scene.wait(load);
        let crash = if served {
            served_round(scene, loaders, promise, journal, &mut found)?
        } else {
            embedded_round(scene, loaders, layout, journal, &mut found)?
        };
        down_us.push((crash.back_ns - crash.kill.at_ns) as f64 / 1e3);
        found.faults.kills += 1;
        // Its workers were killed too, or do not find back to their server.
        let (member, launch) = (&mut *scene.member, &scene.bench.launch);
        member.crew.renew(launch, &member.opening, member.stage.server_pid())?;
        look(scene, layout.last.clone(), journal, Some(crash.kill), &mut found)?;
    }
    found.faults.down_us = served.then(|| Spread::of(&down_us).median);
    found.faults.slowest_of_each_kill = !served;
    Ok(found)
}

fn start_all(scene: &mut Scene<'_>, layout: &Layout, workers: usize) -> Result<Vec<Loader>, Failure> {
    let firsts = layout.last.clone().step_by(layout.each).take(workers);
    firsts.map(|first| Loader::start(scene, first..first + layout.each)).collect()
}

fn served_round(
    scene: &mut Scene<'_>,
    loaders: Vec<Loader>,
    promise: Promise,
    journal: &mut Journal,
    found: &mut Findings,
) -> Result<Crash, Failure> {
    let at_ns = now_ns();
    scene.member.stage.kill_server();
    let dead_ns = now_ns();
    scene.member.stage.restart_server().map_err(|why| failure("restart", why))?;
    let back_ns = now_ns();
    let crash = Crash { kill: Kill { at_ns, over_ns: back_ns, promise }, dead_ns, back_ns };
    let deadline = Instant::now() + WORKS_WITHIN;
    while !loaders.iter().all(|loader| loader.works_since(dead_ns)) && Instant::now() < deadline && !interrupted() {
        std::thread::sleep(Duration::from_millis(1));
    }
    scene.wait(AFTERWARDS);
    for loader in loaders {
        let heard = loader.stop(scene.stuck_after + STOP_WITHIN)?;
        if heard.stuck {
            found.stuck(scene.stuck_after);
        }
        match heard.steps.iter().find(|step| step.asked_ns > dead_ns && is_update(step)) {
            Some(first) => found.times_ns.push(first.ended_ns.saturating_sub(crash.kill.at_ns)),
            None => found.fail(&format!("a worker did not work again within {} s", WORKS_WITHIN.as_secs())),
        }
        account(&heard, &crash, journal, found);
    }
    Ok(crash)
}

fn embedded_round(
    scene: &mut Scene<'_>,
    mut loaders: Vec<Loader>,
    layout: &Layout,
    journal: &mut Journal,
    found: &mut Findings,
) -> Result<Crash, Failure> {
    let kill = Kill::of_workers(now_ns());
    scene.member.crew.kill();
    loaders.iter_mut().for_each(Loader::kill);
    let workers = loaders.len();
    let words = loaders.into_iter().map(Loader::last_words).collect::<Result<Vec<Heard>, Failure>>()?;
    scene.member.crew.reap();
    let now = now_ns();
    let crash = Crash { kill, dead_ns: now, back_ns: now };
    words.iter().for_each(|heard| account(heard, &crash, journal, found));
    let successors = start_all(scene, layout, workers)?;
    // Until each has done something, on a machine that is busy with something else, too. One that waits for a lock has not.
    let deadline = Instant::now() + scene.stuck_after + STOP_WITHIN;
    while !successors.iter().all(|loader| loader.works_since(now)) && Instant::now() < deadline && !interrupted() {
        std::thread::sleep(Duration::from_millis(1));
    }
    scene.wait(AFTERWARDS);
    let mut took_ns = Vec::new();
    for loader in successors {
        let heard = loader.stop(scene.stuck_after + STOP_WITHIN)?;
        if heard.stuck {
            found.stuck(scene.stuck_after);
        }
        let first = heard.steps.iter().find(|step| is_update(step));
        let took =
            first.zip(heard.open_ns).map(|(first, open_ns)| open_ns + first.ended_ns.saturating_sub(first.asked_ns));
        if took.is_none() && !heard.stuck {
            found.fail("a worker that opened the store anew did not get anything done");
        }
        took_ns.push(took);
        account(&heard, &crash, journal, found);
    }
    found.times_ns.extend(slowest(took_ns));
    Ok(crash)
}

/// The one time of a kill: what the visitor waits for who waits longest. They open the store one after the other, so the first of
/// them recovers it for all, and each may meet a lock of the dead. There is none if one of them never got anything done.
fn slowest(took_ns: Vec<Option<u64>>) -> Option<u64> {
    took_ns.into_iter().collect::<Option<Vec<u64>>>()?.into_iter().max()
}

fn is_update(step: &Step) -> bool {
    matches!(step.met, Met::Counter(_) | Met::Nothing)
}

/// What fails while the server is gone, or was under way when it went, was refused; anything before is a fault, and so is
/// what fails after the worker has worked again, and anything where no server is.
fn account(heard: &Heard, crash: &Crash, journal: &mut Journal, found: &mut Findings) {
    let served = crash.back_ns > crash.dead_ns;
    let again = heard.steps.iter().find(|step| step.asked_ns > crash.dead_ns && is_update(step));
    let again_ns = again.map_or(u64::MAX, |step| step.ended_ns);
    for step in &heard.steps {
        let kill = (step.ended_ns >= crash.kill.at_ns).then_some(crash.kill);
        journal.change(step, kill, found);
        match &step.met {
            Met::Failed(_) if served && step.ended_ns >= crash.kill.at_ns && step.asked_ns < again_ns => {
                found.faults.refused += 1;
            }
            Met::Failed(failure) => found.fail(&failure.message),
            Met::Counter(_) | Met::Nothing | Met::Damaged => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The median over all who opened the store was shown as the time to recover it, which only the first of them had done.
    #[test]
    fn the_time_of_a_kill_contains_the_recovery_whoever_does_it() {
        assert_eq!(slowest(vec![Some(900), Some(2), Some(3), Some(2)]), Some(900));
        assert_eq!(slowest(vec![Some(2), Some(700)]), Some(700));
        assert_eq!(slowest(vec![Some(900), None]), None, "one of them still waits");
    }
}
