//! Measures two builds of the program in the same rounds.
//!
//! Between two separate results the machine often drifts by more than the 10 % that a user looks
//! for. So each contender gets a counterpart, whose workers are processes of the other program.
//! Both take turns with the same choices, one directly after the other, and become two results with
//! paired rounds.
//!
//! Invariant: no result contains the counterpart's mark.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use sessile_results::LeftOut;
use sessile_results::UsageError;
use sessile_results::{Environment, Report, Row};

use crate::interruption::{interrupted, listen};
use crate::options::{Experiment, Options};
use crate::reference;
use crate::run::RunError;
use crate::selection::{Choice, ContenderSource, Selection};
use crate::worker::process::Launch;

/// Ends the variant of a counterpart. A user's variant contains no space.
const COUNTERPART_MARK: &str = " of the other program";
/// Default rounds, and seconds of a sample. Disturbances average out over many short samples.
pub const ROUNDS_AND_SECONDS: (usize, f64) = (200, 0.1);
/// Fewer, because `ops` keeps created sessions to the end.
const ROUNDS_AND_SECONDS_OF_OPS: (usize, f64) = (60, 0.05);
/// Default. Each setup fills, verifies and removes them.
const SESSIONS: usize = 10_000;

/// Asking all servers for versions takes a second, several on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// An environment is some kilobytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Children may pass on output after the program has exited, as `tee` does.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// Leaves the exit status for the later `wait`.
const EXIT_CHECK: WaitPidFlag =
    WaitPidFlag::WEXITED.union(WaitPidFlag::WNOHANG).union(WaitPidFlag::WNOWAIT);

pub(crate) fn is_counterpart(variant: &str) -> bool {
    variant.ends_with(COUNTERPART_MARK)
}

pub(crate) fn without_mark(variant: &str) -> &str {
    variant.strip_suffix(COUNTERPART_MARK).unwrap_or(variant)
}

impl Choice {
    #[doc(hidden)]
    #[must_use]
    pub fn into_counterpart(self) -> Choice {
        Choice { variant: format!("{}{COUNTERPART_MARK}", self.variant), ..self }
    }
}

pub(crate) fn with_defaults(options: &Options, experiment: Experiment) -> Options {
    let (rounds, seconds) =
        if experiment == Experiment::Ops { ROUNDS_AND_SECONDS_OF_OPS } else { ROUNDS_AND_SECONDS };
    let sessions = (!options.quick).then(|| vec![SESSIONS]);
    Options {
        rounds: options.rounds.or(Some(rounds)),
        seconds: options.seconds.or(Some(seconds)),
        sessions: options.sessions.clone().or(sessions),
        ..options.clone()
    }
}

/// Each program makes its stores anew.
pub(crate) fn check_stores(selection: &Selection) -> Result<(), UsageError> {
    let mut choices = selection.choices.iter();
    match choices.find(|choice| matches!(choice.target, ContenderSource::Url(..))) {
        None => Ok(()),
        Some(choice) => {
            let title = choice.title();
            Err(UsageError(format!(
                "--baseline measures private stores, which each program makes anew; leave {title} \
                 out"
            )))
        }
    }
}

/// Reference rows have no counterpart and stand in both results.
pub(crate) fn with_counterparts(selection: Selection) -> Selection {
    let with_twin = |choice: Choice| {
        let twin = (!matches!(choice.target, ContenderSource::Reference(_)))
            .then(|| choice.clone().into_counterpart());
        [Some(choice), twin].into_iter().flatten()
    };
    Selection { choices: selection.choices.into_iter().flat_map(with_twin).collect(), ..selection }
}

