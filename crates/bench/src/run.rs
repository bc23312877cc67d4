//! One run, from options to report.

use std::fmt;
use std::time::Duration;

use sessile_core::ErrorKind;
use sessile_fixtures::Awake;
use sessile_results::statistics::confidence_of_range;
use sessile_results::{Report, UsageError};
use sessile_stores::Context;

use crate::all::SeriesPosition;
use crate::baseline;
use crate::environment::{self, ProcessorTime};
use crate::experiments::{self, Bench};
use crate::interruption::{self, INTERRUPTION};
use crate::options::{Experiment, Options, Settings};
use crate::published;
use crate::redact;
use crate::selection::{self, Choice, ContenderSource, Selection, reasons_text};
use crate::worker::PendingCleanup;
use crate::worker::process::Launch;

/// Allows a debug build to measure, for tests. Results then say `debug`.
pub const DEBUG_OVERRIDE: &str = "SESSILE_BENCH_ALLOW_DEBUG";

#[derive(Debug)]
pub enum RunError {
    /// The options make no sense.
    Usage(UsageError),
    /// Nothing that was chosen can be measured, and why.
    Nothing(String),
    /// Something that the whole experiment needs fails now. A failing contender is a row instead.
    Broken(String),
    /// A store named by the user cannot be opened.
    Open(sessile_core::Error),
    /// A signal came before any row was complete.
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

/// Runs an experiment. Drop the returned `PendingCleanup` after writing the result: that removes
/// what is left of the run. Failures of a contender are part of the report.
pub fn run(
    experiment: Experiment,
    options: &Options,
    launch: &Launch,
) -> Result<(Report, PendingCleanup), RunError> {
    run_in_series(experiment, options, launch, None)
}

pub(crate) fn run_in_series(
    experiment: Experiment,
    options: &Options,
    launch: &Launch,
    position: Option<SeriesPosition>,
) -> Result<(Report, PendingCleanup), RunError> {
    refuse_debug_build()?;
    let (settings, selection) = resolve_fitting(experiment, options, position.is_some())?;
    measure(settings, selection, options, Programs { launch, other: None }, position)
}

/// Measures another program and this one in the same rounds; returns the report of the other one
/// first.
pub fn run_with_baseline(
    experiment: Experiment,
    options: &Options,
    launch: &Launch,
    other: &Launch,
) -> Result<(Report, Report), RunError> {
    refuse_debug_build()?;
    let options = &baseline::with_defaults(options, experiment);
    baseline::check_stores(&resolve(experiment, options)?.1)?;
    let environment = baseline::environment_of(other)?;
    let (settings, selection) = resolve_fitting(experiment, options, false)?;
    let left_out_of_both = selection.left_out.clone();
    let selection = baseline::with_counterparts(selection);
    // Private stores leave nothing behind.
    let (both, _) =
        measure(settings, selection, options, Programs { launch, other: Some(other) }, None)?;
    Ok(baseline::split_report(both, environment, &left_out_of_both))
}

/// Settings, and the contenders into which the payload fits.
fn resolve_fitting(
    experiment: Experiment,
    options: &Options,
    in_series: bool,
) -> Result<(Settings, Selection), RunError> {
    let (settings, selection) = resolve(experiment, options)?;
    // In a series, or with a workload, the user did not choose this contender for this payload
    // size.
    let chosen_for_it = !in_series && settings.workload.is_none() && !options.stores.is_empty();
    let selection = without_too_large(selection, &settings, chosen_for_it)?;
    for choice in &selection.choices {
        if settings.round_trip.is_some()
            && choice.over_socket
            && matches!(choice.target, ContenderSource::Url(..))
        {
            let why = format!(
                "--round-trip is for private servers; the way to {} is what it is",
                choice.title()
            );
            return Err(UsageError(why).into());
        }
    }
    Ok((settings, selection))
}

#[derive(Clone, Copy)]
struct Programs<'a> {
    launch: &'a Launch,
    /// For counterparts.
    other: Option<&'a Launch>,
}

/// Refuses to measure with a debug build, whose figures would mislead.
pub(crate) fn refuse_debug_build() -> Result<(), UsageError> {
    if cfg!(debug_assertions) && std::env::var_os(DEBUG_OVERRIDE).is_none() {
        let why = "this is a debug build, whose figures would mislead; build with --release";
        return Err(UsageError(why.to_owned()));
    }
    Ok(())
}

