//! `rebuild`: the cost for a site when a cache entry that each view needs cannot be saved.
//!
//! As published: the theme registry of a CMS had outgrown memcached's item limit, the failed save
//! went unnoticed, and every view built it anew. It is compared with our memcached store, which
//! reports the error, with `-I 8m`, and with routing by size. The report has the form of `siege`;
//! `ab` makes the load.

mod cache;
mod site;

use std::path::Path;

use sessile_core::Durability;
use sessile_results::statistics::Spread;
use sessile_results::{CpuUs, Figures, Outcome, Rebuild, Row, Siege, UsageError};

use self::cache::{CACHES, RegistryCache};
use self::site::{ANSWER_BYTES, PageView, RebuildSite};
use crate::experiments::ab::AbReport;
use crate::experiments::web::{RoundSamples, WebPrograms, of_page, processes, row_of_loads};
use crate::experiments::{Bench, check_interrupted};
use crate::interruption::interrupted;
use crate::php::{Handler, PhpInstallation};
use crate::run::RunError;
use crate::selection::{Choice, Selection};
use crate::worker::protocol::WorkerResult;

const OP: &str = "view";

/// One contender, its site and its samples.
struct CacheContender {
    choice: Choice,
    cache: &'static RegistryCache,
    site: RebuildSite,
    /// What `ab` and what the page tells.
    rounds: RoundSamples<(AbReport, Vec<PageView>)>,
}

pub(crate) fn select(stores: &[String], durability: Durability) -> Result<Selection, UsageError> {
    let caches = cache::named(stores)?;
    if durability != Durability::None {
        return Err(UsageError("a cache promises nothing; leave --durability out".to_owned()));
    }
    let php = WebPrograms::detect().map_err(UsageError)?.php;
    let mut selection = Selection::default();
    for cache in caches {
        let choice = cache.handler.choice(durability);
        let choice = Choice { server_arguments: cache.arguments, ..choice };
        selection.add(choice, php.obstacle(&cache.handler));
    }
    selection.require_any()
}

pub(crate) fn handlers() -> impl Iterator<Item = &'static Handler> {
    CACHES.iter().map(|cache| &cache.handler)
}

/// Whether `--stores` may contain this word.
pub(crate) fn is_known(word: &str) -> bool {
    cache::named(&[word.to_owned()]).is_ok()
}

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    let programs = WebPrograms::of_run(bench)?;
    let parallel = bench.settings.workers.first().copied().unwrap_or(1);
    let choices = bench.choices.clone();
    bench.progress.expect_more(choices.len());
    let mut contenders = Vec::new();
    for choice in choices {
        check_interrupted()?;
        bench.progress.set_message(&format!("{}: start a web server", choice.title()));
        match CacheContender::start(bench, &programs.php, &choice) {
            Ok(contender) => contenders.push(contender),
            Err(failure) => {
                bench.add_failure(&choice, OP, parallel, bench.settings.sessions, &failure)
            }
        }
        bench.progress.advance();
    }
    let rounds = measure(bench, &programs.ab, &mut contenders, parallel);
    if rounds == 0 {
        return Err(RunError::Interrupted);
    }
    for mut contender in contenders {
        contender.rounds.keep_rounds(rounds);
        let row = contender.into_row(bench, parallel);
        bench.rows.push(row);
    }
    // Each view was checked at once.
    bench.mark_rows_verified();
    check_interrupted()
}

fn measure(bench: &Bench, ab: &Path, contenders: &mut [CacheContender], parallel: usize) -> usize {
    let sample = |contender: &mut CacheContender, round| {
        let title = contender.choice.title();
        bench.progress.set_message(&format!("{title}: {parallel} views at a time"));
        contender.sample(ab, bench.settings.sessions, parallel, round);
    };
    bench.in_rounds(contenders, interrupted, sample, |_| ())
}

impl CacheContender {
    fn start(
        bench: &Bench,
        php: &PhpInstallation,
        choice: &Choice,
    ) -> WorkerResult<CacheContender> {
        let unknown = || of_page("it is no place for a registry".to_owned());
        let cache = cache::by_title(&choice.title()).ok_or_else(unknown)?;
        let site = RebuildSite::open(
            cache,
            php,
            bench.settings.payload_bytes,
            processes(&bench.settings.workers),
        )?;
        // The first view always builds the registry.
        site.check().and_then(|()| site.views()).map_err(of_page)?;
        Ok(CacheContender { choice: choice.clone(), cache, site, rounds: RoundSamples::new() })
    }

