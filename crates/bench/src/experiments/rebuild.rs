//! `rebuild`: what it costs a site when a cache entry that each view needs cannot be saved.
//!
//! As published: the theme registry of a CMS had grown over memcached's limit for an item, the save failed, nobody looked, and
//! every view built it anew. The same page with its registry in memcached as it was, in ours that says so, with the server's
//! own remedy (`-I 8m`), and routed elsewhere because of its size. The report is that of the load generator `siege`, made by `ab`.

mod cache;
mod site;

use std::path::Path;

use sessile_core::Durability;

use crate::experiments::lifecycle::{no_load_generator, processes};
use crate::experiments::load::{self, Load};
use crate::experiments::{Bench, go_on};
use crate::interruption::interrupted;
use crate::options::UsageError;
use crate::php::{self, Handler, Installation};
use crate::report::{CpuUs, Rebuild, RoundSample, Row, Siege};
use crate::run::RunError;
use crate::selection::{Choice, Selection};
use crate::statistics::Spread;
use cache::{CACHES, Cache};
use site::{ANSWER_BYTES, Site, View};

/// The word in the result.
const OP: &str = "view";

/// One contender, its site, and what its samples gave.
struct Member {
    choice: Choice,
    cache: &'static Cache,
    site: Site,
    /// One entry a round, and so for the views.
    loads: Vec<Load>,
    views: Vec<Vec<View>>,
    /// In which round, and why.
    failed: Option<(usize, String)>,
}

/// What this machine can measure of what the user named.
pub(crate) fn select(stores: &[String], durability: Durability) -> Result<Selection, UsageError> {
    let caches = cache::named(stores)?;
    if durability != Durability::None {
        return Err(UsageError("a cache promises nothing; leave --durability out".to_owned()));
    }
    let php = Installation::look().map_err(UsageError)?;
    load::find().ok_or_else(|| UsageError(no_load_generator()))?;
    let mut selection = Selection::default();
    for cache in caches {
        selection.add(cache.handler.choice(durability), php.obstacle(&cache.handler));
    }
    selection.or_nothing()
}

/// Its contenders, with what each of them needs.
pub(crate) fn handlers() -> impl Iterator<Item = &'static Handler> {
    CACHES.iter().map(|cache| &cache.handler)
}

/// Whether `--stores` may contain this word.
pub(crate) fn is_known(word: &str) -> bool {
    cache::named(&[word.to_owned()]).is_ok()
}

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    let php = Installation::look().map_err(RunError::Broken)?;
    let ab = load::find().ok_or_else(|| RunError::Broken(no_load_generator()))?;
    bench.programs.extend(php::versions(&php, &bench.choices));
    bench.programs.extend(load::version(&ab).map(|version| ("ab".to_owned(), version)));
    let parallel = bench.settings.workers.first().copied().unwrap_or(1);
    let choices = bench.choices.clone();
    bench.progress.expect_more(choices.len() * (1 + bench.settings.rounds));
    let mut members = Vec::new();
    for choice in choices {
        go_on()?;
        bench.progress.say(&format!("{}: start a web server", choice.title()));
        match Member::start(bench, &php, &choice) {
            Ok(member) => members.push(member),
            Err(why) => {
                let row = bench.row(&choice, OP, parallel, bench.settings.sessions);
                bench.rows.push(Row { failed: Some(why), ..row });
            }
        }
        bench.progress.step();
    }
    let rounds = measure(bench, &ab, &mut members, parallel);
    if rounds == 0 {
        return Err(RunError::Interrupted);
    }
    for mut member in members {
        member.keep(rounds);
        let row = member.into_row(bench, parallel);
        bench.rows.push(row);
    }
    // Each view was looked at on the spot.
    bench.keep_rows();
    go_on()
}

/// Takes the samples, and says how many rounds are whole.
fn measure(bench: &Bench, ab: &Path, members: &mut [Member], parallel: usize) -> usize {
    let mut random = fastrand::Rng::with_seed(bench.settings.seed);
    for round in 0..bench.settings.rounds {
        let mut order: Vec<usize> = (0..members.len()).collect();
        random.shuffle(&mut order);
        for number in order {
            if interrupted() {
                return round;
            }
            if let Some(member) = members.get_mut(number) {
                bench.progress.say(&format!("{}: {parallel} views at a time", member.choice.title()));
                member.sample(ab, bench.settings.sessions, parallel, round);
            }
            bench.progress.step();
        }
        if interrupted() {
            return round;
        }
    }
    bench.settings.rounds
}

