//! One worker process, as its parent sees it.
//!
//! Invariant: one that is dropped is gone. A worker that dies, stays silent or answers something else is a [`Failure`], never
//! the end of the run.

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

use crate::interruption::{GivesUp, interrupted};
use crate::worker::protocol::{Done, Failure, Opening, Reply};

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

/// The code of a failure that is no contender's: a signal ended the run.
pub(crate) const INTERRUPTED: &str = "interrupted";
/// Time for a task that is not measured: filling half a million files on a slow disk takes minutes.
pub(crate) const TASK_MAX: Duration = Duration::from_secs(3_600);
/// How often the wait for a worker looks whether a signal ended the run: too seldom to be felt in a sample.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A worker ends by itself when the pipe closes, unless it is busy.
const END_WITHIN: Duration = Duration::from_secs(2);

/// A running worker.
pub(crate) struct Process {
    child: Child,
    requests: Option<ChildStdin>,
    /// `None` when somebody else listens to it.
    replies: Option<BufReader<ChildStdout>>,
    /// The private server that it cannot do without.
    server: Option<u32>,
}

impl Process {
    /// Starts a worker and does not wait for it.
    pub(super) fn start(launch: &Launch, opening: &Opening) -> Result<Process, Failure> {
        let mut command = Command::new(&launch.program);
        command.args(&launch.arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        // A terminal sends its signals to a whole group. What a worker does then is this process's business.
        let spawned = command.process_group(0).spawn();
        let mut child = spawned.map_err(|error| failure("worker", format!("a worker cannot be started: {error}")))?;
        let (requests, replies) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        let mut process = Process { child, requests, replies, server: None };
        process.send(opening)?;
        Ok(process)
    }

    /// Starts a worker; it has opened the contender when this returns.
    pub(crate) fn open(launch: &Launch, opening: &Opening) -> Result<Process, Failure> {
        Process::open_unless(launch, opening, interrupted)
    }

    /// The same, unless whoever waits gives up.
    pub(super) fn open_unless(launch: &Launch, opening: &Opening, gives_up: GivesUp) -> Result<Process, Failure> {
        let mut process = Process::start(launch, opening)?;
        process.ready_unless(TASK_MAX, gives_up)?;
        Ok(process)
    }

    /// Whoever waits for it from now on gives up when this process, a server, ends.
    pub(super) fn needs(&mut self, server: Option<u32>) {
        self.server = server;
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&mut self, message: &impl serde::Serialize) -> Result<(), Failure> {
        let written = serde_json::to_vec(message).map_err(std::io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            match &mut self.requests {
                Some(requests) => requests.write_all(&line).and_then(|()| requests.flush()),
                None => Err(std::io::ErrorKind::BrokenPipe.into()),
            }
        });
        written.map_err(|_| self.ended())
    }

    /// Whether it says something within this time.
    pub(crate) fn readable(&self, within: Duration) -> Result<bool, Failure> {
        self.readable_unless(within, interrupted)
    }

    fn readable_unless(&self, within: Duration, gives_up: GivesUp) -> Result<bool, Failure> {
        let replies = self.replies.as_ref().ok_or_else(listened_to)?;
        wait_for(replies, within, || {
            if gives_up() {
                return Err(failure(INTERRUPTED, "a signal ended the run"));
            }
            server_lives(self.server)
        })
    }

    /// What it says; an error when a signal comes first.
    pub(crate) fn receive(&mut self, within: Duration) -> Result<Reply, Failure> {
        self.receive_unless(within, interrupted)
    }

    /// What it says, unless whoever waits gives up.
    pub(super) fn receive_unless(&mut self, within: Duration, gives_up: GivesUp) -> Result<Reply, Failure> {
        if !self.readable_unless(within, gives_up)? {
            return Err(failure("worker", format!("a worker was silent for {} s", within.as_secs())));
        }
        let mut line = String::new();
        match self.replies.as_mut().ok_or_else(listened_to)?.read_line(&mut line) {
            Ok(0) | Err(_) => Err(self.ended()),
            Ok(_) => serde_json::from_str(&line)
                .map_err(|error| failure("protocol", format!("a worker's answer makes no sense: {error}"))),
        }
    }