/// Also checks that the other program is ours and built the same way.
pub(crate) fn environment_of(other: &Launch) -> Result<Environment, RunError> {
    let shown = other.program.display();
    let refused = |why: String| RunError::Usage(UsageError(format!("--baseline {shown}: {why}")));
    let mut question = Command::new(&other.program);
    question.args(["bench", "environment"]);
    listen(Duration::ZERO); // a terminal's signals do not reach the other program
    let said = output_of(question, ANSWER_TIMEOUT).map_err(|error| match error.kind() {
        io::ErrorKind::Interrupted => RunError::Interrupted,
        io::ErrorKind::TimedOut => refused(format!(
            "it has not answered `bench environment` within {} s; give the program of another \
             build of sessile",
            ANSWER_TIMEOUT.as_secs()
        )),
        _ => refused(format!("it cannot be started: {error}")),
    })?;
    let environment: Environment = serde_json::from_slice(&said).map_err(|_| {
        refused(
            "it does not answer `bench environment` as sessile does; give the program of another \
                 build"
                .to_owned(),
        )
    })?;
    let (build, this) = (environment.build.as_str(), crate::environment::build_of_this_program());
    if build != this {
        return Err(refused(format!(
            "it is a {build} build and this is a {this} build, which is a difference in itself"
        )));
    }
    Ok(environment)
}

/// The limited standard output of a program without input.
///
/// Kills the program and its children before it returns. Errors: `TimedOut`, and `Interrupted` by a
/// signal.
fn output_of(mut program: Command, within: Duration) -> io::Result<Vec<u8>> {
    let until = Instant::now() + within;
    let program = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // Its children are killed with this group.
    let mut child = program.process_group(0).spawn()?;
    let group = i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)?;
    let said =
        child.stdout.take().map_or(Ok(Vec::new()), |stdout| read_answer(stdout, group, until));
    // Nobody has waited for the child yet, so its number still names its group.
    let _ = killpg(group, Signal::SIGKILL); // one that has ended is as dead
    let _ = child.wait();
    said
}

