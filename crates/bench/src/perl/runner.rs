//! A process of Perl with one keeper, and what it says.
//!
//! Invariant: a runner that is dropped has no process left. One that dies, stays silent or answers something else fails its
//! contender's rows, never the run. The lines are described in `bench/contenders/perl/runner.pl`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::perl::keeper::Keeper;
use crate::worker::process;

const SOURCE: &str = include_str!("../../../../bench/contenders/perl/runner.pl");
/// Values in a session: so many are read and so many are written while it is open.
pub(crate) const VALUES: usize = 10;
/// A keeper that reads everything for each session takes minutes for a thousand.
const ANSWER_WITHIN: Duration = Duration::from_secs(1_800);
/// Time to end by itself when its pipe closes.
const END_WITHIN: Duration = Duration::from_secs(2);

/// A process of Perl.
pub(crate) struct Runner {
    child: Child,
    requests: Option<BufWriter<ChildStdin>>,
    replies: BufReader<ChildStdout>,
    log: PathBuf,
}

/// What became of some sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    /// Nanoseconds from open to close, of each.
    pub ns: Vec<u64>,
    /// CPU time of the process in nanoseconds, for all of them.
    pub cpu_ns: u64,
    /// What was read, ten values for each.
    pub read: Vec<Option<String>>,
}

/// Where the time of some sessions goes, in the keeper's own words.
pub(crate) type Dissected = BTreeMap<String, f64>;

impl Runner {
    /// Starts Perl with a keeper and its settings, in a directory of its own, and waits until the keeper is there.
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
        // A group of its own: what a terminal sends to ours is decided here.
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        let (Some(requests), Some(replies)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("perl has no pipes".to_owned());
        };
        let (requests, replies) = (Some(BufWriter::new(requests)), BufReader::new(replies));
        let mut runner = Runner { child, requests, replies, log };
        runner.status()?;
        Ok(runner)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Makes new sessions with these values, ten for each.
    pub(crate) fn make(&mut self, values: &[String]) -> Result<Round, String> {
        self.round("make", values.len() / VALUES, values)
    }

    /// Opens the sessions of the last make again, and gives them these values.
    pub(crate) fn reopen(&mut self, values: &[String]) -> Result<Round, String> {
        self.round("reopen", values.len() / VALUES, values)
    }

    /// Opens them once more and only reads.
    pub(crate) fn read(&mut self, sessions: usize) -> Result<Round, String> {
        self.round("read", sessions, &[])
    }

    /// Removes all sessions.
    pub(crate) fn clear(&mut self) -> Result<(), String> {
        self.ask("clear", &[])?;
        self.status().map(drop)
    }

    /// Where the time of some of the sessions goes; nothing where the keeper does not tell.
    pub(crate) fn dissect(&mut self, sessions: usize) -> Result<Dissected, String> {
        self.ask(&format!("dissect {sessions}"), &[])?;
        let names = self.status()?;
        let mut found = Dissected::new();
        for _ in 0..names {
            let line = self.line()?;
            let pair = line.split_once(' ').and_then(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
            found.extend([pair.ok_or_else(senseless)?]);
        }
        Ok(found)
    }

    /// Lets two processes change a value of one session and make sessions at once, so many times each: what the value is then,
    /// and how many of the sessions are there. It is the last request: a damaged store may have ended the process.
    pub(crate) fn race(&mut self, changes: u64, sessions: u64) -> Result<(u64, u64), String> {
        self.ask(&format!("race {changes} {sessions}"), &[])?;
        self.answered()
    }

    fn round(&mut self, verb: &str, sessions: usize, values: &[String]) -> Result<Round, String> {
        self.ask(&format!("{verb} {sessions}"), values)?;
        let mut round = Round { cpu_ns: self.status()?, ..Round::default() };
        for _ in 0..sessions {
            round.ns.push(self.line()?.parse().map_err(|_| senseless())?);
        }
        for _ in 0..sessions * VALUES {
            let line = self.line()?;
            round.read.push(match line.strip_prefix('=') {
                Some(value) => Some(value.to_owned()),
                None if line == "-" => None,
                None => return Err(senseless()),
            });
        }
        Ok(round)
    }

    fn ask(&mut self, request: &str, values: &[String]) -> Result<(), String> {
        let Some(requests) = &mut self.requests else { return Err(self.ended()) };
        let mut written = writeln!(requests, "{request}");
        for value in values {
            written = written.and_then(|()| writeln!(requests, "{value}"));
        }
        written.and_then(|()| requests.flush()).map_err(|_| self.ended())
    }

    /// The first number of an answer.
    fn status(&mut self) -> Result<u64, String> {
        self.answered().map(|(first, _)| first)
    }

    /// The first line of an answer: its two numbers, or why there are none.
    fn answered(&mut self) -> Result<(u64, u64), String> {
        if !process::readable(&self.replies, ANSWER_WITHIN).map_err(|failure| failure.message)? {
            return Err(format!("perl was silent for {} s", ANSWER_WITHIN.as_secs()));
        }
        let line = self.line()?;
        match line.split_once(' ') {
            Some(("failed", why)) => Err(why.to_owned()),
            Some(("done", rest)) => {
                let numbers = rest.split_once(' ').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                numbers.ok_or_else(senseless)
            }
            _ => Err(senseless()),
        }
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.replies.read_line(&mut line) {
            Ok(0) | Err(_) => Err(self.ended()),
            Ok(_) => Ok(line.trim_end_matches('\n').to_owned()),
        }
    }

    /// The pipe is closed: says how the process ended, with the last thing that it wrote.
    fn ended(&mut self) -> String {
        drop(self.requests.take());
        let how = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let said = log.lines().next_back().unwrap_or_default();
        format!("perl ended during the measurement ({how}) {said}").trim_end().to_owned()
    }
}

fn senseless() -> String {
    "an answer of the runner in Perl makes no sense".to_owned()
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
