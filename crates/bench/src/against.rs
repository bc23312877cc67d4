//! One program against another: both are measured in the same rounds, turn by turn.
//!
//! Two results lie minutes apart, and what a machine does to a row in minutes is often more than the tenth that somebody looks
//! for. Here each contender has a twin whose workers are processes of the other program. The two take their turns one right
//! after the other with the same choices, and become two results whose rounds belong together.
//!
//! It owns the mark of a twin, which no result shows.

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

use crate::interruption::{interrupted, listen};
use crate::options::{Experiment, Options, UsageError};
use crate::reference;
use crate::report::{self, Environment, Report, Row};
use crate::run::RunError;
use crate::selection::{Choice, LeftOut, Selection, Target};
use crate::traffic::Workload;
use crate::worker::process::Launch;

/// Behind the variant of a twin while it is measured; no variant that a user gives has a space.
const MARK: &str = " of the other program";
/// Rounds, and the length of a sample in seconds, unless told otherwise: what a machine does from one second to the next is in
/// many short samples alike, and not in a few long ones.
pub const TURNS: (usize, f64) = (200, 0.1);
/// The same of `ops`, which creates sessions in each sample and keeps them to the end.
const TURNS_OF_OPS: (usize, f64) = (60, 0.05);
/// Sessions, unless told otherwise: each of several setups fills them in, and verifies and removes them.
const SESSIONS: usize = 10_000;

/// Asking all servers of a machine for their versions takes about a second; a machine that builds programs meanwhile takes several.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// What a program says of its machine is some kilobytes; one that never stops talking is none of ours.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// How often a look at the program is taken while it is silent; a fiftieth of a second is nothing to who waits.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What it has started may still pass on what it has said, as `tee` does.
const LAST_WORDS_WITHIN: Duration = Duration::from_millis(500);
/// A look, which takes nothing from who waits for the child in the end.
const ENDED: WaitPidFlag = WaitPidFlag::WEXITED.union(WaitPidFlag::WNOHANG).union(WaitPidFlag::WNOWAIT);

/// What tells whether the contender is measured with the other program.
pub(crate) fn is_twin(variant: &str) -> bool {
    variant.ends_with(MARK)
}

/// The variant that a contender and its twin have in common.
pub(crate) fn common(variant: &str) -> &str {
    variant.strip_suffix(MARK).unwrap_or(variant)
}

impl Choice {
    /// It as the twin that is measured with the other program.
    #[doc(hidden)]
    #[must_use]
    pub fn into_twin(self) -> Choice {
        Choice { variant: format!("{}{MARK}", self.variant), ..self }
    }
}

/// Experiments in which contenders take turns, operation by operation.
pub(crate) fn check(experiment: Experiment) -> Result<(), UsageError> {
    if matches!(experiment, Experiment::Cycle | Experiment::Ops) {
        return Ok(());
    }
    let name = experiment.name();
    Err(UsageError(format!("--against is for cycle and ops; {name} has no turns of which two belong together")))
}

/// What the user leaves open.
pub(crate) fn complete(options: &Options, experiment: Experiment) -> Options {
    let (rounds, seconds) = if experiment == Experiment::Ops { TURNS_OF_OPS } else { TURNS };
    let of_workload = options.workload.and_then(Workload::sessions);
    let sessions = (!options.quick).then(|| vec![of_workload.unwrap_or(SESSIONS)]);
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
    match choices.find(|choice| matches!(choice.target, Target::Url(..))) {
        None => Ok(()),
        Some(choice) => {
            let title = choice.title();
            Err(UsageError(format!(
                "--against measures private stores, which each program makes anew; leave {title} out"
            )))
        }
    }
}

/// Each contender with its twin. Reference rows have none: they stand beside both.
pub(crate) fn with_twins(selection: Selection) -> Selection {
    let with_twin = |choice: Choice| {
        let twin = (!matches!(choice.target, Target::Reference(_))).then(|| choice.clone().into_twin());
        [Some(choice), twin].into_iter().flatten()
    };
    Selection { choices: selection.choices.into_iter().flat_map(with_twin).collect(), ..selection }
}

