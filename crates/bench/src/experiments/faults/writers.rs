//! Workers under load are killed one after the other, each at a random moment, and others take their places.
//!
//! Each has sessions of its own, so nobody waits for a dead one here, and what it wrote last stays as it left it.

use std::time::Duration;

use super::holder::look;
use super::journal::{Journal, Kill};
use super::loader::{Heard, Loader};
use super::{Findings, Layout, Scene};
use crate::interruption::interrupted;
use crate::monotonic::now_ns;
use crate::worker::faults::Met;
use crate::worker::protocol::Failure;

/// The load lasts at least this long before each kill, and up to as long again.
const BEFORE: Duration = Duration::from_millis(20);

pub(super) fn measure(
    scene: &mut Scene<'_>,
    layout: &Layout,
    workers: usize,
    journal: &mut Journal,
) -> Result<Findings, Failure> {
    let mut found = Findings::new(scene);
    let mut unused = layout.written.clone().step_by(layout.each).map(|first| first..first + layout.each);
    let mut loaders = Vec::new();
    for sessions in unused.by_ref().take(workers) {
        loaders.push(Loader::start(scene, sessions)?);
    }
    let mut heard = Vec::new();
    for sessions in unused {
        if interrupted() {
            break;
        }
        let moment = BEFORE.mul_f64(scene.random.f64());
        scene.wait(BEFORE + moment);
        let victim = scene.random.usize(..loaders.len());
        let mut dead = loaders.swap_remove(victim);
        let at_ns = now_ns();
        dead.kill();
        found.faults.kills += 1;
        heard.push((dead.last_words()?, at_ns));
        loaders.push(Loader::start(scene, sessions)?);
    }
    let end_ns = now_ns();
    for loader in loaders {
        heard.push((loader.stop(scene.stuck_after + STOP_WITHIN)?, end_ns));
    }
    for (heard, at_ns) in heard {
        account(heard, Kill::of_workers(at_ns), scene, journal, &mut found);
    }
    let kill = Kill::of_workers(end_ns);
    look(scene, layout.written.clone(), journal, Some(kill), &mut found)?;
    Ok(found)
}

/// How long the last operation of a worker may take beside a wait for a lock.
pub(super) const STOP_WITHIN: Duration = Duration::from_secs(2);

fn account(heard: Heard, kill: Kill, scene: &Scene<'_>, journal: &mut Journal, found: &mut Findings) {
    if heard.stuck {
        found.stuck(scene.stuck_after);
    }
    for step in &heard.steps {
        journal.change(step, Some(kill), found);
        if let Met::Failed(failure) = &step.met {
            found.fail(&failure.message);
        }
    }
}
