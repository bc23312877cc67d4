//! A worker under load: it changes sessions of its own and reports each acknowledged commit; somebody listens all the time.
//!
//! Invariant: what it said before it was killed is heard to the end, and nothing is read after that.

use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::process::ChildStdout;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Scene;
use crate::worker::faults::{Load, Met, Step, Task};
use crate::worker::process::{Process, TASK_MAX, failure, unexpected};
use crate::worker::protocol::{Failure, Reply, Request};

/// A worker under load. Gone when it is dropped.
pub(super) struct Loader {
    process: Process,
    listening: JoinHandle<Heard>,
    /// When the last update that was acknowledged had been asked for.
    last_asked_ns: Arc<AtomicU64>,
}

/// What was heard of a worker.
#[derive(Default)]
pub(super) struct Heard {
    /// All that it did, in order.
    pub steps: Vec<Step>,
    /// How long it took to open the contender; only of one that was stopped and not killed.
    pub open_ns: Option<u64>,
    /// It did not stop when it was asked to, because it waits for a lock, and was killed.
    pub stuck: bool,
    /// It ended by itself, or said something else.
    failure: Option<Failure>,
}

impl Loader {
    /// A new process that works on these sessions.
    pub(super) fn start(scene: &mut Scene<'_>, sessions: Range<usize>) -> Result<Loader, Failure> {
        let mut process = scene.worker()?;
        process.send(&Request::Fault(Task::Load(Load { sessions, seed: scene.random.u64(..) })))?;
        process.ready(TASK_MAX)?;
        let replies = process.take_replies()?;
        let last_asked_ns = Arc::new(AtomicU64::new(0));
        let last = last_asked_ns.clone();
        let listening = std::thread::spawn(move || listen(replies, &last));
        Ok(Loader { process, listening, last_asked_ns })
    }

    /// Whether an update that was asked for after this moment has been acknowledged.
    pub(super) fn works_since(&self, moment_ns: u64) -> bool {
        // Relaxed: a number that publishes nothing else.
        self.last_asked_ns.load(Ordering::Relaxed) > moment_ns
    }

    /// Kills it with SIGKILL, and does not wait until it is gone.
    pub(super) fn kill(&mut self) {
        self.process.kill();
    }

    /// All that was heard of one that was killed.
    pub(super) fn last_words(mut self) -> Result<Heard, Failure> {
        self.process.reap();
        let heard = self.listening.join().map_err(|_| failure("worker", "what a worker said was not heard"))?;
        Ok(Heard { failure: None, ..heard })
    }

    /// Asks it to stop; one that waits for a lock for longer than this is killed.
    pub(super) fn stop(mut self, within: Duration) -> Result<Heard, Failure> {
        // One that cannot be asked has ended, and what was heard says why.
        let _ = self.process.send(&Request::Stop);
        let deadline = Instant::now() + within;
        while !self.listening.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !self.listening.is_finished() {
            self.kill();
            return Ok(Heard { stuck: true, ..self.last_words()? });
        }
        let heard = self.listening.join().map_err(|_| failure("worker", "what a worker said was not heard"))?;
        match heard.failure {
            Some(failure) => Err(failure),
            None => Ok(heard),
        }
    }
}

fn listen(replies: BufReader<ChildStdout>, last_asked_ns: &AtomicU64) -> Heard {
    let mut heard = Heard::default();
    for line in replies.lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(Reply::Step(step)) => {
                if matches!(step.met, Met::Counter(_) | Met::Nothing) {
                    last_asked_ns.store(step.asked_ns, Ordering::Relaxed);
                }
                heard.steps.push(step);
            }
            Ok(Reply::Stopped { open_ns }) => {
                heard.open_ns = Some(open_ns);
                return heard;
            }
            Ok(other) => {
                heard.failure = Some(unexpected(&other));
                return heard;
            }
            // The last line of one that is killed may be half a line; that is the end then.
            Err(_) => break,
        }
    }
    heard.failure = Some(failure("worker", "a worker ended during the measurement"));
    heard
}