    pub(crate) fn ready(&mut self, within: Duration) -> Result<(), Failure> {
        self.ready_unless(within, interrupted)
    }

    pub(super) fn ready_unless(&mut self, within: Duration, gives_up: GivesUp) -> Result<(), Failure> {
        match self.receive_unless(within, gives_up)? {
            Reply::Ready => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) fn done(&mut self, within: Duration, gives_up: GivesUp) -> Result<Done, Failure> {
        match self.receive_unless(within, gives_up)? {
            Reply::Done(done) => Ok(done),
            other => Err(unexpected(&other)),
        }
    }

    /// What it says from now on; this process is then only told things.
    pub(crate) fn take_replies(&mut self) -> Result<BufReader<ChildStdout>, Failure> {
        self.replies.take().ok_or_else(listened_to)
    }

    /// Kills it with SIGKILL, and does not wait until it is gone.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill(); // one that has ended is as dead
    }

    /// Waits for its end.
    pub(crate) fn reap(&mut self) {
        drop(self.requests.take());
        let _ = self.child.wait();
    }

    /// The pipe is closed: says how the process ended.
    fn ended(&mut self) -> Failure {
        drop(self.requests.take());
        match self.child.wait() {
            Ok(status) => failure("worker", format!("a worker ended during the measurement ({status})")),
            Err(error) => failure("worker", format!("a worker is gone: {error}")),
        }
    }

    /// Ends several with one deadline for all.
    pub(super) fn end<'a>(processes: impl Iterator<Item = &'a mut Process>) {
        let mut processes: Vec<&mut Process> = processes.collect();
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

impl Drop for Process {
    fn drop(&mut self) {
        Process::end(std::iter::once(self));
    }
}

/// Whether a process has said something within a time. An error when a signal ended the run meanwhile.
pub(crate) fn readable(replies: &BufReader<ChildStdout>, within: Duration) -> Result<bool, Failure> {
    // A worker may be filling for minutes; whoever stopped the run does not want to wait for that.
    let stopped = || if interrupted() { Err(failure(INTERRUPTED, "a signal ended the run")) } else { Ok(()) };
    wait_for(replies, within, stopped)
}

/// The same; `goes_on` is asked now and then.
fn wait_for(
    replies: &BufReader<ChildStdout>,
    within: Duration,
    goes_on: impl Fn() -> Result<(), Failure>,
) -> Result<bool, Failure> {
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
            Err(error) => return Err(failure("worker", format!("a worker cannot be heard: {error}"))),
        }
    }
}

/// Without its server each call may take as long as a client tries: hours for all sessions.
pub(super) fn server_lives(server: Option<u32>) -> Result<(), Failure> {
    match server {
        Some(pid) if !runs(pid) => Err(failure("server", "its server ended during the measurement")),
        _ => Ok(()),
    }
}

pub(crate) fn unexpected(reply: &Reply) -> Failure {
    let what = match reply {
        Reply::Ready => "Ready",
        Reply::Done(_) => "Done",
        Reply::Sampled(_) => "Sampled",
        Reply::Saved(_) => "Saved",
        Reply::Step(_) => "Step",
        Reply::Looked(_) => "Looked",
        Reply::Stopped { .. } => "Stopped",
        Reply::Failed(failure) => return failure.clone(),
    };
    failure("protocol", format!("a worker answered {what} at the wrong moment"))
}

pub(crate) fn failure(code: &str, message: impl Into<String>) -> Failure {
    Failure { code: code.to_owned(), message: message.into() }
}

fn listened_to() -> Failure {
    failure("protocol", "somebody else listens to this worker")
}
