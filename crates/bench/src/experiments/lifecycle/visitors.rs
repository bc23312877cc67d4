//! What lazy start saves: visitors who come once, without a cookie, to a page that starts a session for each of them. Nine of
//! ten leave it empty, as robots do; the tenth puts something in.
//!
//! Our own handler serves them once with the rule that an empty new session is not stored and once without it; the others
//! store each session that was started. Invariant: a row has figures only if each visitor was answered, and exactly as many
//! records came to the store as the rule promises. They use the sites that have been measured, while those are idle.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use crate::experiments::lifecycle::Member;
use crate::experiments::lifecycle::redis_counters::Told;
use crate::experiments::lifecycle::site::{CART_BYTES, Site};
use crate::experiments::{Bench, go_on};
use crate::interruption::interrupted;
use crate::php::SESSILE;
use crate::report::{LatencyUs, RoundSample, Row, ServerWork, Visitors, WebFigures};
use crate::run::RunError;
use crate::selection::Choice;
use crate::statistics::Spread;

/// Every handler as it is; and ours without lazy start.
const OP: &str = "visitors";
const OP_EAGER: &str = "visitors-eager";
/// PHP's own files, what is commonly used, ours, and ours on a server that counts for itself what it has to do.
const OF: &[&str] = &["php-files", "phpredis", SESSILE, "sessile#redis"];
/// One of so many visitors stores something.
const ONE_STORES_OF: usize = 10;
const PARALLEL: usize = 8;
/// Before the first sample of a site: each process of PHP has the page compiled.
const WARM_UP: usize = 40;

/// A site, with or without lazy start.
struct Cell<'a> {
    member: &'a Member,
    /// `None` where a handler has no such rule.
    lazy: Option<bool>,
    samples: Vec<Sample>,
    failed: Option<String>,
}

/// What a number of visitors met, and what came of them.
struct Sample {
    elapsed_s: f64,
    /// In ascending order.
    latencies_us: Vec<f64>,
    cookies: u64,
    records: Option<u64>,
    grown_bytes: Option<u64>,
    server: Option<ServerWork>,
}

/// How often visitors come to a contender in each round.
pub(crate) fn waves(choice: &Choice) -> usize {
    let is_one = OF.contains(&choice.title().as_str());
    usize::from(is_one) * if choice.store == SESSILE { 2 } else { 1 }
}

pub(super) fn run(bench: &mut Bench, members: &[Member]) -> Result<(), RunError> {
    let requests = bench.settings.sessions;
    let mut cells = Vec::new();
    for member in members {
        let rules: &[Option<bool>] = match waves(&member.choice) {
            0 => &[],
            1 => &[None],
            _ => &[Some(true), Some(false)],
        };
        let warm = |lazy| visit(&member.site, WARM_UP, lazy).err();
        let new = |lazy: &Option<bool>| Cell { member, lazy: *lazy, samples: Vec::new(), failed: warm(*lazy) };
        cells.extend(rules.iter().map(new));
    }
    bench.progress.expect_more(bench.settings.rounds * cells.len());
    let mut random = fastrand::Rng::with_seed(bench.settings.seed);
    for _ in 0..bench.settings.rounds {
        let mut order: Vec<usize> = (0..cells.len()).collect();
        random.shuffle(&mut order);
        for number in order {
            go_on()?;
            if let Some(cell) = cells.get_mut(number).filter(|cell| cell.failed.is_none()) {
                bench.progress.say(&format!("{}: visitors", cell.member.choice.title()));
                cell.sample(requests);
            }
            bench.progress.step();
        }
    }
    go_on()?; // a signal may have spoilt the last sample
    for cell in cells {
        let row = cell.into_row(bench, requests);
        bench.rows.push(row);
    }
    Ok(())
}

fn stores(number: usize) -> bool {
    number.is_multiple_of(ONE_STORES_OF)
}

/// Visitors, some at a time: how long it took, how long each waited, and how many cookies they got.
fn visit(site: &Site, visitors: usize, lazy: Option<bool>) -> Result<(f64, Vec<f64>, u64), String> {
    let (next, begun) = (AtomicUsize::new(0), Instant::now());
    let come = || -> Result<(Vec<f64>, u64), String> {
        let (mut latencies_us, mut cookies) = (Vec::new(), 0);
        loop {
            // Relaxed: a number orders nothing.
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= visitors || interrupted() {
                return Ok((latencies_us, cookies));
            }
            let asked = Instant::now();
            cookies += site.visit(stores(number), lazy == Some(false))? as u64;
            latencies_us.push(asked.elapsed().as_secs_f64() * 1e6);
        }
    };
    let met: Vec<Result<(Vec<f64>, u64), String>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..PARALLEL).map(|_| scope.spawn(come)).collect();
        let ended = |_| Err("a thread that makes requests has panicked".to_owned());
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(ended)).collect()
    });
    let elapsed_s = begun.elapsed().as_secs_f64();
    let (mut latencies_us, mut cookies) = (Vec::new(), 0);
    for one in met {
        let (times, got) = one?;
        latencies_us.extend(times);
        cookies += got;
    }
    latencies_us.sort_by(f64::total_cmp);
    Ok((elapsed_s, latencies_us, cookies))
}

