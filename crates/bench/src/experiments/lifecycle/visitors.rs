//! The savings of lazy start: visitors come once, without a cookie, to a page that starts a session
//! for each. Nine of ten leave it empty, as robots do.
//!
//! Our handler runs with and without the rule that an empty new session is not stored; the others
//! store each started session.
//!
//! Invariant: a row has figures only if each visitor was answered, and as many records were added
//! as the rule promises.
//!
//! All these handlers lock and keep sessions in memory, in the process or on a server, so that the
//! rows differ only in the rule. They use the sites of the main measurement while those are idle.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sessile_results::histogram::Latencies;
use sessile_results::php_handlers::SESSILE;
use sessile_results::tables::visitors::{OP, OP_EAGER};
use sessile_results::{
    CpuUs, Figures, LatencyUs, Outcome, RoundSample, Row, ServerWork, Visitors, WebFigures,
};

use crate::experiments::lifecycle::HandlerContender;
use crate::experiments::lifecycle::site::{CART_BYTES, LifecycleSite};
use crate::experiments::web::{RoundSamples, processes};
use crate::experiments::{Bench, choice_position};
use crate::interruption::interrupted;
use crate::monotonic::{cpu_us, now_ns};
use crate::run::RunError;
use crate::selection::Choice;

/// PHP's files, the most common handler, ours, and ours on a server with counters of its own.
const MEASURED: &[&str] = &["php-files#shm", "phpredis#lock", SESSILE, "sessile#redis"];
/// One of ten visitors stores something.
const ONE_STORES_OF: usize = 10;
const PARALLEL: usize = 8;
/// Each PHP process must have compiled the page.
const WARM_UP: usize = 40;

struct VisitorSeries<'a> {
    contender: &'a HandlerContender,
    /// `None` if the handler has no such rule.
    lazy: Option<bool>,
    visits: RoundSamples<VisitorSample>,
}

/// A value that was not measured is absent, not zero.
struct VisitorSample {
    elapsed_ns: u64,
    latencies: Latencies,
    /// CPU time of this process, which makes requests; of nginx and PHP; and of the server.
    client_us: f64,
    web_us: f64,
    server_us: f64,
    cookies: u64,
    records: Option<u64>,
    /// Sessions afterwards.
    kept: Option<u64>,
    grown_bytes: Option<i64>,
    server: Option<ServerWork>,
}

/// The values of `lazy` for a contender.
fn lazy_modes(choice: &Choice) -> &'static [Option<bool>] {
    match (MEASURED.contains(&choice.title().as_str()), choice.store == SESSILE) {
        (false, _) => &[],
        (true, false) => &[None],
        (true, true) => &[Some(true), Some(false)],
    }
}

/// Contenders that failed before get rows with the reason.
pub(super) fn run(
    bench: &mut Bench,
    contenders: &[HandlerContender],
    absent: &[(Choice, String)],
) -> Result<(), RunError> {
    let mut all_series = Vec::new();
    for contender in contenders {
        for lazy in lazy_modes(&contender.choice) {
            let cold = visit(&contender.site, WARM_UP, *lazy)
                .err()
                .map(|why| (0, contender.with_log_end(&why)));
            all_series.push(VisitorSeries {
                contender,
                lazy: *lazy,
                visits: RoundSamples { failed: cold, ..RoundSamples::new() },
            });
        }
    }
    let rounds = measure(bench, &mut all_series);
    if rounds == 0 {
        return Err(RunError::Interrupted);
    }
    let mut rows = Vec::new();
    for mut series in all_series {
        series.visits.keep_rounds(rounds);
        let row = row(bench, &series.contender.choice, series.lazy);
        rows.push(series.visits.into_row(row, series.lazy));
    }
    for (choice, why) in absent {
        for lazy in lazy_modes(choice) {
            rows.push(row(bench, choice, *lazy).into_failed(why.clone()));
        }
    }
    let processes = processes(&bench.settings.workers);
    rows.iter_mut().filter_map(|row| row.web.as_mut()).for_each(|web| web.processes = processes);
    rows.sort_by_key(|row| choice_position(&bench.choices, row));
    bench.rows.extend(rows);
    Ok(())
}

