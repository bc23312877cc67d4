//! A worker under load, which changes sessions of its own and reports each acknowledged commit.
//!
//! Invariant: every report from before the kill is read, and nothing after it.

use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::process::ChildStdout;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::FaultRun;
use crate::interruption::interrupted;
use crate::worker::faults::{FaultTask, SessionAccess, UpdateLoad};
use crate::worker::process::{TASK_MAX, WorkerProcess, failure, unexpected};
use crate::worker::protocol::{ContenderFailure, WorkerReply, WorkerRequest, WorkerResult};

/// For the last operation of a worker, beside a wait for a lock.
pub(super) const STOP_WITHIN: Duration = Duration::from_secs(2);

/// Killed when dropped.
pub(super) struct LoadWorker {
    process: WorkerProcess,
    listening: JoinHandle<LoaderLog>,
    /// When the last acknowledged update was asked for.
    last_asked_ns: Arc<AtomicU64>,
}

#[derive(Default)]
pub(super) struct LoaderLog {
    /// In order.
    pub accesses: Vec<SessionAccess>,
    /// Duration of opening the contender, if it was stopped and not killed.
    pub open_ns: Option<u64>,
    /// It waited for a lock when it was asked to stop, and was killed.
    pub stuck: bool,
    /// It ended by itself, or broke the protocol.
    pub(super) failure: Option<ContenderFailure>,
}

impl LoadWorker {
    /// Starts a process that changes these sessions.
    pub(super) fn start(
        run: &mut FaultRun<'_>,
        sessions: Range<usize>,
    ) -> WorkerResult<LoadWorker> {
        let mut process = run.open_worker()?;
        process.send(&WorkerRequest::Fault(FaultTask::Load(UpdateLoad {
            sessions,
            seed: run.random.u64(..),
        })))?;
        process.ready(TASK_MAX, interrupted)?;
        let replies = process.take_replies()?;
        let last_asked_ns = Arc::new(AtomicU64::new(0));
        let last = last_asked_ns.clone();
        let listening = std::thread::spawn(move || listen(replies, &last));
        Ok(LoadWorker { process, listening, last_asked_ns })
    }

    /// Whether an update that was asked for after this moment is acknowledged.
    fn works_since(&self, moment_ns: u64) -> bool {
        // Relaxed: publishes nothing else.
        self.last_asked_ns.load(Ordering::Relaxed) > moment_ns
    }

    /// Does not wait for its end.
    pub(super) fn kill(&mut self) {
        self.process.kill();
    }

    /// All reports of a killed worker.
    pub(super) fn drain(mut self) -> WorkerResult<LoaderLog> {
        self.process.reap();
        Ok(LoaderLog { failure: None, ..self.joined()? })
    }

    fn joined(self) -> WorkerResult<LoaderLog> {
        let unread = |_| failure("worker", "the reports of a worker were not read");
        self.listening.join().map_err(unread)
    }

    fn stopped_by(mut self, deadline: Instant) -> WorkerResult<LoaderLog> {
        while !self.listening.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !self.listening.is_finished() {
            self.kill();
            return Ok(LoaderLog { stuck: true, ..self.drain()? });
        }
        let mut log = self.joined()?;
        log.failure.take().map_or(Ok(log), Err)
    }
}

impl LoaderLog {
    /// The first update that was asked for after this moment and acknowledged.
    pub(super) fn update_since(&self, moment_ns: u64) -> Option<&SessionAccess> {
        self.accesses.iter().find(|access| access.asked_ns > moment_ns && access.is_update())
    }
}

/// Until each worker has an update acknowledged that it asked for after this moment.
pub(super) fn await_updates(loaders: &[LoadWorker], since_ns: u64, deadline: Instant) {
    while !loaders.iter().all(|loader| loader.works_since(since_ns))
        && Instant::now() < deadline
        && !interrupted()
    {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills those that wait for a lock longer than `stuck_after`. All are asked first: otherwise their
/// waits would add up.
pub(super) fn stop_all(
    mut loaders: Vec<LoadWorker>,
    stuck_after: Duration,
) -> WorkerResult<Vec<LoaderLog>> {
    for loader in &mut loaders {
        // If it has ended, its log says why.
        let _ = loader.process.send(&WorkerRequest::Stop);
    }
    let deadline = Instant::now() + stuck_after + STOP_WITHIN;
    loaders.into_iter().map(|loader| loader.stopped_by(deadline)).collect()
}

fn listen(replies: BufReader<ChildStdout>, last_asked_ns: &AtomicU64) -> LoaderLog {
    let mut log = LoaderLog::default();
    for line in replies.lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(WorkerReply::Access(access)) => {
                if access.is_update() {
                    last_asked_ns.store(access.asked_ns, Ordering::Relaxed);
                }
                log.accesses.push(access);
            }
            Ok(WorkerReply::Stopped { open_ns }) => {
                log.open_ns = Some(open_ns);
                return log;
            }
            Ok(other) => {
                log.failure = Some(unexpected(&other));
                return log;
            }
            // The last line of a killed worker may be cut off.
            Err(_) => break,
        }
    }
    log.failure = Some(failure("worker", "a worker ended during the measurement"));
    log
}
