//! A real process that works on the same store, driven line by line, killed at will.
//!
//! Ids travel over its standard input, never in its arguments. It ends with the suite.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use nix::sys::signal::Signal;
use sessile_core::Key;

use crate::check::{Failure, SECRET, ensure, redacted};
use crate::child::ChildProcess;

const REPLY_WITHIN: Duration = Duration::from_secs(60);

pub struct SuiteWorker {
    process: ChildProcess,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

pub fn command(verb: &str, key: &Key) -> String {
    format!("{verb} {}/{}", key.bin().name(), key.id())
}

pub fn number(line: &str, mark: &str) -> Option<u64> {
    line.strip_prefix(mark)?.trim_start().parse().ok()
}

impl SuiteWorker {
    pub(crate) fn start(program: &Path, url: &str) -> Result<SuiteWorker, Failure> {
        let mut process = ChildProcess::spawn(
            Command::new(program).arg(url).stdin(Stdio::piped()).stdout(Stdio::piped()),
        )?;
        let child = process.inner();
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) = pipes.ok_or_else(|| Failure("the worker has no pipes".into()))?;
        let (sender, lines) = channel();
        // Ends when the worker closes its output, or nobody listens any more.
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.try_for_each(|line| sender.send(line))
        });
        let mut worker = SuiteWorker { process, stdin, lines };
        worker.wait_ok()?;
        Ok(worker)
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub fn send(&mut self, line: &str) -> Result<(), Failure> {
        self.stdin.write_all(format!("{line}\n").as_bytes())?;
        Ok(self.stdin.flush()?)
    }

    /// The next line. `None` when it is silent or gone.
    pub fn next_line(&mut self) -> Option<String> {
        self.lines.recv_timeout(REPLY_WITHIN).ok()
    }

    pub fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.next_line()).collect()
    }

    /// Waits for `ok`, skipping progress lines (`= ...`); what follows the word is the reply.
    pub fn wait_ok(&mut self) -> Result<String, Failure> {
        let reply = self.reply()?;
        let rest = reply.strip_prefix("ok").map(|rest| rest.trim_start().to_owned());
        rest.ok_or_else(|| Failure(format!("a worker replied {:?}", redacted(&reply))))
    }

    pub fn wait_refused(&mut self, code: &str) -> Result<(), Failure> {
        let reply = self.reply()?;
        ensure(!reply.starts_with("err ") || !reply.contains(SECRET), || {
            "the text of an error in a worker contains an id or a payload".into()
        })?;
        ensure(reply.starts_with(&format!("err {code}")), || {
            let shown = redacted(&reply);
            format!("a worker replied {shown:?}, wanted the error {code}")
        })
    }

    fn reply(&mut self) -> Result<String, Failure> {
        loop {
            match self.lines.recv_timeout(REPLY_WITHIN) {
                Ok(line) if line.starts_with('=') => {} // it works
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) => return Err(Failure("a worker hangs".into())),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure("a worker ended unasked".into()));
                }
            }
        }
    }

    pub fn ask(&mut self, line: &str) -> Result<String, Failure> {
        self.send(line)?;
        self.wait_ok()
    }

    pub fn ask_refused(&mut self, line: &str, code: &str) -> Result<(), Failure> {
        self.send(line)?;
        self.wait_refused(code)
    }

    /// Makes it hold the lock of a session; returns the fence and the payload.
    pub fn begin(&mut self, key: &Key) -> Result<String, Failure> {
        self.ask(&command("begin 10000", key))
    }

    pub fn signal(&self, signal: Signal) -> Result<(), Failure> {
        self.process.signal(signal)
    }

    pub fn kill(&mut self) -> Result<(), Failure> {
        self.process.kill()
    }
}
