//! `faults`: what happens to sessions when workers and servers are killed with SIGKILL.
//!
//! Each contender has three rows: a worker dies while it holds a session; workers die while they
//! write; the server dies under load and starts again in the same place (or all processes of an
//! embedded store die). Other things happen where there are several servers (`cluster`). The parent
//! keeps its own journal of acknowledged changes, so losses are known whatever the store reports.

mod cluster;
mod crash;
mod holder;
mod journal;
mod load_worker;
mod writers;

use std::time::Duration;

use crate::deployment::LOCK_TTL;
use crate::experiments::{Bench, ReadyContender, check_interrupted, latency_of_few};
use crate::interruption::interrupted;
use crate::monotonic::now_ns;
use crate::reference::AfterDeath;
use crate::run::RunError;
use crate::selection::{Choice, ContenderSource};
use crate::worker::process::WorkerProcess;
use crate::worker::protocol::ContenderFailure;
use cluster::disturbances;
use journal::Journal;
use sessile_results::tables::faults::{ALL, HOLDER, SERVER, WRITER};
use sessile_results::{Faults, Row};

/// For locks that end with their process. The slowest store documents 80 ms; the rest is for a busy
/// machine.
const FREED_WITHIN: Duration = Duration::from_secs(1);
/// Each kill of everything takes as long as a server start, and one kill may miss a rare loss.
pub(crate) fn kills_of_all(rounds: usize) -> usize {
    (rounds / 4).max(3).min(rounds)
}

/// `lock_ttl` of a user's store whose URL does not set one.
const LOCK_TTL_USUAL: Duration = Duration::from_secs(60);

/// The row shows the median and maximum of the times.
struct FaultFindings {
    times_ns: Vec<u64>,
    faults: Faults,
    first_error: Option<String>,
}

struct FaultRun<'a> {
    bench: &'a Bench,
    contender: &'a mut ReadyContender,
    /// A lock that is held for longer is stuck.
    stuck_after: Duration,
    random: fastrand::Rng,
}

struct SessionLayout {
    /// One for each holder that is killed.
    held: std::ops::Range<usize>,
    /// Sessions of each writer.
    each: usize,
    /// For the workers that are killed one by one, and their replacements.
    written: std::ops::Range<usize>,
    /// For the workers that live until all are killed.
    last: std::ops::Range<usize>,
}

impl SessionLayout {
    fn new(rounds: usize, workers: usize, each: usize) -> SessionLayout {
        let written = rounds..rounds + (workers + rounds) * each;
        let last = written.end..written.end + workers * each;
        SessionLayout { held: 0..rounds, each, written, last }
    }
}

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    bench.keep_choices(|choice| match choice.after_death() {
        _ if !choice.shared_by_processes => {
            Some("it lives in one process, and dies with it".to_owned())
        }
        AfterDeath::NoLock if disturbances(choice).is_empty() => Some("it has no locks".to_owned()),
        AfterDeath::NoLock => None,
        AfterDeath::Freed | AfterDeath::Lapses | AfterDeath::Stuck => None,
    });
    bench.progress.expect_more(bench.choices.iter().map(kinds_of_rows).sum());
    for choice in bench.choices.clone() {
        check_interrupted()?;
        measure(bench, &choice);
        bench.finish_rows()?;
    }
    Ok(())
}

fn has_locks(choice: &Choice) -> bool {
    choice.after_death() != AfterDeath::NoLock
}

fn kinds_of_rows(choice: &Choice) -> usize {
    let of_workers = if has_locks(choice) { 2 } else { 0 };
    of_workers + disturbances(choice).len().max(1)
}