fn measure(bench: &Bench, all_series: &mut [VisitorSeries<'_>]) -> usize {
    let sample = |series: &mut VisitorSeries<'_>, round| {
        if series.visits.failed.is_none() {
            bench.progress.set_message(&format!("{}: visitors", series.contender.choice.title()));
            series.sample(bench.settings.sessions, round);
        }
    };
    bench.in_rounds(all_series, interrupted, sample, |_| ())
}

/// Without figures.
fn row(bench: &Bench, choice: &Choice, lazy: Option<bool>) -> Row {
    let op = if lazy == Some(false) { OP_EAGER } else { OP };
    let mut row = bench.row(choice, op, PARALLEL, bench.settings.sessions);
    row.question.payload_bytes = CART_BYTES;
    row
}

fn stores(number: usize) -> bool {
    number.is_multiple_of(ONE_STORES_OF)
}

/// Makes parallel visits, and returns nanoseconds, latencies, and number of cookies.
fn visit(
    site: &LifecycleSite,
    visitors: usize,
    lazy: Option<bool>,
) -> Result<(u64, Latencies, u64), String> {
    let (next, begun) = (AtomicUsize::new(0), now_ns());
    let come = || -> Result<(Latencies, u64), String> {
        let (mut latencies, mut cookies) = (Latencies::new(), 0);
        loop {
            // Relaxed: the number orders nothing.
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= visitors || interrupted() {
                return Ok((latencies, cookies));
            }
            let asked = now_ns();
            cookies += site.visit(stores(number), lazy == Some(false))? as u64;
            latencies.record(now_ns() - asked);
        }
    };
    let met: Vec<Result<(Latencies, u64), String>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..PARALLEL).map(|_| scope.spawn(come)).collect();
        let ended = |_| Err("a thread that makes requests has panicked".to_owned());
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(ended)).collect()
    });
    let elapsed_ns = now_ns() - begun;
    let (mut latencies, mut cookies) = (Latencies::new(), 0);
    for one in met {
        let (times, got) = one?;
        latencies.add(&times);
        cookies += got;
    }
    Ok((elapsed_ns, latencies, cookies))
}

impl VisitorSeries<'_> {
    fn sample(&mut self, visitors: usize, round: usize) {
        match self.try_sample(visitors) {
            Ok(sample) => self.visits.samples.push(sample),
            Err(why) => self.visits.failed = Some((round, self.contender.with_log_end(&why))),
        }
    }

    fn try_sample(&self, visitors: usize) -> Result<VisitorSample, String> {
        let site = &self.contender.site;
        let (there, bytes_before, told) =
            (site.count_sessions()?, site.session_bytes(), site.redis_work()?);
        let (client, web, server) = (cpu_us(), site.web_cpu(), site.server_cpu());
        let (elapsed_ns, latencies, cookies) = visit(site, visitors, self.lazy)?;
        let client_us = cpu_us().saturating_sub(client) as f64;
        let web_us = site.web_cpu().saturating_sub(web).as_secs_f64() * 1e6;
        let server_us = site.server_cpu().saturating_sub(server).as_secs_f64() * 1e6;
        let server = told.zip(site.redis_work()?).map(|(before, after)| ServerWork {
            changes: after.changes.saturating_sub(before.changes),
            received_bytes: after.received_bytes.saturating_sub(before.received_bytes),
            grown_bytes: after.grown_bytes - before.grown_bytes,
        });
        let memory = server.map(|server| server.grown_bytes);
        let directory =
            site.session_bytes().zip(bytes_before).map(|(now, before)| growth(before, now));
        let kept = site.count_sessions()?;
        let records = kept.zip(there).map(|(now, before)| now.saturating_sub(before));
        let expected = records_expected(visitors, self.lazy);
        if let Some(records) = records.filter(|records| *records != expected) {
            return Err(format!(
                "{visitors} visitors should have left {expected} records, {records} are there"
            ));
        }
        let grown_bytes = memory.or(directory);
        Ok(VisitorSample {
            elapsed_ns,
            latencies,
            client_us,
            web_us,
            server_us,
            cookies,
            records,
            kept,
            grown_bytes,
            server,
        })
    }
}

