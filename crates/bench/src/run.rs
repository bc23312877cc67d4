//! One run, from options to report.

use std::fmt;
use std::time::Duration;

use sessile_core::ErrorKind;
use sessile_fixtures::Awake;
use sessile_stores::Context;

use crate::against;
use crate::all::Position;
use crate::bound::{self, Bound};
use crate::environment::{Environment, ProcessorTime};
use crate::experiments::{self, Bench};
use crate::interruption::{self, INTERRUPTION};
use crate::options::{Experiment, Options, Settings, UsageError};
use crate::oversize;
use crate::published;
use crate::redact;
use crate::report::{self, Report};
use crate::selection::{self, Choice, Selection, Target, reasons};
use crate::statistics::confidence_of_range;
use crate::worker::Remains;
use crate::worker::process::Launch;

/// Lets a debug build measure, for tests of the programs around it. Results then say `debug`.
pub const DEBUG_OVERRIDE: &str = "SESSILE_BENCH_ALLOW_DEBUG";

/// Why there is no report.
#[derive(Debug)]
pub enum RunError {
    /// The options make no sense.
    Usage(UsageError),
    /// Nothing that was chosen can be measured, and why.
    Nothing(String),
    /// What the experiment as a whole needs was there before and fails now. One contender that fails is a row.
    Broken(String),
    /// A store that the user named cannot be opened.
    Open(sessile_core::Error),
    /// The program was stopped by a signal before any row was measured to the end.
    Interrupted,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Usage(error) => write!(f, "{error}"),
            RunError::Nothing(why) => write!(f, "nothing is left to measure: {why}"),
            RunError::Broken(why) => f.write_str(why),
            RunError::Open(error) => write!(f, "{error:#}"),
            RunError::Interrupted => f.write_str(INTERRUPTION),
        }
    }
}

impl std::error::Error for RunError {}

impl From<UsageError> for RunError {
    fn from(error: UsageError) -> RunError {
        RunError::Usage(error)
    }
}

/// Runs an experiment. Who has written the result drops what remains of the run, and so has it removed.
///
/// # Errors
///
/// See [`RunError`]. What goes wrong with a contender during the measurement is part of the report.
pub fn run(experiment: Experiment, options: &Options, launch: &Launch) -> Result<(Report, Remains), RunError> {
    run_at(experiment, options, launch, None)
}

/// The same at its place in a series.
pub(crate) fn run_at(
    experiment: Experiment,
    options: &Options,
    launch: &Launch,
    position: Option<Position>,
) -> Result<(Report, Remains), RunError> {
    refuse_debug_build()?;
    let (settings, selection) = chosen(experiment, options, position.is_some())?;
    measure(settings, selection, options, Programs { launch, other: None }, position)
}

/// The same of this program and of another one in the same rounds: the result of the other one, and that of this.
///
/// # Errors
///
/// As [`run`]; and when the other program is none of ours.
pub fn run_against(
    experiment: Experiment,
    options: &Options,
    launch: &Launch,
    other: &Launch,
) -> Result<(Report, Report), RunError> {
    refuse_debug_build()?;
    against::check(experiment)?;
    let options = &against::complete(options, experiment);
    against::check_stores(&prepare(experiment, options)?.1)?;
    let environment = against::environment_of(other)?;
    let (settings, selection) = chosen(experiment, options, false)?;
    let left_out_of_both = selection.left_out.clone();
    let selection = against::with_twins(selection);
    // Nothing remains of private stores.
    let (both, _) = measure(settings, selection, options, Programs { launch, other: Some(other) }, None)?;
    Ok(against::apart(both, environment, &left_out_of_both))
}

/// Settings and the contenders that can be measured with them.
fn chosen(experiment: Experiment, options: &Options, in_series: bool) -> Result<(Settings, Selection), RunError> {
    let (settings, selection) = prepare(experiment, options)?;
    // Each experiment of a series has payloads of its own, as a workload has, and nobody chose the contender for all of them.
    let chosen_for_it = !in_series && settings.workload.is_none() && !options.stores.is_empty();
    let selection = fitting(selection, &settings, chosen_for_it)?;
    for choice in &selection.choices {
        if settings.round_trip.is_some() && choice.over_socket && matches!(choice.target, Target::Url(..)) {
            let why = format!("--round-trip is for private servers; the way to {} is what it is", choice.title());
            return Err(UsageError(why).into());
        }
    }
    Ok((settings, selection))
}

/// Whose processes the workers are.
#[derive(Clone, Copy)]
struct Programs<'a> {
    launch: &'a Launch,
    /// That of the twins.
    other: Option<&'a Launch>,
}

/// Figures of a debug build would mislead.
pub(crate) fn refuse_debug_build() -> Result<(), UsageError> {
    if cfg!(debug_assertions) && std::env::var_os(DEBUG_OVERRIDE).is_none() {
        let why = "this is a debug build, whose figures would mislead; build with --release";
        return Err(UsageError(why.to_owned()));
    }
    Ok(())
}

