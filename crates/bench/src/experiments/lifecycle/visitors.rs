//! What lazy start saves: visitors who come once, without a cookie, to a page that starts a session for each of them. Nine of
//! ten leave it empty, as robots do; the tenth puts something in.
//!
//! Our own handler serves them once with the rule that an empty new session is not stored and once without it; the others
//! store each session that was started. Invariant: a row has figures only if each visitor was answered, and exactly as many
//! records came to the store as the rule promises; where nobody was served it has none. They use the sites that have been
//! measured, while those are idle. All of them lock, and keep their sessions in memory, in the process or on a server: else the
//! rows would differ in more than the rule.

mod taken;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use crate::experiments::lifecycle::Member;
use crate::experiments::lifecycle::redis_counters::Told;
use crate::experiments::lifecycle::site::{CART_BYTES, Site};
use crate::experiments::{Bench, place};
use crate::interruption::interrupted;
use crate::monotonic::cpu_us;
use crate::php::SESSILE;
use crate::report::visitors::{OP, OP_EAGER};
use crate::report::{Row, ServerWork};
use crate::run::RunError;
use crate::selection::Choice;
use taken::{Sample, Taken};

/// PHP's own files, what is commonly used, ours, and ours on a server that counts for itself what it has to do.
const OF: &[&str] = &["php-files#shm", "phpredis#lock", SESSILE, "sessile#redis"];
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
    taken: Taken,
}

/// How often visitors come to a contender in each round.
pub(crate) fn waves(choice: &Choice) -> usize {
    rules(choice).len()
}

/// With which rules they come to it: `None` where it has none.
fn rules(choice: &Choice) -> &'static [Option<bool>] {
    match (OF.contains(&choice.title().as_str()), choice.store == SESSILE) {
        (false, _) => &[],
        (true, false) => &[None],
        (true, true) => &[Some(true), Some(false)],
    }
}

/// Visitors of the sites that came up; of the `absent` ones there are rows that say why not.
pub(super) fn run(bench: &mut Bench, members: &[Member], absent: &[(Choice, String)]) -> Result<(), RunError> {
    let mut cells = Vec::new();
    for member in members {
        for lazy in rules(&member.choice) {
            let cold = visit(&member.site, WARM_UP, *lazy).err().map(|why| (0, member.with_last_words(&why)));
            cells.push(Cell { member, lazy: *lazy, taken: Taken { failed: cold, ..Taken::default() } });
        }
    }
    let rounds = measure(bench, &mut cells);
    if rounds == 0 {
        return Err(RunError::Interrupted);
    }
    let mut rows = Vec::new();
    for mut cell in cells {
        cell.taken.keep(rounds);
        rows.push(cell.taken.into_row(row(bench, &cell.member.choice, cell.lazy), cell.lazy));
    }
    for (choice, why) in absent {
        rows.extend(rules(choice).iter().map(|lazy| Row { failed: Some(why.clone()), ..row(bench, choice, *lazy) }));
    }
    rows.sort_by_key(|row| place(&bench.choices, row));
    bench.rows.extend(rows);
    Ok(())
}

