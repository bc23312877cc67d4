//! The output of a program that is not ours: of another build, of a language, of `ab`.
//!
//! Invariant: it ends in time, or is ended, and what it has started ends with it.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::interruption::interrupted;

const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// More is no answer to any question here.
const BYTES_MAX: usize = 16 << 20;
/// What has left the group of the program may hold its output open.
const REST_WITHIN: Duration = Duration::from_millis(500);

/// Runs a program to its end. The error says why it was ended: `Interrupted` or `TimedOut`.
pub(crate) fn output_within(command: &mut Command, within: Duration) -> io::Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let deadline = Instant::now() + within;
    let mut child = command.process_group(0).spawn()?;
    let stdout = child.stdout.take().map(WrittenText::collect);
    let stderr = child.stderr.take().map(WrittenText::collect);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Ok(status);
        }
        if interrupted() {
            break Err(io::ErrorKind::Interrupted);
        }
        if Instant::now() >= deadline {
            break Err(io::ErrorKind::TimedOut);
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    if let Ok(group) = i32::try_from(child.id()) {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    let _ = child.wait();
    let [stdout, stderr] = [stdout, stderr].map(|it| it.map_or(Vec::new(), WrittenText::end));
    Ok(Output { status: status?, stdout, stderr })
}

/// What a program has written so far. It is read while the program runs, so that this never waits
/// for a reader. After `BYTES_MAX` the pipe breaks.
struct WrittenText {
    text: Arc<Mutex<Vec<u8>>>,
    reading: JoinHandle<()>,
}

impl WrittenText {
    fn collect(mut from: impl Read + Send + 'static) -> WrittenText {
        let text = Arc::new(Mutex::new(Vec::new()));
        let into = text.clone();
        let reading = std::thread::spawn(move || {
            let mut chunk = vec![0; 1 << 16];
            while let Ok(count @ 1..) = from.read(&mut chunk) {
                let mut text = into.lock().unwrap_or_else(PoisonError::into_inner);
                text.extend_from_slice(chunk.get(..count).unwrap_or_default());
                if text.len() > BYTES_MAX {
                    return;
                }
            }
        });
        WrittenText { text, reading }
    }

    fn end(self) -> Vec<u8> {
        let deadline = Instant::now() + REST_WITHIN;
        while !self.reading.is_finished() && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
        std::mem::take(&mut *self.text.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn shell(script: &str, within: Duration) -> io::Result<Output> {
        output_within(Command::new("sh").args(["-c", script]), within)
    }

    /// A program that does something else on these arguments, and does not end, was waited for
    /// without end.
    #[test]
    fn a_program_that_hangs_or_never_stops_talking_is_ended() {
        let hung = shell("sleep 60", Duration::from_millis(50)).unwrap_err();
        assert_eq!(hung.kind(), io::ErrorKind::TimedOut);
        assert_eq!(shell("cat", MINUTE).unwrap().stdout, b"", "it waits for input");
        let endless = shell("yes", MINUTE).unwrap();
        assert!(!endless.status.success() && endless.stdout.len() <= BYTES_MAX + (1 << 16));
    }

    /// Only the child was ended: what a script had started went on, with the pipe.
    #[test]
    fn what_the_program_has_started_ends_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let noted = dir.path().join("pid");
        let script = format!("sleep 60 & echo $! >{}; wait", noted.display());
        let hung = shell(&script, Duration::from_secs(1)).unwrap_err();
        assert_eq!(hung.kind(), io::ErrorKind::TimedOut);
        let started = std::fs::read_to_string(noted).unwrap();
        let status = format!("/proc/{}/stat", started.trim());
        // It is adopted by another process, which may take its time to reap it.
        let is_gone =
            || std::fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z "));
        let until = Instant::now() + MINUTE / 4;
        while !is_gone() {
            assert!(Instant::now() < until, "it lives");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// All had been said, and it "has not answered" because something else held the pipe open.
    #[test]
    fn an_answer_counts_though_something_else_holds_the_output_open() {
        let begun = Instant::now();
        let script = "sleep 60 & setsid sleep 20 & echo said; echo more >&2; exit 3";
        let output = shell(script, MINUTE).unwrap();
        let told = (output.stdout.as_slice(), output.stderr.as_slice(), output.status.code());
        assert_eq!(told, (b"said\n".as_slice(), b"more\n".as_slice(), Some(3)));
        assert!(begun.elapsed() < MINUTE / 4, "{:?}", begun.elapsed());
    }
}