/// Settings and contenders, before anything is started.
pub(crate) fn prepare(experiment: Experiment, options: &Options) -> Result<(Settings, Selection), UsageError> {
    let settings = options.check(experiment)?;
    let selection = match experiment {
        Experiment::Lifecycle => experiments::lifecycle::select(&options.stores, settings.durability),
        Experiment::Perl => experiments::perl::select(&options.stores, settings.durability),
        Experiment::Rebuild => experiments::rebuild::select(&options.stores, settings.durability),
        _ => selection::select(&options.stores, experiment, settings.durability),
    }?;
    let selection = if settings.as_published { published::contenders(selection) } else { selection };
    Ok((settings, selection))
}

/// Refuses bounds that no row of a run with these options can be about, before anything is started.
///
/// # Errors
///
/// When there is such a bound, or the options make no sense.
pub fn check_bounds(experiment: Experiment, options: &Options, bounds: &[Bound]) -> Result<(), UsageError> {
    if bounds.is_empty() {
        return Ok(());
    }
    let (_, selection) = prepare(experiment, options)?;
    bound::check(bounds, &[bound::Part::of(experiment, &selection)])
}

/// Runs an experiment on contenders of a test, in a debug build too.
#[doc(hidden)]
pub fn run_choices(
    experiment: Experiment,
    options: &Options,
    launch: &Launch,
    choices: Vec<Choice>,
) -> Result<Report, RunError> {
    let settings = options.check(experiment)?;
    let programs = Programs { launch, other: None };
    let measured = measure(settings, Selection { choices, left_out: Vec::new() }, options, programs, None);
    measured.map(|(report, _)| report)
}

/// The same with twins among them, which a test makes of what it likes.
#[doc(hidden)]
pub fn run_choices_against(
    experiment: Experiment,
    options: &Options,
    launch: &Launch,
    choices: Vec<Choice>,
) -> Result<(Report, Report), RunError> {
    let both = run_choices(experiment, options, launch, choices)?;
    let environment = both.environment.clone();
    Ok(against::apart(both, environment, &[]))
}

fn measure(
    settings: Settings,
    selection: Selection,
    options: &Options,
    programs: Programs<'_>,
    position: Option<Position>,
) -> Result<(Report, Remains), RunError> {
    interruption::listen(Duration::from_secs_f64(settings.warm_up_seconds + settings.seconds));
    let mut bench = Bench::new(settings.clone(), programs.launch.clone(), selection, position);
    bench.other = programs.other.cloned();
    let before = ProcessorTime::so_far();
    // A closed loop leaves nobody time to sleep, except for the time on the way.
    let idle = settings.rate.is_some() || settings.round_trip.is_some();
    let awake = (idle && !settings.let_sleep).then(Awake::keep);
    let interrupted = match experiments::run(&mut bench) {
        Err(RunError::Interrupted) if bench.whole > 0 => true,
        ended => ended.map(|()| false)?,
    };
    let processors_awake = awake.as_ref().is_some_and(Awake::is_kept);
    drop(awake);
    let stolen = ProcessorTime::so_far().stolen_since(&before);
    if interrupted {
        bench.rows.truncate(bench.whole);
    }
    if bench.rows.is_empty() {
        return Err(RunError::Nothing(reasons(&bench.left_out)));
    }
    // Of a run that was interrupted the rows have fewer rounds than were asked for.
    let complete = bench.rows.iter().map(|row| row.rounds).filter(|rounds| *rounds > 0).min();
    let rounds = if interrupted { complete.unwrap_or(0).min(settings.rounds) } else { settings.rounds };
    let mut report = Report {
        schema: report::SCHEMA,
        environment: Environment::look().with(&bench.programs),
        command: redact::command(&options.command),
        seed: settings.seed,
        settings: report::Settings {
            seconds: settings.seconds,
            warm_up_seconds: settings.warm_up_seconds,
            ttl_seconds: settings.ttl.as_secs(),
            rate: settings.rate,
            round_trip_us: settings.round_trip.map(|round_trip| round_trip.as_secs_f64() * 1e6),
            processors_awake,
            stolen: Some(stolen),
            churn: settings.churn,
            as_published: settings.as_published,
            against: None,
            confidence: confidence_of_range(rounds),
        },
        interrupted,
        results: std::mem::take(&mut bench.rows),
        left_out: std::mem::take(&mut bench.left_out),
        warnings: Vec::new(),
    };
    let mut known = Vec::new();
    report.left_out.retain(|left| {
        !known.contains(left) && {
            known.push(left.clone());
            true
        }
    });
    report.warnings = report::warnings::of(&report);
    Ok((report, bench.remains))
}

