//! A worker process, as its parent sees it.
//!
//! Invariant: dropping a [`WorkerProcess`] ends it. A worker that dies, stays silent or breaks the
//! protocol is a [`ContenderFailure`], never the end of the run.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sessile_fixtures::runs;

use crate::interruption::GiveUpCheck;
use crate::worker::protocol::{
    ContenderFailure, OpenRequest, TaskTotals, WorkerReply, WorkerResult,
};

#[derive(Clone, Debug)]
pub struct Launch {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

impl Launch {
    /// This program with the hidden verb.
    pub fn this_program(verb: &str) -> std::io::Result<Launch> {
        Ok(Launch { program: env::current_exe()?, arguments: vec![verb.into()] })
    }
}

/// Failure code when a signal ended the run, which is not the contender's fault.
pub(crate) const INTERRUPTED: &str = "interrupted";
/// Filling half a million files on a slow disk takes minutes.
pub(crate) const TASK_MAX: Duration = Duration::from_secs(3_600);
/// How often a wait checks for a signal: too seldom to disturb a sample.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A worker ends by itself when the pipe closes, unless it is busy.
const END_WITHIN: Duration = Duration::from_secs(2);

pub(crate) struct WorkerProcess {
    child: Child,
    requests: Option<ChildStdin>,
    /// `None` after `take_replies`.
    replies: Option<BufReader<ChildStdout>>,
    /// Waits fail when this private server ends.
    server: Option<u32>,
}

impl WorkerProcess {
    /// Does not wait until the contender is open.
    pub(super) fn start(launch: &Launch, opening: &OpenRequest) -> WorkerResult<WorkerProcess> {
        let mut command = Command::new(&launch.program);
        command.args(&launch.arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Its own process group: Ctrl-C does not reach the worker.
        let spawned = command.process_group(0).spawn();
        let mut child = spawned.map_err(|error| {
            ContenderFailure::not_started(format!("a worker cannot be started: {error}"))
        })?;
        let (requests, replies) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        let mut process = WorkerProcess { child, requests, replies, server: None };
        process.send(opening)?;
        Ok(process)
    }

    /// Returns when the contender is open.
    pub(crate) fn open(
        launch: &Launch,
        opening: &OpenRequest,
        gives_up: GiveUpCheck,
    ) -> WorkerResult<WorkerProcess> {
        let mut process = WorkerProcess::start(launch, opening)?;
        process.ready(TASK_MAX, gives_up)?;
        Ok(process)
    }

    /// From now on waits fail when this server ends.
    pub(super) fn depend_on(&mut self, server: Option<u32>) {
        self.server = server;
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&mut self, message: &impl serde::Serialize) -> WorkerResult<()> {
        let written =
            serde_json::to_vec(message).map_err(std::io::Error::from).and_then(|mut line| {
                line.push(b'\n');
                match &mut self.requests {
                    Some(requests) => requests.write_all(&line).and_then(|()| requests.flush()),
                    None => Err(std::io::ErrorKind::BrokenPipe.into()),
                }
            });
        written.map_err(|_| self.ended())
    }

    /// Whether an answer arrives in time.
    pub(crate) fn readable(&self, within: Duration, gives_up: GiveUpCheck) -> WorkerResult<bool> {
        let replies = self.replies.as_ref().ok_or_else(replies_taken)?;
        wait_readable(replies, within, || {
            check_signal(gives_up)?;
            check_server(self.server)
        })
    }

    /// Fails when `gives_up` does.
    pub(crate) fn receive(
        &mut self,
        within: Duration,
        gives_up: GiveUpCheck,
    ) -> WorkerResult<WorkerReply> {
        if !self.readable(within, gives_up)? {
            return Err(failure(
                "worker",
                format!("a worker was silent for {} s", within.as_secs()),
            ));
        }
        let mut line = String::new();
        match self.replies.as_mut().ok_or_else(replies_taken)?.read_line(&mut line) {
            Ok(0) | Err(_) => Err(self.ended()),
            Ok(_) => serde_json::from_str(&line).map_err(|error| {
                failure("protocol", format!("a worker broke the protocol: {error}"))
            }),
        }
    }

    pub(crate) fn ready(&mut self, within: Duration, gives_up: GiveUpCheck) -> WorkerResult<()> {
        match self.receive(within, gives_up)? {
            WorkerReply::Ready => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) fn done(
        &mut self,
        within: Duration,
        gives_up: GiveUpCheck,
    ) -> WorkerResult<TaskTotals> {
        match self.receive(within, gives_up)? {
            WorkerReply::Done(done) => Ok(done),
            other => Err(unexpected(&other)),
        }
    }

    /// Afterwards this process can only send.
    pub(crate) fn take_replies(&mut self) -> WorkerResult<BufReader<ChildStdout>> {
        self.replies.take().ok_or_else(replies_taken)
    }

    /// Does not wait for its end.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill(); // fails if it has ended already
    }

    pub(crate) fn reap(&mut self) {
        drop(self.requests.take());
        let _ = self.child.wait();
    }

    /// The pipe is closed: describes how the process ended.
    fn ended(&mut self) -> ContenderFailure {
        drop(self.requests.take());
        match self.child.wait() {
            Ok(status) => {
                failure("worker", format!("a worker ended during the measurement ({status})"))
            }
            Err(error) => failure("worker", format!("a worker is gone: {error}")),
        }
    }

    /// Ends several processes with one deadline.
    pub(super) fn end<'a>(processes: impl Iterator<Item = &'a mut WorkerProcess>) {
        let mut processes: Vec<&mut WorkerProcess> = processes.collect();
        processes.iter_mut().for_each(|process| drop(process.requests.take()));
        let deadline = Instant::now() + END_WITHIN;
        for process in processes {
            while matches!(process.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            process.kill();
            process.reap();
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        WorkerProcess::end(std::iter::once(self));
    }
}

pub(crate) fn check_signal(gives_up: GiveUpCheck) -> WorkerResult<()> {
    if gives_up() { Err(failure(INTERRUPTED, "a signal ended the run")) } else { Ok(()) }
}

/// Whether a process sends something in time. Calls `goes_on` at intervals: a worker may be filling
/// for minutes.
pub(crate) fn wait_readable(
    replies: &BufReader<ChildStdout>,
    within: Duration,
    goes_on: impl Fn() -> WorkerResult<()>,
) -> WorkerResult<bool> {
    if !replies.buffer().is_empty() {
        return Ok(true);
    }
    let deadline = Instant::now() + within;
    loop {
        goes_on()?;
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left.min(LOOK_EVERY)).unwrap_or(PollTimeout::MAX);
        let mut fds = [PollFd::new(replies.get_ref().as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) | Err(nix::Error::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => {
                return Err(failure(
                    "worker",
                    format!("the output of a worker cannot be read: {error}"),
                ));
            }
        }
    }
}

/// Without its server each call may take as long as a client retries: hours for all sessions.
pub(super) fn check_server(server: Option<u32>) -> WorkerResult<()> {
    match server {
        Some(pid) if !runs(pid) => {
            Err(failure("server", "its server ended during the measurement"))
        }
        _ => Ok(()),
    }
}

pub(crate) fn unexpected(reply: &WorkerReply) -> ContenderFailure {
    let what = match reply {
        WorkerReply::Ready => "Ready",
        WorkerReply::Done(_) => "Done",
        WorkerReply::Sampled(_) => "Sampled",
        WorkerReply::Saved(_) => "Saved",
        WorkerReply::Access(_) => "Step",
        WorkerReply::Peeked(_) => "Looked",
        WorkerReply::Stopped { .. } => "Stopped",
        WorkerReply::Failed(failure) => return failure.clone(),
    };
    failure("protocol", format!("a worker answered {what} at the wrong moment"))
}

pub(crate) fn failure(code: &str, message: impl Into<String>) -> ContenderFailure {
    ContenderFailure { code: code.to_owned(), message: message.into() }
}

fn replies_taken() -> ContenderFailure {
    failure("protocol", "the replies of this worker are read elsewhere")
}