impl Cell<'_> {
    fn sample(&mut self, visitors: usize) {
        match self.try_sample(visitors) {
            Ok(sample) => self.samples.push(sample),
            Err(why) => self.failed = Some(self.member.with_last_words(&why)),
        }
    }

    /// The error is what was wrong with it.
    fn try_sample(&self, visitors: usize) -> Result<Sample, String> {
        let site = &self.member.site;
        let (there, occupied, told) = (site.kept()?, site.occupied(), site.told()?);
        let (elapsed_s, latencies_us, cookies) = visit(site, visitors, self.lazy)?;
        let server = told.zip(site.told()?).map(|(before, after)| work(&before, &after));
        let memory = server.map(|server| server.grown_bytes);
        let directory = site.occupied().zip(occupied).map(|(now, before)| now.saturating_sub(before));
        let records = site.kept()?.zip(there).map(|(now, before)| now.saturating_sub(before));
        let expected = records_expected(visitors, self.lazy);
        if let Some(records) = records.filter(|records| *records != expected) {
            return Err(format!("{visitors} visitors should have left {expected} records, {records} are there"));
        }
        Ok(Sample { elapsed_s, latencies_us, cookies, records, grown_bytes: memory.or(directory), server })
    }

    fn into_row(self, bench: &Bench, visitors: usize) -> Row {
        let op = if self.lazy == Some(false) { OP_EAGER } else { OP };
        let row = Row { payload_bytes: CART_BYTES, ..bench.row(&self.member.choice, op, PARALLEL, visitors) };
        let samples = &self.samples;
        let rounds: Vec<RoundSample> = samples
            .iter()
            .map(|sample| RoundSample {
                ops_per_second: visitors as f64 / sample.elapsed_s,
                p50_us: sample.percentile(50.0),
                p99_us: sample.percentile(99.0),
            })
            .collect();
        let latency =
            |percent: f64| Spread::of(&samples.iter().map(|sample| sample.percentile(percent)).collect::<Vec<f64>>());
        let sum = |part: fn(&Sample) -> Option<u64>| samples.iter().map(part).sum::<Option<u64>>();
        let of_server =
            |part: fn(&ServerWork) -> u64| samples.iter().filter_map(|it| it.server.as_ref()).map(part).sum();
        let has_server = samples.first().is_some_and(|sample| sample.server.is_some());
        let all = visitors * samples.len();
        Row {
            rounds: samples.len(),
            ops_per_second: RoundSample::spread(&rounds),
            samples: rounds,
            latency_us: LatencyUs {
                min: latency(0.0).low,
                p50: latency(50.0).median,
                p90: latency(90.0).median,
                p99: latency(99.0).median,
                p999: 0.0,
                max: latency(100.0).high,
            },
            operations: all as u64,
            failed: self.failed,
            web: Some(WebFigures {
                processes: super::processes(),
                visitors: Some(Visitors {
                    visitors: all as u64,
                    storing: records_expected(visitors, Some(true)) * samples.len() as u64,
                    lazy_start: self.lazy,
                    records: sum(|sample| sample.records),
                    cookies: samples.iter().map(|sample| sample.cookies).sum(),
                    grown_bytes: sum(|sample| sample.grown_bytes),
                    server: has_server.then(|| ServerWork {
                        changes: of_server(|work| work.changes),
                        received_bytes: of_server(|work| work.received_bytes),
                        grown_bytes: of_server(|work| work.grown_bytes),
                    }),
                }),
                ..WebFigures::default()
            }),
            ..row
        }
    }
}

/// So many leave a record: all who store something, and all others where empty sessions are stored too.
fn records_expected(visitors: usize, lazy: Option<bool>) -> u64 {
    let left = (0..visitors).filter(|number| lazy != Some(true) || stores(*number));
    left.count() as u64
}

fn work(before: &Told, after: &Told) -> ServerWork {
    ServerWork {
        changes: after.changes.saturating_sub(before.changes),
        received_bytes: after.received_bytes.saturating_sub(before.received_bytes),
        grown_bytes: after.memory_bytes.saturating_sub(before.memory_bytes),
    }
}

impl Sample {
    fn percentile(&self, percent: f64) -> f64 {
        let last = self.latencies_us.len().saturating_sub(1);
        let index = (percent / 100.0 * last as f64).round() as usize;
        self.latencies_us.get(index).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_visitors_who_store_leave_a_record_under_lazy_start() {
        assert_eq!([Some(true), Some(false), None].map(|lazy| records_expected(41, lazy)), [5, 41, 41]);
    }
}