/// The contenders into which the payload fits. One into which it does not is left out, and the others are measured all the same,
/// unless somebody has asked for just this, and is told.
fn fitting(selection: Selection, settings: &Settings, chosen_for_it: bool) -> Result<Selection, RunError> {
    let mut fitting = Selection { choices: Vec::new(), left_out: selection.left_out };
    for choice in selection.choices {
        match too_large(&choice, settings)? {
            Some(why) if chosen_for_it => return Err(UsageError(why).into()),
            obstacle => fitting.add(choice, obstacle),
        }
    }
    if fitting.choices.is_empty() {
        return Err(RunError::Nothing(reasons(&fitting.left_out)));
    }
    Ok(fitting)
}

/// Why the payload does not fit into a contender, if so. Of several spreads one that fits will do: the experiment goes through
/// them, and leaves it out of the others.
fn too_large(choice: &Choice, settings: &Settings) -> Result<Option<String>, RunError> {
    let smallest = settings.spreads.iter().map(|spread| spread.largest(settings.payload_bytes)).min();
    over_limit(choice, smallest.unwrap_or(settings.payload_bytes))
}

/// Why a payload of this size does not fit into a contender, if so. A store that the user named is opened for that.
pub(crate) fn over_limit(choice: &Choice, payload: usize) -> Result<Option<String>, RunError> {
    let limit = match choice.target {
        Target::Fixture(entry, _) => {
            entry.capabilities.value_bytes_max.min(oversize::stock_limit(entry.capabilities.server))
        }
        Target::FixtureOn(entry, ..) => entry.capabilities.value_bytes_max,
        // What its server takes, unless it is there to offer it more.
        Target::Reference(reference) if !reference.loses_large => oversize::stock_limit(reference.server),
        Target::Reference(_) | Target::Handler(_) | Target::Keeper(_) | Target::Test(..) => u64::MAX,
        Target::Url(_, url) => {
            let opened = sessile_stores::open(url, &Context::default()).map_err(|error| match error.kind() {
                ErrorKind::InvalidUrl | ErrorKind::InvalidArgument => UsageError(error.to_string()).into(),
                _ => RunError::Open(error),
            })?;
            opened.limits().payload_bytes_max
        }
    };
    let title = choice.title();
    Ok((payload as u64 > limit)
        .then(|| format!("a payload of {payload} bytes is over the limit of {title}, which takes {limit} bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spread::Spread;

    fn chosen(words: &[&str]) -> (Settings, Selection) {
        let stores = words.iter().map(|word| (*word).to_owned()).collect();
        let options = Options { stores, payload_bytes: Some(4_096), quick: true, ..Options::default() };
        prepare(Experiment::Cycle, &options).unwrap()
    }

    #[test]
    fn a_reference_row_takes_what_its_server_takes_unless_it_is_there_to_lose_the_rest() {
        let target = |name| Target::Reference(crate::reference::by_name(name).unwrap());
        let choices = ["memcached-four-trips", "memcached-ignored", "redis-four-trips", "lmdb"].map(target);
        let mut choice = chosen(&["memory"]).1.choices.remove(0);
        let refused = choices.map(|target| {
            choice.target = target;
            over_limit(&choice, 1 << 20).unwrap().is_some()
        });
        assert_eq!(refused, [true, false, false, false]);
    }

    /// memcached takes payloads of one size and not the largest of the others: it had no row of `scale` at all.
    #[test]
    fn who_takes_one_spread_of_several_takes_part() {
        let dir = sessile_fixtures::PrivateDir::on_disk().unwrap();
        let small = format!("files:{}?payload_bytes_max=100000#small", dir.path().join("sessions").display());
        let (mut settings, _) = chosen(&["memory"]);
        let selection = || chosen(&[&small]).1;
        settings.spreads = vec![Spread::Fixed, Spread::LogNormal];
        assert_eq!(fitting(selection(), &settings, true).unwrap().choices.len(), 1);
        settings.spreads.remove(0);
        assert!(matches!(fitting(selection(), &settings, true), Err(RunError::Usage(_))));
    }

    /// One store with a small limit dropped the experiment for all the others, and the exit code was 0.
    #[test]
    fn who_is_too_small_for_an_experiment_of_a_series_leaves_the_others_in_it() {
        let dir = sessile_fixtures::PrivateDir::on_disk().unwrap();
        let small = format!("files:{}?payload_bytes_max=1000#small", dir.path().join("sessions").display());
        let (settings, selection) = chosen(&["memory", &small]);
        let rest = fitting(selection, &settings, false).unwrap();
        let titles: Vec<String> = rest.choices.iter().map(Choice::title).collect();
        assert_eq!(titles, ["memory"]);
        assert!(rest.left_out[0].reason.contains("takes 1000 bytes"), "{:?}", rest.left_out);

        let (settings, selection) = chosen(&[&small]);
        assert!(matches!(fitting(selection, &settings, false), Err(RunError::Nothing(_))));
        let (settings, selection) = chosen(&["memory", &small]);
        assert!(matches!(fitting(selection, &settings, true), Err(RunError::Usage(_))), "it was asked for alone");
    }
}