/// Reads until the pipe closes, the JSON is complete, or the child has exited and is silent,
/// because a grandchild may hold the pipe open.
fn read_answer(mut stdout: ChildStdout, child: Pid, until: Instant) -> io::Result<Vec<u8>> {
    let (mut text, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    while text.len() < ANSWER_BYTES_MAX && !is_complete_json(&text) {
        if interrupted() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let has_ended = waitid(Id::Pid(child), EXIT_CHECK)? != WaitStatus::StillAlive;
        let wait = left.min(if has_ended { DRAIN_TIMEOUT } else { POLL_INTERVAL });
        let wait = PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO);
        match poll(&mut [PollFd::new(stdout.as_fd(), PollFlags::POLLIN)], wait) {
            Ok(0) if has_ended => break,
            Ok(0) | Err(Errno::EINTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let room = chunk.len().min(ANSWER_BYTES_MAX - text.len());
        let (next, _) = chunk.split_at_mut(room);
        let count = stdout.read(next)?;
        if count == 0 {
            break;
        }
        text.extend(next.iter().take(count));
    }
    Ok(text)
}

fn is_complete_json(text: &[u8]) -> bool {
    text.trim_ascii_end().ends_with(b"}")
        && serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

/// Stores that were left out before counterparts were added are left out of both programs.
pub(crate) fn split_report(
    both: Report,
    environment: Environment,
    left_out_of_both: &[LeftOut],
) -> (Report, Report) {
    let mut new = both;
    new.settings.baseline = Some(format!("{:016x}", fastrand::u64(..)));
    let mut old = Report { environment, ..new.clone() };
    new.results.retain(|row| !is_counterpart(&row.variant));
    new.left_out.retain(|left| !is_counterpart(&left.variant));
    // A store whose counterpart failed has nothing to be compared with.
    let is_reference = |store: &str| reference::by_name(store).is_some();
    let of_both: Vec<Row> = new.results.iter().filter(|row| row.is_reference()).cloned().collect();
    old.results.retain(|row| is_counterpart(&row.variant));
    old.results.extend(of_both);
    old.left_out.retain(|left| {
        is_counterpart(&left.variant)
            || is_reference(&left.store)
            || left_out_of_both.contains(left)
    });
    old.results.iter_mut().for_each(|row| row.variant = without_mark(&row.variant).to_owned());
    old.left_out.iter_mut().for_each(|left| left.variant = without_mark(&left.variant).to_owned());
    for report in [&mut old, &mut new] {
        report.warnings = sessile_results::warnings::warnings_for(report);
    }
    (old, new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_out(store: &str, variant: &str, reason: &str) -> LeftOut {
        LeftOut {
            store: store.into(),
            variant: variant.into(),
            workers: None,
            reason: reason.into(),
        }
    }

    /// Another variant of the store that had a row hid an entry of both, and what neither program
    /// had room for was there twice.
    #[test]
    fn each_result_lists_what_was_left_out_of_it_once() {
        let twin = |variant: &str| format!("{variant}{COUNTERPART_MARK}");
        let of_both =
            [left_out("redis", "tcp", "no server"), left_out("mysql", "default", "no server")];
        let of_one = [
            left_out("sqlite", "disk", "no room"),
            left_out("sqlite", &twin("disk"), "no room"),
            left_out("files", &twin("default"), "too slow"),
            left_out("memory", "default", "too slow"),
            left_out("null", "default", "one process"),
        ];
        let row = |store: &str, variant: &str| Row {
            store: store.into(),
            variant: variant.into(),
            ..Row::default()
        };
        let rows = [("redis", "default"), ("files", "default"), ("sqlite", "default")];
        let both = Report {
            results: rows
                .iter()
                .flat_map(|(store, it)| [row(store, it), row(store, &twin(it))])
                .collect(),
            left_out: of_both.iter().chain(&of_one).cloned().collect(),
            ..Report::default()
        };
        let (old, new) = split_report(both, Environment::default(), &of_both);
        let titles =
            |report: &Report| report.left_out.iter().map(LeftOut::title).collect::<Vec<String>>();
        assert_eq!(titles(&new), ["redis#tcp", "mysql", "sqlite#disk", "memory", "null"]);
        assert_eq!(titles(&old), ["redis#tcp", "mysql", "sqlite#disk", "files", "null"]);
    }

    /// A program that does something else on these arguments, and does not end, was waited for
    /// without end.
    #[test]
    fn a_program_that_hangs_or_never_stops_talking_is_ended() {
        let mut sleeping = Command::new("sleep");
        sleeping.arg("60");
        let hung = output_of(sleeping, Duration::from_millis(50)).unwrap_err();
        assert_eq!(hung.kind(), io::ErrorKind::TimedOut);
        let waiting_for_input = output_of(Command::new("cat"), ANSWER_TIMEOUT);
        assert_eq!(waiting_for_input.unwrap(), b"");
        let endless = output_of(Command::new("yes"), ANSWER_TIMEOUT);
        assert_eq!(endless.unwrap().len(), ANSWER_BYTES_MAX);
        // It said all, and does not end.
        let mut silent = Command::new("sh");
        silent.args(["-c", "echo said; exec sleep 60 >&-"]);
        assert_eq!(output_of(silent, ANSWER_TIMEOUT).unwrap(), b"said\n");
    }

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    /// Only the child was ended: what a script had started went on, with the pipe.
    #[test]
    fn what_the_program_has_started_ends_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let noted = dir.path().join("pid");
        let script = shell(&format!("sleep 60 & echo $! >{}; wait", noted.display()));
        assert_eq!(
            output_of(script, Duration::from_secs(1)).unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
        let started = std::fs::read_to_string(noted).unwrap();
        let status = format!("/proc/{}/stat", started.trim());
        // It is adopted by another process, which may take its time to bury it.
        let is_gone =
            || std::fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z "));
        let until = Instant::now() + ANSWER_TIMEOUT;
        while !is_gone() {
            assert!(Instant::now() < until, "it lives");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// All had been said, and it "has not answered" because something else held the pipe open.
    #[test]
    fn an_answer_counts_though_the_pipe_stays_open() {
        let within = ANSWER_TIMEOUT;
        let begun = Instant::now();
        assert_eq!(
            output_of(shell("sleep 60 & echo said"), within).unwrap(),
            b"said\n",
            "it has ended"
        );
        let whole = output_of(shell("echo '{\"a\":{}'; sleep 0.1; echo }; sleep 60"), within);
        assert_eq!(whole.unwrap(), b"{\"a\":{}\n}\n", "it goes on");
        let late = output_of(shell("(sleep 0.1; echo late; sleep 60) & echo said"), within);
        assert_eq!(late.unwrap(), b"said\nlate\n", "passed on after its end");
        assert!(begun.elapsed() < within, "{:?}", begun.elapsed());
    }
}