/// Settings and contenders; starts nothing.
pub(crate) fn resolve(
    experiment: Experiment,
    options: &Options,
) -> Result<(Settings, Selection), UsageError> {
    let settings = options.check(experiment)?;
    let selection = match experiment {
        Experiment::Lifecycle => experiments::lifecycle::select(
            &options.stores,
            settings.durability,
            settings.drupal.is_some(),
        ),
        Experiment::Languages => {
            experiments::languages::select(&options.stores, settings.durability)
        }
        Experiment::Rebuild => experiments::rebuild::select(&options.stores, settings.durability),
        _ => selection::select_in(experiment, options),
    }?;
    let selection =
        if settings.as_published { published::contenders(selection) } else { selection };
    Ok((settings, selection))
}

/// Runs an experiment on a test's contenders, also in a debug build.
#[doc(hidden)]
pub fn run_choices(
    experiment: Experiment,
    options: &Options,
    launch: &Launch,
    choices: Vec<Choice>,
) -> Result<Report, RunError> {
    let settings = options.check(experiment)?;
    let programs = Programs { launch, other: None };
    let measured =
        measure(settings, Selection { choices, left_out: Vec::new() }, options, programs, None);
    measured.map(|(report, _)| report)
}

/// Runs an experiment on a test's contenders with counterparts among them.
#[doc(hidden)]
pub fn run_choices_with_baseline(
    experiment: Experiment,
    options: &Options,
    launch: &Launch,
    choices: Vec<Choice>,
) -> Result<(Report, Report), RunError> {
    let both = run_choices(experiment, options, launch, choices)?;
    let environment = both.environment.clone();
    Ok(baseline::split_report(both, environment, &[]))
}

