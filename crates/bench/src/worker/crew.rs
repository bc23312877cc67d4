//! The parent's side: the workers of one contender.
//!
//! Invariant: a crew that is dropped has no process left. A worker that dies, stays silent or answers
//! something else fails its contender's rows, never the run.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::monotonic::{now_ns, wait_until};
use crate::run::interrupted;
use crate::worker::memory::WorkerMemory;
use crate::worker::oversize::{Save, Saved};
use crate::worker::protocol::{Done, Failure, Opening, Plan, Range, Reply, Request, Sampled};

/// How this program is started as a worker.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl Launch {
    /// This program with the hidden verb.
    ///
    /// # Errors
    ///
    /// When the program's own file cannot be found.
    pub fn this_program(verb: &str) -> std::io::Result<Launch> {
        Ok(Launch { program: env::current_exe()?, arguments: vec![verb.into()] })
    }
}

/// The workers of one contender.
pub(crate) struct Crew {
    workers: Vec<Worker>,
}

struct Worker {
    child: Child,
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

/// Time for a task that is not measured: filling half a million files on a slow disk takes minutes.
const TASK_MAX: Duration = Duration::from_secs(3_600);
/// Time beyond the planned end of a sample: one operation may wait for a lock for long.
const SAMPLE_GRACE: Duration = Duration::from_secs(60);
/// How often the wait for a worker looks whether a signal ended the run: too seldom to be felt in a sample.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Crew {
    /// Starts the workers; all of them have opened the contender when this returns.
    pub(crate) fn start(launch: &Launch, opening: &Opening, count: usize) -> Result<Crew, Failure> {
        let mut crew = Crew { workers: Vec::with_capacity(count) };
        for worker in 0..count {
            let mut started = Worker::start(launch)?;
            started.send(&Opening { worker, ..opening.clone() })?;
            // One after the other: the first may create files that the others only open.
            started.ready(TASK_MAX)?;
            crew.workers.push(started);
        }
        Ok(crew)
    }

    /// One request to each of the first `count` workers, which share a range of sessions.
    pub(crate) fn share(
        &mut self,
        count: usize,
        range: Range,
        request: impl Fn(Range) -> Request,
    ) -> Result<Done, Failure> {
        let step = self.workers.len().min(count).max(1);
        for (number, worker) in self.workers.iter_mut().take(step).enumerate() {
            worker.send(&request(Range { from: range.from + number, step, ..range }))?;
        }
        let mut total = Done::default();
        for worker in self.workers.iter_mut().take(step) {
            let done = worker.done(TASK_MAX)?;
            total.count += done.count;
            total.counters += done.counters;
            total.misses += done.misses;
            total.errors += done.errors;
            total.first_error = total.first_error.or(done.first_error);
            total.cpu_us += done.cpu_us;
            total.elapsed_ns = total.elapsed_ns.max(done.elapsed_ns);
            total.longest_ns = total.longest_ns.max(done.longest_ns);
        }
        Ok(total)
    }

    /// What becomes of a large payload in the hands of the first worker.
    pub(crate) fn save(&mut self, save: Save) -> Result<Saved, Failure> {
        let worker = self.worker(0)?;
        worker.send(&Request::Save(save))?;
        match worker.receive(TASK_MAX)? {
            Reply::Saved(saved) => Ok(saved),
            other => Err(unexpected(&other)),
        }
    }

    /// The process of the first worker: where a store without a place of its own keeps its sessions.
    pub(crate) fn first_pid(&self) -> u32 {
        self.workers.first().map_or(0, |worker| worker.child.id())
    }

    /// What the first `count` workers occupy now.
    pub(crate) fn memory(&self, count: usize) -> WorkerMemory {
        WorkerMemory::of(self.workers.iter().take(count).map(|worker| worker.child.id()))
    }

    /// Gives one worker something to do and does not wait for it.
    pub(crate) fn begin_task(&mut self, worker: usize, request: &Request) -> Result<(), Failure> {
        self.worker(worker)?.send(request)
    }

    /// Whether the task of a worker has ended.
    pub(crate) fn task_ended(&mut self, worker: usize) -> Result<bool, Failure> {
        self.worker(worker)?.readable(Duration::ZERO)
    }

    /// What the task of a worker did; waits for its end.
    pub(crate) fn end_task(&mut self, worker: usize) -> Result<Done, Failure> {
        self.worker(worker)?.done(TASK_MAX)
    }

