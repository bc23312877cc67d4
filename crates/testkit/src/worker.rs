//! A real process that works on the same store, driven line by line, killed at will.
//!
//! The process is `src/bin/worker.rs`. Ids travel over its standard input, never in its arguments. It ends
//! with the thread that started it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sessile_core::Key;

use crate::check::{Failure, SECRET, ensure};

/// Longest silence of a worker that is asked something.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// A running worker. Killed when dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

/// How a key is written on a line.
pub fn key_word(key: &Key) -> String {
    format!("{}/{}", key.bin().name(), key.id())
}

impl Worker {
    /// Starts one and waits until it has opened the store.
    pub(crate) fn start(program: &Path, url: &str) -> Result<Worker, Failure> {
        let mut child = Command::new(program).arg(url).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) = pipes.ok_or_else(|| Failure("the worker has no pipes".into()))?;
        let (sender, lines) = channel();
        // Ends when the worker closes its output.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut worker = Worker { child, stdin, lines };
        worker.ok()?;
        Ok(worker)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it something.
    pub fn say(&mut self, line: &str) -> Result<(), Failure> {
        self.stdin.write_all(format!("{line}\n").as_bytes())?;
        Ok(self.stdin.flush()?)
    }

    /// The next line that it says, if it says one in time. `None` when it is silent or gone.
    pub fn hear(&mut self, within: Duration) -> Option<String> {
        self.lines.recv_timeout(within).ok()
    }

    /// All lines that were said before it ended, or until it is silent for `ANSWER_WITHIN`.
    pub fn rest(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(ANSWER_WITHIN) {
            lines.push(line);
        }
        lines
    }

    /// Waits for `ok`, skipping progress lines (`= ...`); what follows the word is the answer.
    pub fn ok(&mut self) -> Result<String, Failure> {
        let answer = self.answer()?;
        answer.strip_prefix("ok").map(|rest| rest.trim_start().to_owned()).ok_or_else(|| {
            let shown = answer.replace(SECRET, "[secret]");
            Failure(format!("a worker answered {shown:?}"))
        })
    }

    /// Waits for an error of this kind; returns its text.
    pub fn refused(&mut self, code: &str) -> Result<String, Failure> {
        let answer = self.answer()?;
        ensure(!answer.starts_with("err ") || !answer.contains(SECRET), || {
            "the text of an error in a worker contains an id or a payload".into()
        })?;
        let text = answer.strip_prefix("err ").and_then(|rest| rest.strip_prefix(code));
        let shown =
            || Failure(format!("a worker answered {answer:?}, wanted the error {code}").replace(SECRET, "[secret]"));
        text.map(|text| text.trim_start().to_owned()).ok_or_else(shown)
    }

    fn answer(&mut self) -> Result<String, Failure> {
        loop {
            match self.lines.recv_timeout(ANSWER_WITHIN) {
                Ok(line) if line.starts_with('=') => {} // it works
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) => return Err(Failure("a worker hangs".into())),
                Err(RecvTimeoutError::Disconnected) => return Err(Failure("a worker ended unasked".into())),
            }
        }
    }

    /// Says a line and waits for `ok`.
    pub fn ask(&mut self, line: &str) -> Result<String, Failure> {
        self.say(line)?;
        self.ok()
    }

    /// Makes it hold the lock of a session; returns the fence and the payload.
    pub fn begin(&mut self, key: &Key) -> Result<String, Failure> {
        self.ask(&format!("begin 10000 {}", key_word(key)))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let pid = i32::try_from(self.pid()).map_err(|error| Failure(error.to_string()))?;
        kill(Pid::from_raw(pid), signal).map_err(|error| Failure(format!("cannot send {signal}: {error}")))
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub fn kill(&mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