fn measure(
    settings: Settings,
    selection: Selection,
    options: &Options,
    programs: Programs<'_>,
    position: Option<SeriesPosition>,
) -> Result<(Report, PendingCleanup), RunError> {
    interruption::listen(Duration::from_secs_f64(settings.warm_up_seconds + settings.seconds));
    let mut bench = Bench::new(settings.clone(), programs.launch.clone(), selection, position);
    bench.other_launch = programs.other.cloned();
    let before = ProcessorTime::so_far();
    // Processors sleep only between paced requests and during simulated round trips.
    let idle = settings.rate.is_some() || settings.round_trip.is_some();
    let awake = (idle && !settings.let_sleep).then(Awake::keep);
    let interrupted = match experiments::run(&mut bench) {
        Err(RunError::Interrupted) if bench.verified_rows > 0 => true,
        ended => ended.map(|()| false)?,
    };
    let processors_awake = awake.as_ref().is_some_and(Awake::is_kept);
    drop(awake);
    let stolen = ProcessorTime::so_far().stolen_since(&before);
    if interrupted {
        bench.rows.truncate(bench.verified_rows);
    }
    if bench.rows.is_empty() {
        return Err(RunError::Nothing(reasons_text(&bench.left_out)));
    }
    // The rows of an interrupted run have fewer rounds than asked for.
    let complete =
        bench.rows.iter().map(|row| row.figures.rounds).filter(|rounds| *rounds > 0).min();
    let rounds =
        if interrupted { complete.unwrap_or(0).min(settings.rounds) } else { settings.rounds };
    let mut report = Report {
        schema: sessile_results::SCHEMA,
        environment: environment::detect(&bench.programs, &bench.choices),
        command: redact::command(&options.command),
        seed: settings.seed,
        settings: sessile_results::Settings {
            seconds: settings.seconds,
            warm_up_seconds: settings.warm_up_seconds,
            ttl_seconds: settings.ttl.as_secs(),
            rate: settings.rate,
            round_trip_us: settings.round_trip.map(|round_trip| round_trip.as_secs_f64() * 1e6),
            processors_awake,
            stolen: Some(stolen),
            as_published: settings.as_published,
            baseline: None,
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
    report.warnings = sessile_results::warnings::warnings_for(&report);
    Ok((report, bench.cleanup))
}

/// Leaves out contenders for which the payload is too large. If the user chose the contender for
/// this payload, it is an error instead.
fn without_too_large(
    selection: Selection,
    settings: &Settings,
    chosen_for_it: bool,
) -> Result<Selection, RunError> {
    let mut without_too_large = Selection { choices: Vec::new(), left_out: selection.left_out };
    for choice in selection.choices {
        match too_large(&choice, settings)? {
            Some(why) if chosen_for_it => return Err(UsageError(why).into()),
            obstacle => without_too_large.add(choice, obstacle),
        }
    }
    if without_too_large.choices.is_empty() {
        return Err(RunError::Nothing(reasons_text(&without_too_large.left_out)));
    }
    Ok(without_too_large)
}

/// Why the largest payload is too large for a contender.
fn too_large(choice: &Choice, settings: &Settings) -> Result<Option<String>, RunError> {
    over_limit(choice, settings.spread.largest(settings.payload_bytes))
}

/// Why a payload of this size is too large for a contender. Opens a store that the user named.
fn over_limit(choice: &Choice, payload: usize) -> Result<Option<String>, RunError> {
    let limit = match choice.target {
        ContenderSource::Fixture(entry, _) if choice.server_arguments.is_empty() => entry
            .capabilities
            .value_bytes_max
            .min(sessile_results::server_limits::default_limit_bytes(entry.capabilities.server)),
        ContenderSource::Fixture(entry, ..) => entry.capabilities.value_bytes_max,
        // The server's limit, unless the row exists to exceed it.
        ContenderSource::Reference(reference) if !reference.loses_large => {
            sessile_results::server_limits::default_limit_bytes(reference.server)
        }
        ContenderSource::Cluster(_)
        | ContenderSource::Standby(_)
        | ContenderSource::Reference(_)
        | ContenderSource::Handler(_)
        | ContenderSource::Language(_)
        | ContenderSource::Test(..) => u64::MAX,
        ContenderSource::Url(_, url) => {
            let opened =
                sessile_stores::open(url, &Context::default()).map_err(|error| {
                    match error.kind() {
                        ErrorKind::InvalidUrl | ErrorKind::InvalidArgument => {
                            UsageError(error.to_string()).into()
                        }
                        _ => RunError::Open(error),
                    }
                })?;
            opened.limits().payload_bytes_max
        }
    };
    let title = choice.title();
    Ok((payload as u64 > limit).then(|| {
        format!(
            "a payload of {payload} bytes is over the limit of {title}, which takes {limit} bytes"
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve_fitting(words: &[&str]) -> (Settings, Selection) {
        let stores = words.iter().map(|word| (*word).to_owned()).collect();
        let options =
            Options { stores, payload_bytes: Some(4_096), quick: true, ..Options::default() };
        resolve(Experiment::Cycle, &options).unwrap()
    }

    #[test]
    fn a_reference_row_takes_what_its_server_takes_unless_it_is_there_to_lose_the_rest() {
        let target = |name| ContenderSource::Reference(crate::reference::by_name(name).unwrap());
        let choices =
            ["memcached-four-trips", "memcached-ignored", "redis-four-trips", "lmdb"].map(target);
        let mut choice = resolve_fitting(&["memory"]).1.choices.remove(0);
        let refused = choices.map(|target| {
            choice.target = target;
            over_limit(&choice, 1 << 20).unwrap().is_some()
        });
        assert_eq!(refused, [true, false, false, false]);
    }

    /// One store with a small limit dropped the experiment for all the others, and the exit code
    /// was 0.
    #[test]
    fn who_is_too_small_for_an_experiment_of_a_series_leaves_the_others_in_it() {
        let dir = sessile_fixtures::PrivateDir::on_disk().unwrap();
        let small =
            format!("files:{}?payload_bytes_max=1000#small", dir.path().join("sessions").display());
        let (settings, selection) = resolve_fitting(&["memory", &small]);
        let rest = without_too_large(selection, &settings, false).unwrap();
        let titles: Vec<String> = rest.choices.iter().map(Choice::title).collect();
        assert_eq!(titles, ["memory"]);
        assert!(rest.left_out[0].reason.contains("takes 1000 bytes"), "{:?}", rest.left_out);

        let (settings, selection) = resolve_fitting(&[&small]);
        assert!(matches!(
            without_too_large(selection, &settings, false),
            Err(RunError::Nothing(_))
        ));
        let (settings, selection) = resolve_fitting(&["memory", &small]);
        assert!(
            matches!(without_too_large(selection, &settings, true), Err(RunError::Usage(_))),
            "it was asked for alone"
        );
    }
}