/// What the other program says of itself: that it is one of ours, and how it was built.
pub(crate) fn environment_of(other: &Launch) -> Result<Environment, RunError> {
    let shown = other.program.display();
    let refused = |why: String| RunError::Usage(UsageError(format!("--against {shown}: {why}")));
    let mut question = Command::new(&other.program);
    question.args(["bench", "environment"]);
    listen(Duration::ZERO); // a terminal's signals do not reach the other program
    let said = said_by(question, ANSWER_WITHIN).map_err(|error| match error.kind() {
        io::ErrorKind::Interrupted => RunError::Interrupted,
        io::ErrorKind::TimedOut => refused(format!(
            "it has not answered `bench environment` within {} s; give the program of another build of sessile",
            ANSWER_WITHIN.as_secs()
        )),
        _ => refused(format!("it cannot be started: {error}")),
    })?;
    let environment: Environment = serde_json::from_slice(&said).map_err(|_| {
        refused("it does not answer `bench environment` as sessile does; give the program of another build".to_owned())
    })?;
    let (build, this) = (environment.build.as_str(), Environment::build_of_this_program());
    if build != this {
        return Err(refused(format!(
            "it is a {build} build and this is a {this} build, which is a difference in itself"
        )));
    }
    Ok(environment)
}

/// What a program that is told nothing says, up to a limit; it is gone then, and so is what it has started. One that has not
/// ended what it says within a time is killed, and that is an error of kind `TimedOut`; a signal to this process is one of kind
/// `Interrupted`.
fn said_by(mut program: Command, within: Duration) -> io::Result<Vec<u8>> {
    let until = Instant::now() + within;
    let program = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // What it starts is of its group, and ends with it.
    let mut child = program.process_group(0).spawn()?;
    let group = i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)?;
    let said = child.stdout.take().map_or(Ok(Vec::new()), |stdout| heard(stdout, group, until));
    // Nobody has waited for the child yet, so the number is still that of its group.
    let _ = killpg(group, Signal::SIGKILL); // one that has ended is as dead
    let _ = child.wait();
    said
}

