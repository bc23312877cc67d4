//! `languages`: sessions in PHP, Python, Node and Perl, ours beside those in use.
//!
//! Each language times itself: its program in `bindings/` is started as it is, all its rows in one
//! run, and prints a line of JSON for each row. It counts what it reads, and a wrong count is a
//! failure here.
//!
//! Invariant: an ended run leaves no process and no file. The programs keep their files in a
//! private directory, and start their servers in their own process group.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sessile_core::Durability;
use sessile_fixtures::PrivateDir;
use sessile_results::statistics::Spread;
use sessile_results::{Figures, LatencyUs, LeftOut, Row, Subject, UsageError, naming};

use crate::experiments::{Bench, check_interrupted};
use crate::program_output::output_within;
use crate::redact;
use crate::requirements::Requirement;
use crate::run::RunError;
use crate::selection::{Choice, ContenderSource, Selection, missing_tier};
use crate::worker::process::failure;
use crate::worker::protocol::{ContenderFailure, WorkerResult};

/// A program that takes longer has hung. The quick ones take seconds each, unless others use the
/// processors.
const TIME_MAX: Duration = Duration::from_secs(300);
/// More for each session that a collector of garbage fills in and removes, a few times.
const TIME_MAX_EACH: Duration = Duration::from_millis(2);
/// Where programs make their files: in memory, and on a disk.
const PLACE_VARIABLE: &str = "SESSILE_BENCH_DIR";
const DISK_VARIABLE: &str = "SESSILE_BENCH_DISK";
/// How many sessions the collector works on.
const SESSIONS_VARIABLE: &str = "SESSILE_BENCH_SESSIONS";

/// A language with the program that measures it.
#[derive(Debug)]
pub struct Language {
    pub name: &'static str,
    pub variant: &'static str,
    /// In the checkout; so are `interpreter` with a slash, and paths of `arguments`.
    program: &'static str,
    interpreter: &'static str,
    arguments: &'static [&'static str],
    /// Succeeds if all modules can be loaded.
    probe: &'static [&'static str],
    /// Requests, or sessions, of a row in a round.
    calls: &'static str,
    remedy: &'static str,
}

const LANGUAGES: &[Language] = &[
    PHP,
    Language {
        variant: "collector",
        program: "bindings/php/bench/collector.php",
        calls: "2000",
        ..PHP
    },
    Language {
        name: "python",
        variant: "default",
        program: "bindings/python/bench/frameworks.py",
        interpreter: "target/python-release/bin/python",
        arguments: &[],
        probe: &["-c", "import django, flask_session, sessile.flask"],
        calls: "50",
        remedy: "make python",
    },
    Language {
        name: "node",
        variant: "default",
        program: "bindings/node/bench/stores.js",
        interpreter: "node",
        arguments: &[],
        probe: &[
            "-e",
            "require('./bindings/node/sessile.node'); \
             for (const name of ['express-session', 'session-file-store', 'connect-redis']) \
             require.resolve(name, { paths: ['bindings/node'] })",
        ],
        calls: "200",
        remedy: "make node",
    },
    Language {
        name: "perl",
        variant: "default",
        program: "bindings/perl/bench/loop.pl",
        interpreter: "perl",
        arguments: &["-Itarget/perl-release/blib/lib", "-Itarget/perl-release/blib/arch"],
        probe: &["-MApache::Session::File", "-MStorable", "-e", "1"],
        calls: "500",
        remedy: "apt-get install libapache-session-perl",
    },
];

/// Its programs find the extensions themselves.
const PHP: Language = Language {
    name: "php",
    variant: "default",
    program: "bindings/php/bench/cycle.php",
    interpreter: "php",
    arguments: &[],
    probe: &["-r", "session_encode();"],
    calls: "200",
    remedy: "apt-get install php-cli",
};

/// What a program prints of a row.
#[derive(serde::Deserialize)]
struct ProgramRow {
    /// The framework, and what keeps its sessions.
    row: String,
    #[serde(default)]
    op: Option<String>,
    /// Of a request, in each round.
    #[serde(default)]
    us: Vec<f64>,
    /// Of all requests, where each is timed.
    #[serde(default)]
    latency_us: Option<LatencyUs>,
    #[serde(default)]
    sessions: Option<usize>,
    #[serde(default)]
    checked: u64,
    #[serde(default)]
    missing: Option<String>,
    #[serde(default)]
    wrong: Option<String>,
}

pub(crate) fn named(stores: &[String]) -> Result<Vec<&'static Language>, UsageError> {
    if stores.is_empty() {
        return Ok(LANGUAGES.iter().collect());
    }
    let words: Vec<&str> = stores.iter().map(|word| word.trim()).collect();
    naming::select_entries(LANGUAGES, words, "language", |it| (it.name, it.variant))
}

