//! What the experiments with a web server share: its programs, a running site, samples in rounds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sessile_fixtures::{PageResponse, Web, WebOptions};
use sessile_results::{CpuUs, Figures, Outcome, RoundSample, Row};

use crate::environment::program_version;
use crate::experiments::Bench;
use crate::experiments::ab::{self, AbReport};
use crate::php::{self, PhpInstallation};
use crate::private_places::PrivatePlaces;
use crate::redact;
use crate::run::RunError;
use crate::worker::process::failure;
use crate::worker::protocol::{ContenderFailure, WorkerResult};

const PROCESSES_MIN: usize = 8;

/// PHP, and what makes the requests.
pub(super) struct WebPrograms {
    pub php: PhpInstallation,
    pub ab: PathBuf,
}

impl WebPrograms {
    /// The error says what is not installed.
    pub(super) fn detect() -> Result<WebPrograms, String> {
        let php = PhpInstallation::detect()?;
        let missing =
            "ab is not installed, which makes the requests (Debian package apache2-utils)";
        Ok(WebPrograms { php, ab: ab::find().ok_or(missing)? })
    }

    /// The programs of a run, whose versions its environment names.
    pub(super) fn of_run(bench: &mut Bench) -> Result<WebPrograms, RunError> {
        let programs = WebPrograms::detect().map_err(RunError::Broken)?;
        bench.programs.extend(php::versions(&programs.php, &bench.choices));
        let version = program_version(&programs.ab, "-V");
        bench.programs.extend(version.map(|version| ("ab".to_owned(), version)));
        Ok(programs)
    }
}

/// Whether `ab` is installed.
pub(crate) fn has_load_generator() -> bool {
    ab::find().is_some()
}

/// A failure of a page, and so of its handler.
pub(super) fn of_page(why: String) -> ContenderFailure {
    failure("page", why)
}

/// PHP processes: as many as requests at a time, so that none waits for a process.
pub(super) fn processes(parallel: &[usize]) -> usize {
    parallel.iter().copied().fold(PROCESSES_MIN, usize::max)
}

pub(super) fn pair(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

/// PHP's settings of all rows.
pub(super) fn settings(ttl: Duration, save_path: &str) -> Vec<(String, String)> {
    vec![
        // As on Debian.
        pair("session.gc_probability", "0"),
        pair("session.gc_maxlifetime", ttl.as_secs().to_string()),
        pair("session.save_path", save_path),
        pair("display_errors", "0"),
        pair("log_errors", "1"),
    ]
}

/// A running web server, and the places of its pages. Its texts contain no path and no session id.
pub(super) struct Site {
    // Dropped in this order: pages, server and directories.
    pub web: Web,
    pub places: PrivatePlaces,
}

impl Site {
    pub(super) fn start(places: PrivatePlaces, options: &WebOptions) -> WorkerResult<Site> {
        let web = Web::start(places.scratch(), options);
        let web =
            web.map_err(|error| ContenderFailure::not_started(redact::start_error(&error)))?;
        Ok(Site { web, places })
    }

    pub(super) fn get(&self, page: &str) -> Result<PageResponse, String> {
        self.web.get(page).map_err(|error| format!("the page does not answer: {error}"))
    }

    /// Sends requests for a page with `ab`.
    pub(super) fn load(
        &self,
        ab: &Path,
        page: &str,
        one_length: bool,
        requests: usize,
        parallel: usize,
    ) -> Result<AbReport, String> {
        let url = format!("http://{}/{page}", self.web.address());
        let scratch = self.places.scratch().join("percentiles");
        let load = ab::send_requests(ab, &url, one_length, requests, parallel, &scratch);
        load.map_err(|why| self.places.redact(&why))
    }

    pub(super) fn last_php_message(&self) -> String {
        let log = self.web.log();
        self.places.redact(log.lines().rfind(|line| line.contains("PHP ")).unwrap_or_default())
    }
}

/// Samples of a site, one a round.
pub(super) struct RoundSamples<S> {
    pub samples: Vec<S>,
    /// The round and the reason.
    pub failed: Option<(usize, String)>,
}

impl<S> RoundSamples<S> {
    pub(super) fn new() -> RoundSamples<S> {
        RoundSamples { samples: Vec::new(), failed: None }
    }

    /// Drops what is of a round that a signal cut off.
    pub(super) fn keep_rounds(&mut self, rounds: usize) {
        self.samples.truncate(rounds);
        self.failed = self.failed.take().filter(|(round, _)| *round < rounds);
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failed.as_ref().map(|(_, why)| why.clone())
    }
}

/// A row with the figures of its loads.
pub(super) fn row_of_loads(row: Row, loads: &[&AbReport], failed: Option<String>) -> Row {
    let sum = |part: fn(&AbReport) -> u64| loads.iter().map(|load| part(load)).sum::<u64>();
    let samples: Vec<RoundSample> = loads.iter().map(|load| load.sample()).collect();
    let complete = sum(|load| load.complete);
    let client: f64 = loads.iter().map(|load| load.cpu_us).sum();
    Row {
        figures: Figures {
            rounds: loads.len(),
            ops_per_second: RoundSample::spread(&samples),
            samples,
            latency_us: ab::latency(loads),
            operations: complete,
            cpu_us_per_op: CpuUs { client: client / complete.max(1) as f64, server: 0.0 },
            ..row.figures
        },
        outcome: Outcome {
            errors: sum(|load| load.failed.max(load.not_2xx)),
            failed,
            ..row.outcome
        },
        ..row
    }
}