impl RoundSamples<VisitorSample> {
    fn into_row(self, row: Row, lazy: Option<bool>) -> Row {
        let samples = &self.samples;
        let mut latencies = Latencies::new();
        samples.iter().for_each(|sample| latencies.add(&sample.latencies));
        let rounds: Vec<RoundSample> = samples.iter().map(VisitorSample::round).collect();
        let all = row.question.sessions * samples.len();
        let each = |part: fn(&VisitorSample) -> f64| {
            samples.iter().map(part).sum::<f64>() / all.max(1) as f64
        };
        Row {
            figures: Figures {
                rounds: samples.len(),
                ops_per_second: RoundSample::spread(&rounds),
                samples: rounds,
                latency_us: LatencyUs::new(&latencies),
                operations: all as u64,
                cpu_us_per_op: CpuUs {
                    client: each(|it| it.client_us),
                    server: each(|it| it.server_us),
                },
                ..row.figures
            },
            outcome: Outcome { failed: self.failure(), ..row.outcome },
            web: self.totals(row.question.sessions, lazy).map(|visitors| WebFigures {
                sessions_kept: samples.last().and_then(|sample| sample.kept),
                cpu_us_per_op: each(|it| it.web_us),
                visitors: Some(visitors),
                ..WebFigures::default()
            }),
            ..row
        }
    }

    /// The sum over all samples; `None` without a sample.
    fn totals(&self, visitors: usize, lazy: Option<bool>) -> Option<Visitors> {
        let samples = &self.samples;
        let has_server = samples.first()?.server.is_some();
        let of_server = || samples.iter().filter_map(|sample| sample.server.as_ref());
        Some(Visitors {
            visitors: (visitors * samples.len()) as u64,
            storing: records_expected(visitors, Some(true)) * samples.len() as u64,
            lazy_start: lazy,
            records: samples.iter().map(|sample| sample.records).sum(),
            cookies: samples.iter().map(|sample| sample.cookies).sum(),
            grown_bytes: samples.iter().map(|sample| sample.grown_bytes).sum(),
            server: has_server.then(|| ServerWork {
                changes: of_server().map(|work| work.changes).sum(),
                received_bytes: of_server().map(|work| work.received_bytes).sum(),
                grown_bytes: of_server().map(|work| work.grown_bytes).sum(),
            }),
        })
    }
}

impl VisitorSample {
    fn round(&self) -> RoundSample {
        RoundSample::new(self.latencies.count(), self.elapsed_ns, &self.latencies)
    }
}

/// Visitors who store something, and the others where empty sessions are stored.
fn records_expected(visitors: usize, lazy: Option<bool>) -> u64 {
    let left = (0..visitors).filter(|number| lazy != Some(true) || stores(*number));
    left.count() as u64
}