/// Takes the samples, and says how many rounds are whole.
fn measure(bench: &Bench, cells: &mut [Cell<'_>]) -> usize {
    let mut random = fastrand::Rng::with_seed(bench.settings.seed);
    bench.progress.expect_more(bench.settings.rounds * cells.len());
    for round in 0..bench.settings.rounds {
        let mut order: Vec<usize> = (0..cells.len()).collect();
        random.shuffle(&mut order);
        for number in order {
            if interrupted() {
                return round;
            }
            if let Some(cell) = cells.get_mut(number).filter(|cell| cell.taken.failed.is_none()) {
                bench.progress.say(&format!("{}: visitors", cell.member.choice.title()));
                cell.sample(bench.settings.sessions, round);
            }
            bench.progress.step();
        }
        // A signal may have spoilt the last sample.
        if interrupted() {
            return round;
        }
    }
    bench.settings.rounds
}

/// Everything but figures.
fn row(bench: &Bench, choice: &Choice, lazy: Option<bool>) -> Row {
    let op = if lazy == Some(false) { OP_EAGER } else { OP };
    Row { payload_bytes: CART_BYTES, ..bench.row(choice, op, PARALLEL, bench.settings.sessions) }
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
    fn sample(&mut self, visitors: usize, round: usize) {
        match self.try_sample(visitors) {
            Ok(sample) => self.taken.samples.push(sample),
            Err(why) => self.taken.failed = Some((round, self.member.with_last_words(&why))),
        }
    }

    /// The error is what was wrong with it.
    fn try_sample(&self, visitors: usize) -> Result<Sample, String> {
        let site = &self.member.site;
        let (there, occupied, told) = (site.kept()?, site.occupied(), site.told()?);
        let (client, web, server) = (cpu_us(), site.web_cpu(), site.server_cpu());
        let (elapsed_s, latencies_us, cookies) = visit(site, visitors, self.lazy)?;
        let client_us = cpu_us().saturating_sub(client) as f64;
        let web_us = site.web_cpu().saturating_sub(web).as_secs_f64() * 1e6;
        let server_us = site.server_cpu().saturating_sub(server).as_secs_f64() * 1e6;
        let server = told.zip(site.told()?).map(|(before, after)| work(&before, &after));
        let memory = server.map(|server| server.grown_bytes);
        let directory = site.occupied().zip(occupied).map(|(now, before)| growth(before, now));
        let kept = site.kept()?;
        let records = kept.zip(there).map(|(now, before)| now.saturating_sub(before));
        let expected = records_expected(visitors, self.lazy);
        if let Some(records) = records.filter(|records| *records != expected) {
            return Err(format!("{visitors} visitors should have left {expected} records, {records} are there"));
        }
        let grown_bytes = memory.or(directory);
        Ok(Sample {
            elapsed_s,
            latencies_us,
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

/// So many leave a record: all who store something, and all others where empty sessions are stored too.
fn records_expected(visitors: usize, lazy: Option<bool>) -> u64 {
    let left = (0..visitors).filter(|number| lazy != Some(true) || stores(*number));
    left.count() as u64
}

fn work(before: &Told, after: &Told) -> ServerWork {
    ServerWork {
        changes: after.changes.saturating_sub(before.changes),
        received_bytes: after.received_bytes.saturating_sub(before.received_bytes),
        grown_bytes: growth(before.memory_bytes, after.memory_bytes),
    }
}

/// Below 0 where it has shrunk.
fn growth(before: u64, after: u64) -> i64 {
    let bytes = |difference: u64| i64::try_from(difference).unwrap_or(i64::MAX);
    bytes(after.saturating_sub(before)) - bytes(before.saturating_sub(after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::php::HANDLERS;

    #[test]
    fn only_visitors_who_store_leave_a_record_under_lazy_start() {
        assert_eq!([Some(true), Some(false), None].map(|lazy| records_expected(41, lazy)), [5, 41, 41]);
    }

    /// Files on a disk stood beside an engine in memory, and a phpredis that takes no lock beside handlers that do.
    #[test]
    fn handlers_that_visitors_come_to_differ_in_nothing_but_the_rule() {
        for title in OF {
            let handler = HANDLERS.iter().find(|handler| handler.title() == *title).unwrap();
            let in_memory = match handler.server {
                Some(server) => server == "redis-server",
                None => handler.save_path.contains("{shm}") && !handler.save_path.contains("{disk}"),
            };
            assert!(handler.locks && in_memory, "{title}");
        }
    }

    #[test]
    fn what_shrinks_grows_by_less_than_nothing() {
        assert_eq!([growth(3, 10), growth(10, 3), growth(0, u64::MAX)], [7, -7, i64::MAX]);
    }
}
