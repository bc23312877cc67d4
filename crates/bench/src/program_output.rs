//! The output of a program that is not ours: of another build, of a language, of `ab`.
//!
//! Invariant: it ends in time, or is ended, and what it has started ends with it.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::interruption::interrupted;

const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// More is no answer to any question here.
const BYTES_MAX: u64 = 64 << 20;

/// Runs a program to its end. The error says why it was ended: `Interrupted`, `TimedOut` or
/// `FileTooLarge`.
pub(crate) fn output_within(command: &mut Command, within: Duration) -> io::Result<Output> {
    // Files in place of pipes: nothing waits until they are read, or for others that hold them.
    let [mut stdout, mut stderr] = [memory_file()?, memory_file()?];
    command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    let deadline = Instant::now() + within;
    let mut child = command.process_group(0).spawn()?;
    let group = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    let ended = loop {
        if has_ended(group) {
            break Ok(());
        }
        if interrupted() {
            break Err(io::ErrorKind::Interrupted);
        }
        if Instant::now() >= deadline {
            break Err(io::ErrorKind::TimedOut);
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    let _ = killpg(group, Signal::SIGKILL);
    let status = child.wait()?;
    ended?;
    Ok(Output { status, stdout: content(&mut stdout)?, stderr: content(&mut stderr)? })
}

/// The child is not reaped yet, so that its number still names its group.
fn has_ended(child: Pid) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(waitid(Id::Pid(child), flags), Ok(WaitStatus::StillAlive))
}

/// It is as long as it may become, and takes no memory for what is not written. A write beyond is
/// refused by the kernel: nobody watches in time what a program writes to memory. A program that
/// sets `O_APPEND` or opens `/dev/stdout` anew cannot write; those that are run here do neither.
fn memory_file() -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("output", flags)?);
    file.set_len(BYTES_MAX)?;
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK)?;
    Ok(file)
}

/// The bytes that the program has written. It shares the position in the file with this process.
fn content(file: &mut File) -> io::Result<Vec<u8>> {
    let written = file.stream_position()?;
    if written == BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut content = Vec::new();
    file.rewind()?;
    file.take(written).read_to_end(&mut content)?;
    Ok(content)
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
        for words in ["cat /dev/zero", "cat /dev/zero >&2"] {
            let talked = shell(words, MINUTE).map(|_| ()).unwrap_err();
            assert_eq!(talked.kind(), io::ErrorKind::FileTooLarge, "{words}");
        }
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
        let until = Instant::now() + MINUTE;
        while !is_gone() {
            assert!(Instant::now() < until, "it lives");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// All had been said, and it "has not answered" because something else held the pipe open.
    #[test]
    fn an_answer_counts_though_something_else_holds_the_output_open() {
        let begun = Instant::now();
        let output = shell("sleep 60 & echo said; echo more >&2; exit 3", MINUTE).unwrap();
        let told = (output.stdout.as_slice(), output.stderr.as_slice(), output.status.code());
        assert_eq!(told, (b"said\n".as_slice(), b"more\n".as_slice(), Some(3)));
        assert!(begun.elapsed() < MINUTE / 2, "{:?}", begun.elapsed());
    }
}