impl Member {
    fn start(bench: &Bench, php: &Installation, choice: &Choice) -> Result<Member, String> {
        let cache = cache::of(&choice.title()).ok_or("it is no place for a registry")?;
        let site = Site::open(cache, php, bench.settings.payload_bytes, processes())?;
        // The first view builds the registry in any case, and whoever keeps it has it from then on.
        site.check()?;
        site.views()?;
        Ok(Member { choice: choice.clone(), cache, site, loads: Vec::new(), views: Vec::new(), failed: None })
    }

    /// Only what was measured in so many whole rounds.
    fn keep(&mut self, rounds: usize) {
        self.loads.truncate(rounds);
        self.views.truncate(rounds);
        self.failed = self.failed.take().filter(|(round, _)| *round < rounds);
    }

    fn sample(&mut self, ab: &Path, requests: usize, parallel: usize, round: usize) {
        if self.failed.is_some() {
            return;
        }
        let sampled = load::make(ab, &self.site.url(), requests, parallel, &self.site.scratch())
            .and_then(|load| self.site.views().map(|views| (load, views)));
        match sampled {
            Ok((load, views)) => {
                self.failed = wrong(&load, &views, requests).map(|why| (round, why));
                self.loads.push(load);
                self.views.push(views);
            }
            Err(why) => self.failed = Some((round, why)),
        }
    }

    fn into_row(self, bench: &Bench, parallel: usize) -> Row {
        let row = bench.row(&self.choice, OP, parallel, bench.settings.sessions);
        let spread = |part: fn(&Load) -> f64| Spread::of(&self.loads.iter().map(part).collect::<Vec<f64>>());
        let sum = |part: fn(&Load) -> u64| self.loads.iter().map(part).sum::<u64>();
        let samples: Vec<RoundSample> = self.loads.iter().map(Load::sample).collect();
        let latency_us = load::latency(&self.loads);
        let (complete, failed) = (sum(|load| load.complete), sum(|load| load.failed.max(load.not_2xx)));
        let elapsed_s: f64 = self.loads.iter().map(|load| load.elapsed_s).sum();
        let transferred = sum(|load| load.transferred_bytes) as f64;
        let response_s = spread(|load| load.mean_us).median / 1e6;
        let views = || self.views.iter().flatten();
        let rebuilt = views().filter(|view| view.rebuilt).count() as u64;
        let median = |part: fn(&View) -> u64, of: &dyn Fn(&View) -> bool| {
            let times: Vec<f64> = views().filter(|view| of(view)).map(|view| part(view) as f64 / 1e3).collect();
            Spread::of(&times).median
        };
        let rate = RoundSample::spread(&samples);
        let client = spread(|load| load.cpu_us).median / bench.settings.sessions as f64;
        Row {
            rounds: self.loads.len(),
            ops_per_second: rate,
            samples,
            latency_us,
            operations: complete,
            errors: failed,
            // A view that did not find what was saved; of those that cannot save it that is the result.
            misses: if self.cache.keeps { rebuilt } else { 0 },
            failed: self.failed.as_ref().map(|(_, why)| why.clone()),
            // Nobody looks into the process of the server.
            cpu_us_per_op: CpuUs { client, server: 0.0 },
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
                    transactions: complete,
                    availability_percent: complete.saturating_sub(failed) as f64 * 100.0 / complete.max(1) as f64,
                    elapsed_s,
                    transferred_bytes: transferred as u64,
                    response_s,
                    rate: rate.median,
                    throughput_bytes: transferred / elapsed_s.max(f64::MIN_POSITIVE),
                    concurrency: rate.median * response_s,
                    successful: complete.saturating_sub(failed),
                    failed,
                    longest_s: latency_us.max / 1e6,
                    shortest_s: latency_us.min / 1e6,
                },
            }),
            ..row
        }
    }
}

/// A line of PHP's log that tells of a save that failed, without its time.
fn of_a_save(line: &str) -> Option<String> {
    let words = line.split_once("] ").map_or(line, |(_, words)| words);
    words.contains("too large").then(|| words.to_owned())
}

/// What makes a sample no measurement of what it is meant to be.
fn wrong(load: &Load, views: &[View], requests: usize) -> Option<String> {
    if load.complete != requests as u64 || load.body_bytes != ANSWER_BYTES {
        return Some(format!("of {requests} views {} were answered, with {} bytes", load.complete, load.body_bytes));
    }
    let told = views.len() as u64 + load.failed.max(load.not_2xx);
    (told < requests as u64).then(|| format!("of {requests} views {} have told what they did", views.len()))
}
