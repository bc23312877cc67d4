//! `lifecycle`: the whole life of a session in one request to a web server: begin, store, commit,
//! regenerate, destroy, and another one that stays. As published for Drupal's session handlers, for
//! every installed PHP handler.
//!
//! Each round takes one sample of every handler and number of parallel requests, in an order drawn
//! from the seed. Sessions pile up, as published. Each contender has its own site (nginx, php-fpm,
//! server), which is idle while others are measured. A failed request or a missing session fails
//! the row.

pub(crate) mod drupal;
mod overflow;
mod site;
mod visitors;

use std::path::Path;

use sessile_core::Durability;

use crate::experiments::ab::AbReport;
use crate::experiments::web::{RoundSamples, WebPrograms, of_page, processes, row_of_loads};
use crate::experiments::{Bench, check_interrupted, choice_position};
use crate::interruption::interrupted;
use crate::php::{self, named};
use crate::run::RunError;
use crate::selection::{Choice, ContenderSource, Selection, missing_tier};
use crate::worker::protocol::WorkerResult;

use sessile_results::{CpuUs, Figures, Outcome, Row, UsageError, WebFigures};
use site::{LifecycleSite, PAYLOAD_BYTES, SiteOptions};

const OP: &str = "page";
/// A page of Drupal.
const OP_OF_DRUPAL: &str = "drupal-page";
/// Each PHP process must have opened its store and compiled the page.
const WARM_UP_REQUESTS: usize = 200;
const WARM_UP_PARALLEL: usize = 8;
/// A generous size in a memory of fixed size.
const SESSION_BYTES_MAX: u64 = 8 << 10;

struct HandlerContender {
    choice: Choice,
    site: LifecycleSite,
}

struct PageSeries {
    contender: usize,
    parallel: usize,
    pages: RoundSamples<PageSample>,
    lost: u64,
}

struct PageSample {
    load: AbReport,
    web_cpu_us: f64,
    server_cpu_us: f64,
    /// Sessions afterwards, where they can be counted.
    kept: Option<u64>,
}

/// Handlers of our page, or of Drupal's.
pub(crate) fn select(
    stores: &[String],
    durability: Durability,
    of_drupal: bool,
) -> Result<Selection, UsageError> {
    let handlers = named(if of_drupal { php::DRUPAL } else { php::HANDLERS }, stores)?;
    let php = WebPrograms::detect().map_err(UsageError)?.php;
    let mut selection = Selection::default();
    for handler in handlers {
        let obstacle =
            missing_tier(handler.durability, durability).or_else(|| php.obstacle(handler));
        selection.add(handler.choice(durability), obstacle);
    }
    selection.require_any()
}

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    let programs = WebPrograms::of_run(bench)?;
    let of_drupal = bench.settings.drupal.is_some();
    bench.settings.payload_bytes = if of_drupal { 0 } else { PAYLOAD_BYTES };
    let (mut contenders, mut all_series, mut absent) = (Vec::new(), Vec::new(), Vec::new());
    let choices = bench.choices.clone();
    bench.progress.expect_more(choices.len());
    for choice in choices {
        check_interrupted()?;
        bench.progress.set_message(&format!("{}: start a web server", choice.title()));
        match HandlerContender::start(bench, &programs, &choice) {
            Ok(contender) => {
                let new = |parallel: &usize| PageSeries::new(contenders.len(), *parallel);
                all_series.extend(bench.settings.workers.iter().map(new));
                contenders.push(contender);
            }
            Err(failure) => {
                let (op, sessions) = (op(bench), bench.settings.sessions);
                for parallel in bench.settings.workers.clone() {
                    bench.add_failure(&choice, op, parallel, sessions, &failure);
                }
                absent.extend(failure.is_of_store().then_some((choice, failure.message)));
            }
        }
        bench.progress.advance();
    }
    let rounds = measure(bench, &programs.ab, &contenders, &mut all_series);
    if rounds == 0 {
        return Err(RunError::Interrupted);
    }
    for mut series in all_series {
        series.pages.keep_rounds(rounds);
        if let Some(contender) = contenders.get(series.contender) {
            let row = series.into_row(bench, contender);
            bench.rows.push(row);
        }
    }
    bench.rows.sort_by_key(|row| choice_position(&bench.choices, row));
    // Each sample was verified at once.
    bench.mark_rows_verified();
    check_interrupted()?;
    if of_drupal {
        return Ok(());
    }
    visitors::run(bench, &contenders, &absent)?;
    bench.mark_rows_verified();
    check_interrupted()?;
    drop(contenders);
    overflow::run(bench, &programs)
}

fn op(bench: &Bench) -> &'static str {
    if bench.settings.drupal.is_some() { OP_OF_DRUPAL } else { OP }
}

fn measure(
    bench: &Bench,
    ab: &Path,
    contenders: &[HandlerContender],
    all_series: &mut [PageSeries],
) -> usize {
    let sample = |series: &mut PageSeries, round| {
        let Some(contender) = contenders.get(series.contender) else { return };
        if series.pages.failed.is_none() {
            bench.progress.set_message(&format!(
                "{} with {} parallel requests",
                contender.choice.title(),
                series.parallel
            ));
            series.sample(contender, ab, bench.settings.sessions, round);
        }
    };
    bench.in_rounds(all_series, interrupted, sample, |_| ())
}