    fn sample(&mut self, ab: &Path, requests: usize, parallel: usize, round: usize) {
        if self.rounds.failed.is_some() {
            return;
        }
        let sampled = self.site.load(ab, requests, parallel);
        match sampled.and_then(|load| self.site.views().map(|views| (load, views))) {
            Ok((load, views)) => {
                let why = invalid_reason(&load, &views, requests);
                self.rounds.failed = why.map(|why| (round, why));
                self.rounds.samples.push((load, views));
            }
            Err(why) => self.rounds.failed = Some((round, why)),
        }
    }

    fn into_row(self, bench: &Bench, parallel: usize) -> Row {
        let row = bench.row(&self.choice, OP, parallel, bench.settings.sessions);
        let loads: Vec<&AbReport> = self.rounds.samples.iter().map(|(load, _)| load).collect();
        let row = row_of_loads(row, &loads, self.rounds.failure());
        let spread = |part: fn(&AbReport) -> f64| {
            Spread::of(&loads.iter().map(|load| part(load)).collect::<Vec<f64>>())
        };
        let elapsed_s: f64 = loads.iter().map(|load| load.elapsed_s).sum();
        let transferred: u64 = loads.iter().map(|load| load.transferred_bytes).sum();
        let response_s = spread(|load| load.mean_us).median / 1e6;
        let successful = row.figures.operations.saturating_sub(row.outcome.errors);
        let views = || self.rounds.samples.iter().flat_map(|(_, views)| views);
        let rebuilt = views().filter(|view| view.rebuilt).count() as u64;
        let median = |part: fn(&PageView) -> u64, of: &dyn Fn(&PageView) -> bool| {
            let times: Vec<f64> =
                views().filter(|view| of(view)).map(|view| part(view) as f64 / 1e3).collect();
            Spread::of(&times).median
        };
        let client = spread(|load| load.cpu_us).median / bench.settings.sessions as f64;
        Row {
            outcome: Outcome { misses: if self.cache.keeps { rebuilt } else { 0 }, ..row.outcome },
            figures: Figures { cpu_us_per_op: CpuUs { client, server: 0.0 }, ..row.figures },
            rebuild: Some(Rebuild {
                keeps: self.cache.keeps,
                views: views().count() as u64,
                rebuilt,
                unsaved: views().filter(|view| !view.saved).count() as u64,
                load_us: median(|view| view.load_ns, &|_| true),
                rebuild_us: median(|view| view.rebuild_ns, &|view| view.rebuilt),
                save_us: median(|view| view.save_ns, &|view| view.rebuilt),
                log: self.site.log().iter().find_map(|line| of_a_save(line)),
                stored_bytes: self.site.stored(),
                largest: self.site.largest(),
                siege: Siege {
                    transactions: row.figures.operations,
                    availability_percent: successful as f64 * 100.0
                        / row.figures.operations.max(1) as f64,
                    elapsed_s,
                    transferred_bytes: transferred,
                    response_s,
                    rate: row.figures.ops_per_second.median,
                    throughput_bytes: transferred as f64 / elapsed_s.max(f64::MIN_POSITIVE),
                    concurrency: row.figures.ops_per_second.median * response_s,
                    successful,
                    failed: row.outcome.errors,
                    longest_s: row.figures.latency_us.max / 1e6,
                    shortest_s: row.figures.latency_us.min / 1e6,
                },
            }),
            ..row
        }
    }
}

fn of_a_save(line: &str) -> Option<String> {
    let words = line.split_once("] ").map_or(line, |(_, words)| words);
    words.contains("too large").then(|| words.to_owned())
}

fn invalid_reason(load: &AbReport, views: &[PageView], requests: usize) -> Option<String> {
    if load.complete != requests as u64 || load.body_bytes != ANSWER_BYTES {
        return Some(format!(
            "of {requests} views {} were answered, with {} bytes",
            load.complete, load.body_bytes
        ));
    }
    let told = views.len() as u64 + load.failed.max(load.not_2xx);
    (told < requests as u64)
        .then(|| format!("of {requests} views {} were reported by the page", views.len()))
}