/// What comes until the pipe is closed, a result is whole, or the child has ended and is silent: a process that it has started
/// may hold the pipe open after that.
fn heard(mut stdout: ChildStdout, child: Pid, until: Instant) -> io::Result<Vec<u8>> {
    let (mut text, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    while text.len() < ANSWER_BYTES_MAX && !is_whole(&text) {
        if interrupted() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let has_ended = waitid(Id::Pid(child), ENDED)? != WaitStatus::StillAlive;
        let wait = left.min(if has_ended { LAST_WORDS_WITHIN } else { LOOK_EVERY });
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

/// Whether nothing is missing behind it.
fn is_whole(text: &[u8]) -> bool {
    text.trim_ascii_end().ends_with(b"}") && serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

/// The result of the other program, and that of this one. What was left out before anybody had a twin is left out of both.
pub(crate) fn apart(both: Report, environment: Environment, left_out_of_both: &[LeftOut]) -> (Report, Report) {
    let mut new = both;
    new.settings.against = Some(format!("{:016x}", fastrand::u64(..)));
    let mut old = Report { environment, ..new.clone() };
    new.results.retain(|row| !is_twin(&row.variant));
    new.left_out.retain(|left| !is_twin(&left.variant));
    // Nobody has changed them. A store whose twin is missing has nothing that it could be held against.
    let is_reference = |store: &str| reference::by_name(store).is_some();
    let of_both: Vec<Row> = new.results.iter().filter(|row| is_reference(&row.store)).cloned().collect();
    old.results.retain(|row| is_twin(&row.variant));
    old.results.extend(of_both);
    old.left_out.retain(|left| is_twin(&left.variant) || is_reference(&left.store) || left_out_of_both.contains(left));
    old.results.iter_mut().for_each(|row| row.variant = common(&row.variant).to_owned());
    old.left_out.iter_mut().for_each(|left| left.variant = common(&left.variant).to_owned());
    for report in [&mut old, &mut new] {
        report.warnings = report::warnings::of(report);
    }
    (old, new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_out(store: &str, variant: &str, reason: &str) -> LeftOut {
        LeftOut { store: store.into(), variant: variant.into(), workers: None, reason: reason.into() }
    }

    /// Another variant of the store that had a row hid an entry of both, and what neither program had room for was there twice.
    #[test]
    fn each_result_lists_what_was_left_out_of_it_once() {
        let twin = |variant: &str| format!("{variant}{MARK}");
        let of_both = [left_out("redis", "tcp", "no server"), left_out("mysql", "default", "no server")];
        let of_one = [
            left_out("sqlite", "disk", "no room"),
            left_out("sqlite", &twin("disk"), "no room"),
            left_out("files", &twin("default"), "too slow"),
            left_out("memory", "default", "too slow"),
            left_out("null", "default", "one process"),
        ];
        let row = |store: &str, variant: &str| Row { store: store.into(), variant: variant.into(), ..Row::default() };
        let rows = [("redis", "default"), ("files", "default"), ("sqlite", "default")];
        let both = Report {
            results: rows.iter().flat_map(|(store, it)| [row(store, it), row(store, &twin(it))]).collect(),
            left_out: of_both.iter().chain(&of_one).cloned().collect(),
            ..Report::default()
        };
        let (old, new) = apart(both, Environment::default(), &of_both);
        let titles = |report: &Report| report.left_out.iter().map(LeftOut::title).collect::<Vec<String>>();
        assert_eq!(titles(&new), ["redis#tcp", "mysql", "sqlite#disk", "memory", "null"]);
        assert_eq!(titles(&old), ["redis#tcp", "mysql", "sqlite#disk", "files", "null"]);
    }

    /// A program that does something else on these arguments, and does not end, was waited for without end.
    #[test]
    fn a_program_that_hangs_or_never_stops_talking_is_ended() {
        let mut sleeping = Command::new("sleep");
        sleeping.arg("60");
        let hung = said_by(sleeping, Duration::from_millis(50)).unwrap_err();
        assert_eq!(hung.kind(), io::ErrorKind::TimedOut);
        let waiting_for_input = said_by(Command::new("cat"), ANSWER_WITHIN);
        assert_eq!(waiting_for_input.unwrap(), b"");
        let endless = said_by(Command::new("yes"), ANSWER_WITHIN);
        assert_eq!(endless.unwrap().len(), ANSWER_BYTES_MAX);
        // It said all, and does not end.
        let mut silent = Command::new("sh");
        silent.args(["-c", "echo said; exec sleep 60 >&-"]);
        assert_eq!(said_by(silent, ANSWER_WITHIN).unwrap(), b"said\n");
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
        assert_eq!(said_by(script, Duration::from_secs(1)).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let started = std::fs::read_to_string(noted).unwrap();
        let status = format!("/proc/{}/stat", started.trim());
        // It is adopted by another process, which may take its time to bury it.
        let is_gone = || std::fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z "));
        let until = Instant::now() + ANSWER_WITHIN;
        while !is_gone() {
            assert!(Instant::now() < until, "it lives");
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// All had been said, and it "has not answered" because something else held the pipe open.
    #[test]
    fn an_answer_counts_though_the_pipe_stays_open() {
        let within = ANSWER_WITHIN;
        let begun = Instant::now();
        assert_eq!(said_by(shell("sleep 60 & echo said"), within).unwrap(), b"said\n", "it has ended");
        let whole = said_by(shell("echo '{\"a\":{}'; sleep 0.1; echo }; sleep 60"), within);
        assert_eq!(whole.unwrap(), b"{\"a\":{}\n}\n", "it goes on");
        let late = said_by(shell("(sleep 0.1; echo late; sleep 60) & echo said"), within);
        assert_eq!(late.unwrap(), b"said\nlate\n", "passed on after its end");
        assert!(begun.elapsed() < within, "{:?}", begun.elapsed());
    }
}