    /// One sample of the first `count` workers at once. `at_start` and `at_end` are called when recording
    /// starts and after the last answer: the moments for reading the CPU time of a server.
    pub(crate) fn sample<T>(
        &mut self,
        plans: &[Plan],
        mut look: impl FnMut() -> T,
    ) -> Result<(Vec<Sampled>, T, T), Failure> {
        const LEAD_NS: u64 = 3_000_000;
        for (worker, plan) in self.workers.iter_mut().zip(plans) {
            worker.send(&Request::Sample(plan.clone()))?;
        }
        for (worker, _) in self.workers.iter_mut().zip(plans) {
            worker.ready(TASK_MAX)?;
        }
        let start_ns = now_ns() + LEAD_NS;
        for (worker, _) in self.workers.iter_mut().zip(plans) {
            worker.send(&Request::Go { start_ns })?;
        }
        let warm_up_ns = plans.first().map_or(0, |plan| plan.warm_up_ns);
        wait_until(start_ns + warm_up_ns);
        let before = look();
        let mut sampled = Vec::with_capacity(plans.len());
        for (worker, plan) in self.workers.iter_mut().zip(plans) {
            match worker.receive(Duration::from_nanos(plan.measure_ns) + SAMPLE_GRACE)? {
                Reply::Sampled(sample) => sampled.push(*sample),
                other => return Err(unexpected(&other)),
            }
        }
        Ok((sampled, before, look()))
    }

    fn worker(&mut self, number: usize) -> Result<&mut Worker, Failure> {
        self.workers.get_mut(number).ok_or_else(|| failure("protocol", "there is no such worker"))
    }
}

impl Worker {
    fn start(launch: &Launch) -> Result<Worker, Failure> {
        let spawned =
            Command::new(&launch.program).args(&launch.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| failure("worker", format!("a worker cannot be started: {error}")))?;
        match (child.stdin.take(), child.stdout.take()) {
            (requests @ Some(_), Some(replies)) => Ok(Worker { child, requests, replies: BufReader::new(replies) }),
            _ => Err(failure("worker", "a worker has no pipes")),
        }
    }

    fn send(&mut self, message: &impl serde::Serialize) -> Result<(), Failure> {
        let written = serde_json::to_vec(message).map_err(std::io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            match &mut self.requests {
                Some(requests) => requests.write_all(&line).and_then(|()| requests.flush()),
                None => Err(std::io::ErrorKind::BrokenPipe.into()),
            }
        });
        written.map_err(|_| self.ended())
    }

    fn readable(&mut self, within: Duration) -> Result<bool, Failure> {
        readable(&self.replies, within)
    }

    fn receive(&mut self, within: Duration) -> Result<Reply, Failure> {
        if !self.readable(within)? {
            return Err(failure("worker", format!("a worker was silent for {} s", within.as_secs())));
        }
        let mut line = String::new();
        match self.replies.read_line(&mut line) {
            Ok(0) | Err(_) => Err(self.ended()),
            Ok(_) => serde_json::from_str(&line)
                .map_err(|error| failure("protocol", format!("a worker's answer makes no sense: {error}"))),
        }
    }

    fn ready(&mut self, within: Duration) -> Result<(), Failure> {
        match self.receive(within)? {
            Reply::Ready => Ok(()),
            Reply::Failed(failure) => Err(failure),
            other => Err(unexpected(&other)),
        }
    }

    fn done(&mut self, within: Duration) -> Result<Done, Failure> {
        match self.receive(within)? {
            Reply::Done(done) => Ok(done),
            other => Err(unexpected(&other)),
        }
    }

    /// The pipe is closed: says how the process ended.
    fn ended(&mut self) -> Failure {
        drop(self.requests.take());
        match self.child.wait() {
            Ok(status) => failure("worker", format!("a worker ended during the measurement ({status})")),
            Err(error) => failure("worker", format!("a worker is gone: {error}")),
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            drop(worker.requests.take());
        }
        // One deadline for all. They end by themselves when the pipe closes, unless they are busy.
        let deadline = Instant::now() + Duration::from_secs(2);
        for worker in &mut self.workers {
            while matches!(worker.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = worker.child.kill();
            let _ = worker.child.wait();
        }
    }
}

/// Whether a process has said something within a time. An error when a signal ended the run meanwhile.
pub(crate) fn readable(replies: &BufReader<ChildStdout>, within: Duration) -> Result<bool, Failure> {
    if !replies.buffer().is_empty() {
        return Ok(true);
    }
    let deadline = Instant::now() + within;
    loop {
        if interrupted() {
            // A worker may be filling for minutes; whoever stopped the run does not want to wait for that.
            return Err(failure("interrupted", "interrupted"));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left.min(LOOK_EVERY)).unwrap_or(PollTimeout::MAX);
        let mut fds = [PollFd::new(replies.get_ref().as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) | Err(nix::Error::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(failure("worker", format!("a worker cannot be heard: {error}"))),
        }
    }
}

fn unexpected(reply: &Reply) -> Failure {
    let what = match reply {
        Reply::Ready => "Ready",
        Reply::Done(_) => "Done",
        Reply::Sampled(_) => "Sampled",
        Reply::Saved(_) => "Saved",
        Reply::Failed(failure) => return failure.clone(),
    };
    failure("protocol", format!("a worker answered {what} at the wrong moment"))
}

fn failure(code: &str, message: impl Into<String>) -> Failure {
    Failure { code: code.to_owned(), message: message.into() }
}
