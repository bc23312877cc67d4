//! A process of Perl with one keeper, and its replies.
//!
//! Invariant: dropping a [`Runner`] ends its process. A process that dies, stays silent or breaks
//! the protocol fails its contender's rows, never the run. `bench/contenders/perl/runner.pl`
//! describes the lines.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::interruption::interrupted;
use crate::perl::keeper::Keeper;
use crate::worker::process;

const SOURCE: &str = include_str!("../../../../bench/contenders/perl/runner.pl");
/// Values of a session: all are read and written while it is open.
pub(crate) const VALUES: usize = 10;
/// A keeper that reads everything for each session takes minutes for a thousand.
const ANSWER_WITHIN: Duration = Duration::from_secs(1_800);
/// The process ends by itself when its pipe closes.
const END_WITHIN: Duration = Duration::from_secs(2);

pub(crate) struct Runner {
    child: Child,
    requests: Option<BufWriter<ChildStdin>>,
    replies: BufReader<ChildStdout>,
    log: PathBuf,
}

/// The reply about some sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunnerReply {
    /// From open to close, of each session.
    pub ns: Vec<u64>,
    /// Of the process, for all sessions.
    pub cpu_ns: u64,
    /// Ten values of each session.
    pub read: Vec<Option<String>>,
}

/// The keeper's own account of some sessions, by its names.
pub(crate) type CostBreakdown = BTreeMap<String, f64>;

impl Runner {
    /// Starts Perl in its own directory, and waits until the keeper is ready.
    pub(crate) fn start(
        mut command: Command,
        dir: &Path,
        keeper: &Keeper,
        settings: &[(String, String)],
    ) -> Result<Runner, String> {
        let failed = |error: io::Error| format!("perl cannot be started: {error}");
        let place = |name: &str| dir.join(name);
        fs::write(place("runner.pl"), SOURCE).map_err(failed)?;
        command.arg(place("runner.pl")).arg(format!("class={}", keeper.package));
        for (name, text) in keeper.files {
            fs::write(place(name), text).map_err(failed)?;
            command.arg(format!("file={}", place(name).display()));
        }
        command.args(settings.iter().map(|(name, value)| format!("{name}={value}")));
        let log = place("perl.log");
        let stderr = File::create(&log).map_err(failed)?;
        // Its own process group: Ctrl-C does not reach Perl.
        let command =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        let (Some(requests), Some(replies)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("perl has no pipes".to_owned());
        };
        let (requests, replies) = (Some(BufWriter::new(requests)), BufReader::new(replies));
        let mut runner = Runner { child, requests, replies, log };
        runner.read_number()?;
        Ok(runner)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Creates sessions with these values, ten for each.
    pub(crate) fn make(&mut self, values: &[String]) -> Result<RunnerReply, String> {
        self.round("make", values.len() / VALUES, values)
    }

    /// Opens the sessions of the last `make` again, and writes these values.
    pub(crate) fn reopen(&mut self, values: &[String]) -> Result<RunnerReply, String> {
        self.round("reopen", values.len() / VALUES, values)
    }

    /// Opens them once more and only reads.
    pub(crate) fn read(&mut self, sessions: usize) -> Result<RunnerReply, String> {
        self.round("read", sessions, &[])
    }

    pub(crate) fn clear(&mut self) -> Result<(), String> {
        self.send("clear", &[])?;
        self.read_number().map(drop)
    }

    /// Empty if the keeper gives no account.
    pub(crate) fn cost_breakdown(&mut self, sessions: usize) -> Result<CostBreakdown, String> {
        self.send(&format!("dissect {sessions}"), &[])?;
        let names = self.read_number()?;
        let mut found = CostBreakdown::new();
        for _ in 0..names {
            let line = self.read_line()?;
            let pair = line
                .split_once(' ')
                .and_then(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
            found.extend([pair.ok_or_else(malformed_reply)?]);
        }
        Ok(found)
    }

    /// Two processes each change a value of one session and create sessions, this many times.
    /// Returns the final value and the number of sessions. It must be the last request: a damaged
    /// store may end the process.
    pub(crate) fn race(&mut self, changes: u64, sessions: u64) -> Result<(u64, u64), String> {
        self.send(&format!("race {changes} {sessions}"), &[])?;
        self.read_numbers()
    }

    fn round(
        &mut self,
        verb: &str,
        sessions: usize,
        values: &[String],
    ) -> Result<RunnerReply, String> {
        self.send(&format!("{verb} {sessions}"), values)?;
        let mut round = RunnerReply { cpu_ns: self.read_number()?, ..RunnerReply::default() };
        for _ in 0..sessions {
            round.ns.push(self.read_line()?.parse().map_err(|_| malformed_reply())?);
        }
        for _ in 0..sessions * VALUES {
            let line = self.read_line()?;
            round.read.push(match line.strip_prefix('=') {
                Some(value) => Some(value.to_owned()),
                None if line == "-" => None,
                None => return Err(malformed_reply()),
            });
        }
        Ok(round)
    }

    fn send(&mut self, request: &str, values: &[String]) -> Result<(), String> {
        let Some(requests) = &mut self.requests else { return Err(self.ended()) };
        let mut written = writeln!(requests, "{request}");
        for value in values {
            written = written.and_then(|()| writeln!(requests, "{value}"));
        }
        written.and_then(|()| requests.flush()).map_err(|_| self.ended())
    }

    fn read_number(&mut self) -> Result<u64, String> {
        self.read_numbers().map(|(first, _)| first)
    }

    /// The first line of an answer: two numbers, or an error.
    fn read_numbers(&mut self) -> Result<(u64, u64), String> {
        if !process::wait_readable(&self.replies, ANSWER_WITHIN, || {
            process::check_signal(interrupted)
        })
        .map_err(|failure| failure.message)?
        {
            return Err(format!("perl was silent for {} s", ANSWER_WITHIN.as_secs()));
        }
        let line = self.read_line()?;
        match line.split_once(' ') {
            Some(("failed", why)) => Err(why.to_owned()),
            Some(("done", rest)) => {
                let numbers = rest
                    .split_once(' ')
                    .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                numbers.ok_or_else(malformed_reply)
            }
            _ => Err(malformed_reply()),
        }
    }

    fn read_line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.replies.read_line(&mut line) {
            Ok(0) | Err(_) => Err(self.ended()),
            Ok(_) => Ok(line.trim_end_matches('\n').to_owned()),
        }
    }

    /// The pipe is closed: describes how the process ended, with the last line of its log.
    fn ended(&mut self) -> String {
        drop(self.requests.take());
        let how =
            self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let said = log.lines().next_back().unwrap_or_default();
        format!("perl ended during the measurement ({how}) {said}").trim_end().to_owned()
    }
}

fn malformed_reply() -> String {
    "the runner in Perl broke its protocol".to_owned()
}

impl Drop for Runner {
    fn drop(&mut self) {
        drop(self.requests.take());
        let deadline = Instant::now() + END_WITHIN;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