/// Negative if it shrank.
fn growth(before: u64, after: u64) -> i64 {
    let bytes = |difference: u64| i64::try_from(difference).unwrap_or(i64::MAX);
    bytes(after.saturating_sub(before)) - bytes(before.saturating_sub(after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::php::HANDLERS;
    use sessile_results::Question;

    #[test]
    fn only_visitors_who_store_leave_a_record_under_lazy_start() {
        assert_eq!(
            [Some(true), Some(false), None].map(|lazy| records_expected(41, lazy)),
            [5, 41, 41]
        );
    }

    /// Files on a disk stood beside an engine in memory, and a phpredis that takes no lock beside
    /// handlers that do.
    #[test]
    fn handlers_that_visitors_come_to_differ_in_nothing_but_the_rule() {
        for title in MEASURED {
            let handler = HANDLERS.iter().find(|handler| handler.title() == *title).unwrap();
            let in_memory = match handler.server {
                Some(server) => server == "redis-server",
                None => {
                    handler.save_path.contains("{shm}") && !handler.save_path.contains("{disk}")
                }
            };
            assert!(sessile_results::php_handlers::locks(title) && in_memory, "{title}");
        }
    }

    #[test]
    fn what_shrinks_grows_by_less_than_nothing() {
        assert_eq!([growth(3, 10), growth(10, 3), growth(0, u64::MAX)], [7, -7, i64::MAX]);
    }

    fn sample(bytes: i64) -> VisitorSample {
        let server = Some(ServerWork { changes: 7, received_bytes: 900, grown_bytes: bytes });
        let mut latencies = Latencies::new();
        (1..=1_000).for_each(|us| latencies.record(us * 1_000));
        VisitorSample {
            elapsed_ns: 500_000_000,
            latencies,
            client_us: 100.0,
            web_us: 4_000.0,
            server_us: 40.0,
            cookies: 10,
            records: Some(10),
            kept: Some(210),
            grown_bytes: Some(bytes),
            server,
        }
    }

    /// A row without a sample said of its visitors that they had left 0 records and 0 bytes, and a
    /// sound one that they had cost nothing.
    #[test]
    fn what_was_measured_is_in_the_row_and_what_was_not_is_no_nought() {
        let bare =
            || Row { question: Question { sessions: 10, ..Question::default() }, ..Row::default() };
        let taken = RoundSamples { samples: vec![sample(4_096), sample(-12_288)], failed: None };
        let row = taken.into_row(bare(), None);
        let web = row.web.unwrap();
        assert_eq!(
            (row.figures.rounds, row.figures.operations, web.sessions_kept),
            (2, 20, Some(210))
        );
        assert_eq!(
            (row.figures.cpu_us_per_op.client, row.figures.cpu_us_per_op.server, web.cpu_us_per_op),
            (10.0, 4.0, 400.0)
        );
        assert!(
            row.figures.latency_us.p999 > row.figures.latency_us.p99,
            "{:?}",
            row.figures.latency_us
        );
        let left = web.visitors.unwrap();
        assert_eq!((left.visitors, left.records, left.cookies), (20, Some(20), 20));
        let server = left.server.unwrap();
        assert_eq!(
            (left.grown_bytes, server.grown_bytes, server.changes),
            (Some(-8_192), -8_192, 14),
            "it has shrunk"
        );

        let taken = RoundSamples { samples: Vec::new(), failed: Some((0, "no answer".to_owned())) };
        let row = taken.into_row(bare(), None);
        assert!(
            row.web.is_none() && row.figures.rounds == 0 && row.outcome.failed.is_some(),
            "{row:#?}"
        );
    }

    /// A signal in the second round threw the first one away.
    #[test]
    fn whole_rounds_are_kept_and_what_a_signal_spoilt_is_no_failure() {
        let spoilt =
            || Some((1, "10 visitors should have left 10 records, 3 are there".to_owned()));
        let mut taken = RoundSamples { samples: vec![sample(0)], failed: spoilt() };
        taken.keep_rounds(1);
        assert!(taken.samples.len() == 1 && taken.failed.is_none());
        let mut taken = RoundSamples { samples: vec![sample(0), sample(0)], failed: None };
        taken.keep_rounds(1);
        assert_eq!(taken.samples.len(), 1);
        let mut taken = RoundSamples { samples: vec![sample(0)], failed: spoilt() };
        taken.keep_rounds(2);
        assert!(taken.failed.is_some(), "it failed in a whole round");
    }
}