fn measure(bench: &mut Bench, choice: &Choice) {
    let settings = &bench.settings;
    let (rounds, workers) = (settings.rounds, settings.workers.first().copied().unwrap_or(1));
    let layout = SessionLayout::new(rounds, workers, settings.sessions);
    let sessions = layout.last.end;
    // A killed worker has released its ids before the next one prepares them.
    if !bench.has_room(choice, sessions, sessions * (workers + 1), None) {
        return;
    }
    let settings = &bench.settings;
    let mut contender = match bench.set_up(choice, 1, sessions, sessions) {
        Ok(contender) => contender,
        Err(failure) => {
            let row = bench.failed_row(choice, HOLDER, 2, sessions, &failure);
            return bench.rows.push(row);
        }
    };
    let mut journal = Journal::new(0..sessions, now_ns());
    let (lock_ttl, stuck_after) = lock_end(bench, choice);
    let served = contender.deployment.has_server();
    let random = fastrand::Rng::with_seed(settings.seed);
    let mut run = FaultRun { bench, contender: &mut contender, stuck_after, random };
    let title = choice.title();
    let mut parts = Vec::new();
    if has_locks(choice) {
        bench.progress.set_message(&format!("{title}: holders are killed"));
        parts.push((HOLDER, 2, holder::measure(&mut run, &layout, &mut journal)));
        bench.progress.advance();
        bench.progress.set_message(&format!("{title}: writers are killed"));
        parts.push((WRITER, workers, writers::measure(&mut run, &layout, workers, &mut journal)));
        bench.progress.advance();
    }
    let disturbances = disturbances(choice);
    for (disturbance, op) in disturbances {
        bench.progress.set_message(&format!("{title}: {op}"));
        let found = cluster::measure(&mut run, &layout, workers, *disturbance, &mut journal);
        parts.push((*op, workers, found));
        bench.progress.advance();
    }
    let ours = served || !choice.over_socket;
    if ours {
        bench.progress.set_message(&format!(
            "{title}: {} killed",
            if served { "the server is" } else { "all are" }
        ));
        let op = if served { SERVER } else { ALL };
        parts.push((op, workers, crash::measure(&mut run, &layout, workers, served, &mut journal)));
    }
    if disturbances.is_empty() {
        bench.progress.advance();
    }
    let meant = choice.after_death() == AfterDeath::Stuck;
    let rows = parts.into_iter().map(|(op, workers, found)| match found {
        Ok(found) => {
            row(bench.row(choice, op, workers, sessions), found, &contender, meant, lock_ttl)
        }
        Err(failure) => {
            let failed = Some(contender.deployment.redact(&failure.message));
            Row { failed, ..bench.row(choice, op, workers, sessions) }
        }
    });
    let rows: Vec<Row> = rows.collect();
    bench.rows.extend(rows);
    if !ours && disturbances.is_empty() {
        bench
            .left_out
            .push(choice.left_out("its server is not ours to kill, so only workers were"));
    }
}

/// The lock's lifetime where it ends with time, and when it counts as stuck.
fn lock_end(bench: &Bench, choice: &Choice) -> (Option<Duration>, Duration) {
    if choice.after_death() != AfterDeath::Lapses {
        return (None, FREED_WITHIN);
    }
    let usual = match choice.target {
        ContenderSource::Url(_, url) => sessile_stores::StoreUrl::parse(url)
            .ok()
            .and_then(|url| url.text(LOCK_TTL)?.parse().ok())
            .map_or(LOCK_TTL_USUAL, Duration::from_millis),
        _ => bench.settings.lock_ttl.unwrap_or(LOCK_TTL_USUAL),
    };
    (Some(usual), usual * 2)
}

fn row(
    row: Row,
    found: FaultFindings,
    contender: &ReadyContender,
    stuck_is_meant: bool,
    lock_ttl: Option<Duration>,
) -> Row {
    let mut faults = found.faults;
    faults.stuck_is_meant = stuck_is_meant;
    faults.lock_ttl_ms = lock_ttl.map(|lock_ttl| lock_ttl.as_millis() as u64);
    let stuck = if stuck_is_meant { 0 } else { faults.stuck };
    Row {
        rounds: usize::try_from(faults.kills).unwrap_or(usize::MAX),
        operations: faults.acknowledged,
        latency_us: latency_of_few(found.times_ns),
        lost: faults.lost_beyond,
        misses: faults.sessions_lost_beyond,
        errors: faults.damaged + faults.unreadable + faults.failed + stuck,
        first_error: found.first_error.map(|message| contender.deployment.redact(&message)),
        faults: Some(faults),
        ..row
    }
}

impl FaultFindings {
    fn new(run: &FaultRun<'_>) -> FaultFindings {
        let stuck_after_ms = run.stuck_after.as_millis() as u64;
        FaultFindings {
            times_ns: Vec::new(),
            faults: Faults { stuck_after_ms, ..Faults::default() },
            first_error: None,
        }
    }

    fn count_failure(&mut self, message: &str) {
        self.faults.failed += 1;
        self.first_error.get_or_insert_with(|| message.to_owned());
    }

    fn count_stuck(&mut self, after: Duration) {
        self.faults.stuck += 1;
        self.first_error.get_or_insert_with(|| {
            format!("the lock of a killed worker is still held {} ms later", after.as_millis())
        });
    }
}

impl FaultRun<'_> {
    fn open_worker(&self) -> Result<WorkerProcess, ContenderFailure> {
        WorkerProcess::open(&self.bench.launch, &self.contender.opening, interrupted)
    }

    /// Unless a signal ends the run.
    fn wait(&self, time: Duration) {
        let until = now_ns() + time.as_nanos() as u64;
        loop {
            let left = Duration::from_nanos(until.saturating_sub(now_ns()));
            if left.is_zero() || interrupted() {
                return;
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
    }
}