impl HandlerContender {
    fn start(
        bench: &Bench,
        programs: &WebPrograms,
        choice: &Choice,
    ) -> WorkerResult<HandlerContender> {
        let ContenderSource::Handler(handler) = choice.target else {
            return Err(of_page("it is not a session handler of PHP".to_owned()));
        };
        let settings = &bench.settings;
        let samples = settings.rounds * settings.workers.len();
        let sessions = (settings.sessions + 1) * samples + WARM_UP_REQUESTS + 1;
        let purpose = SiteOptions {
            durability: settings.durability,
            sessions: sessions as u64,
            memory_megabytes: 64 + sessions as u64 * SESSION_BYTES_MAX / (1 << 20),
            ttl: settings.ttl,
            processes: processes(&settings.workers),
            drupal: settings.drupal.clone(),
        };
        let site = LifecycleSite::open(handler, &programs.php, &purpose)?;
        let contender = HandlerContender { choice: choice.clone(), site };
        contender.warm_up(&programs.ab).map_err(of_page)?;
        Ok(contender)
    }

    fn warm_up(&self, ab: &Path) -> Result<(), String> {
        self.site.check().map_err(|why| self.with_log_end(&why))?;
        let requests = WARM_UP_REQUESTS;
        let load = self.site.load(ab, requests, WARM_UP_PARALLEL)?;
        if let Some(why) = invalid_reason(&load, requests, self.site.answer_bytes()) {
            return Err(self.with_log_end(&format!("during the warm-up: {why}")));
        }
        let made = requests as u64 + 1;
        match self.site.count_sessions()? {
            Some(kept) if kept != made => {
                Err(format!("{made} sessions were to be kept, {kept} are there"))
            }
            _ => Ok(()),
        }
    }

    fn with_log_end(&self, why: &str) -> String {
        match self.site.site.last_php_message() {
            words if words.is_empty() => why.to_owned(),
            words => format!("{why}; the log ends: {words}"),
        }
    }
}

fn invalid_reason(load: &AbReport, requests: usize, bytes: Option<u64>) -> Option<String> {
    let AbReport { complete, failed, not_2xx, body_bytes, .. } = load;
    let requests = requests as u64;
    if *complete != requests || failed + not_2xx > 0 {
        let why = format!(
            "of {requests} requests {complete} were answered, {failed} of them with another length \
             or not to the end, \
             {not_2xx} with an error"
        );
        return Some(why);
    }
    let bytes = bytes.filter(|bytes| bytes != body_bytes)?;
    Some(format!("the answers have {body_bytes} bytes, the one that was expected {bytes}"))
}

impl PageSeries {
    fn new(contender: usize, parallel: usize) -> PageSeries {
        PageSeries { contender, parallel, pages: RoundSamples::new(), lost: 0 }
    }

    fn sample(&mut self, contender: &HandlerContender, ab: &Path, requests: usize, round: usize) {
        let sampled = self.try_sample(&contender.site, ab, requests);
        // A signal kills `ab`; that is no fault of the handler, and the round does not count.
        if let Err(why) = sampled
            && !interrupted()
        {
            self.pages.failed = Some((round, contender.with_log_end(&why)));
        }
    }

    fn try_sample(
        &mut self,
        site: &LifecycleSite,
        ab: &Path,
        requests: usize,
    ) -> Result<(), String> {
        let before = site.count_sessions()?;
        let (web, server) = (site.web_cpu(), site.server_cpu());
        let load = site.load(ab, requests, self.parallel)?;
        let web_cpu_us = site.web_cpu().saturating_sub(web).as_secs_f64() * 1e6;
        let server_cpu_us = site.server_cpu().saturating_sub(server).as_secs_f64() * 1e6;
        let wrong = invalid_reason(&load, requests, site.answer_bytes());
        let valid = wrong.map_or_else(|| site.check(), Err);
        let kept = valid.as_ref().map_or(Ok(None), |()| site.count_sessions());
        let kept_here = kept.clone().unwrap_or_default();
        self.pages.samples.push(PageSample { load, web_cpu_us, server_cpu_us, kept: kept_here });
        valid?;
        let (Some(before), Some(after)) = (before, kept?) else { return Ok(()) };
        let expected = before + requests as u64 + 1;
        self.lost += expected.saturating_sub(after);
        if after == expected {
            Ok(())
        } else {
            Err(format!("{expected} sessions were to be kept, {after} are there"))
        }
    }

    fn into_row(self, bench: &Bench, contender: &HandlerContender) -> Row {
        let row = bench.row(&contender.choice, op(bench), self.parallel, bench.settings.sessions);
        let pages = &self.pages.samples;
        let loads: Vec<&AbReport> = pages.iter().map(|page| &page.load).collect();
        let row = row_of_loads(row, &loads, self.pages.failure());
        let sum = |part: fn(&AbReport) -> u64| loads.iter().map(|load| part(load)).sum::<u64>();
        let each = |part: fn(&PageSample) -> f64| {
            pages.iter().map(part).sum::<f64>() / row.figures.operations.max(1) as f64
        };
        Row {
            outcome: Outcome { lost: self.lost, ..row.outcome },
            figures: Figures {
                cpu_us_per_op: CpuUs {
                    server: each(|it| it.server_cpu_us),
                    ..row.figures.cpu_us_per_op
                },
                ..row.figures
            },
            web: Some(WebFigures {
                processes: processes(&bench.settings.workers),
                failed_requests: sum(|load| load.failed),
                not_2xx: sum(|load| load.not_2xx),
                sessions_kept: pages.iter().rev().find_map(|page| page.kept),
                cpu_us_per_op: each(|it| it.web_cpu_us),
                ..WebFigures::default()
            }),
            ..row
        }
    }
}