/// What each program loads, in the words of `sessile bench setup`.
pub(crate) fn requirements() -> Vec<Requirement> {
    let checkout = checkout();
    let of = |language: &Language| Requirement {
        name: format!("what the program of {} loads", language.name),
        present: checkout.as_ref().is_some_and(|place| language.obstacle(place).is_none()),
        package: None,
        remedy: Some(format!("in the checkout: {}", language.remedy)),
        wanted_by: vec![format!("languages {}", language.name)],
    };
    LANGUAGES.iter().filter(|language| language.variant == "default").map(of).collect()
}

pub(crate) fn select(stores: &[String], durability: Durability) -> Result<Selection, UsageError> {
    let languages = named(stores)?;
    let checkout = checkout().ok_or_else(|| {
        let why = "`languages` and `perl` start programs of bindings/: run them in the checkout";
        UsageError(why.to_owned())
    })?;
    let mut selection = Selection::default();
    for language in languages {
        let tier = missing_tier(&[Durability::None], durability);
        selection.add(language.choice(durability), tier.or_else(|| language.obstacle(&checkout)));
    }
    selection.require_any()
}

/// The directory around the working directory, or around this program, that has the bindings.
fn checkout() -> Option<PathBuf> {
    let program = std::env::current_exe().ok();
    let places = [std::env::current_dir().ok(), program];
    let has_programs =
        |place: &&Path| LANGUAGES.iter().all(|language| place.join(language.program).is_file());
    places.iter().flatten().find_map(|place| place.ancestors().find(has_programs)).map(Into::into)
}

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    let checkout = checkout().ok_or_else(|| RunError::Broken("the checkout is gone".to_owned()))?;
    let languages: Vec<(Choice, &Language)> = bench
        .choices
        .iter()
        .filter_map(|choice| match choice.target {
            ContenderSource::Language(language) => Some((choice.clone(), language)),
            _ => None,
        })
        .collect();
    bench.progress.expect_more(languages.len());
    for (choice, language) in languages {
        check_interrupted()?;
        bench.progress.set_message(&format!("{}: {}", language.name, language.program));
        match language.measure(&checkout, bench.settings.rounds, bench.settings.sessions) {
            Ok(rows) => rows.into_iter().for_each(|row| add(bench, &choice, row)),
            Err(failure) => {
                let message = redact::ids(&failure.message);
                let failure = ContenderFailure { message, ..failure };
                bench.add_failure(&choice, "request", 1, 1, &failure);
            }
        }
        bench.progress.advance();
    }
    check_interrupted()?;
    // Each program has compared its counts.
    bench.mark_rows_verified();
    Ok(())
}

fn add(bench: &mut Bench, choice: &Choice, told: ProgramRow) {
    let (framework, keeper) = told.row.split_once(' ').unwrap_or((&told.row, "default"));
    let variant = keeper.replace("::", "-").replace([':', ','], "").replace(' ', "-");
    if let Some(missing) = told.missing {
        let reason = format!("{missing} is not installed");
        let (store, variant) = (framework.to_owned(), variant.to_lowercase());
        bench.left_out.push(LeftOut { store, variant, workers: None, reason });
        return;
    }
    let failed = fault(&told);
    let op = told.op.as_deref().unwrap_or("request");
    let mut row = bench.row(choice, op, 1, told.sessions.unwrap_or(1));
    let rates: Vec<f64> = told.us.iter().map(|us| 1e6 / us.max(f64::MIN_POSITIVE)).collect();
    let us = Spread::of(&told.us);
    let of_rounds = LatencyUs { min: us.low, p50: us.median, max: us.high, ..LatencyUs::default() };
    row.question.payload_bytes = 0;
    row.outcome.failed = failed;
    bench.rows.push(Row {
        subject: Subject {
            store: framework.to_owned(),
            variant: variant.to_lowercase(),
            ..row.subject
        },
        figures: Figures {
            rounds: told.us.len(),
            ops_per_second: Spread::of(&rates),
            latency_us: told.latency_us.unwrap_or(of_rounds),
            operations: told.checked,
            ..row.figures
        },
        ..row
    });
}

/// What the program has found wrong; a row without a time is wrong, too.
fn fault(told: &ProgramRow) -> Option<String> {
    let timeless = || told.us.is_empty().then(|| "the program tells no time".to_owned());
    told.wrong.clone().or_else(timeless)
}

impl Language {
    fn choice(&'static self, durability: Durability) -> Choice {
        let shown_url = format!("program:{}", self.program);
        let target = ContenderSource::Language(self);
        Choice::new(self.name, self.variant, shown_url, target, durability.name())
    }

    /// The interpreter in the checkout; relative arguments are meant from there.
    fn command(&self, checkout: &Path) -> Command {
        let here = checkout.join(self.interpreter);
        let own = self.interpreter.contains('/') && here.is_file();
        let mut command =
            Command::new(if own { here.as_os_str() } else { self.interpreter.as_ref() });
        command.current_dir(checkout).args(self.arguments).stdin(Stdio::null());
        command
    }

    fn obstacle(&self, checkout: &Path) -> Option<String> {
        let mut probe = self.command(checkout);
        let status = probe.args(self.probe).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let can = status.is_ok_and(|status| status.success());
        (!can).then(|| format!("{} lacks what its program uses ({})", self.name, self.remedy))
    }

    fn measure(
        &self,
        checkout: &Path,
        rounds: usize,
        sessions: usize,
    ) -> WorkerResult<Vec<ProgramRow>> {
        let no_place =
            |error| ContenderFailure::not_started(format!("no fresh directory: {error}"));
        let failed = |why| failure("program", why);
        let place = PrivateDir::in_shared_memory().map_err(no_place)?;
        let disk = PrivateDir::on_disk().map_err(no_place)?;
        let mut command = self.command(checkout);
        command.arg(self.program).args(["--json", &rounds.to_string(), self.calls]);
        command.env(PLACE_VARIABLE, place.path()).env(DISK_VARIABLE, disk.path());
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.env(SESSIONS_VARIABLE, sessions.to_string());
        let most = TIME_MAX + TIME_MAX_EACH * u32::try_from(sessions).unwrap_or(u32::MAX);
        let output = output_of(command, most, place.path()).map_err(failed)?;
        let rows = output.lines().map(serde_json::from_str).collect::<Result<Vec<_>, _>>();
        rows.map_err(|error| failed(format!("{} prints no rows: {error}", self.program)))
    }
}

/// The standard output of a program that succeeds. A failure names none of its places.
fn output_of(mut command: Command, within: Duration, place: &Path) -> Result<String, String> {
    let output = output_within(&mut command, within).map_err(|error| match error.kind() {
        ErrorKind::TimedOut | ErrorKind::Interrupted => {
            format!("the program did not end within {} s", within.as_secs())
        }
        ErrorKind::FileTooLarge => "the program writes more than 64 MiB".to_owned(),
        _ => format!("it cannot be started: {error}"),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let errors = errors.replace(&place.display().to_string(), "<shm>");
    let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
    Err(format!("the program failed ({}): {last}", output.status))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn shell(script: &str, most: Duration) -> Result<String, String> {
        let place = PrivateDir::in_shared_memory().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("PLACE", place.path());
        output_of(command, most, place.path())
    }

    #[test]
    fn a_row_that_its_program_found_wrong_or_did_not_time_has_failed() {
        let told = |line: &str| fault(&serde_json::from_str(line).unwrap());
        assert_eq!(told(r#"{"row":"php files","us":[1.5],"checked":9}"#), None);
        let wrong = told(r#"{"row":"php files","us":[1.5],"wrong":"8 of 9 changes are there"}"#);
        assert_eq!(wrong.unwrap(), "8 of 9 changes are there");
        assert!(told(r#"{"row":"php files"}"#).unwrap().contains("no time"));
    }

    #[test]
    fn a_program_that_hangs_or_fails_is_a_failure_that_names_no_place() {
        let minute = Duration::from_secs(60);
        assert_eq!(shell("echo '{}'; echo more >&2", minute).unwrap(), "{}\n");
        let failed = shell("echo \"no file in $PLACE\" >&2; exit 3", minute).unwrap_err();
        assert!(failed.contains("3") && failed.contains("no file in <shm>"), "{failed}");
        let begun = Instant::now();
        let hung = shell("sleep 600 & wait", Duration::from_millis(200)).unwrap_err();
        assert!(hung.contains("did not end") && begun.elapsed() < minute, "{hung}");
    }

    #[test]
    fn a_language_is_chosen_by_its_name() {
        let names = |words: &[&str]| -> Result<Vec<&str>, UsageError> {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Ok(named(&words)?.iter().map(|language| language.name).collect())
        };
        assert_eq!(names(&[]).unwrap(), ["php", "php", "python", "node", "perl"]);
        assert_eq!(names(&["node"]).unwrap(), ["node"]);
        assert_eq!(named(&["php#collector".to_owned()]).unwrap().len(), 1);
        assert!(names(&["ruby"]).unwrap_err().0.contains("python"));
    }
}
