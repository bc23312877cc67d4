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

use std::ops::Range;
use std::time::Duration;

use sessile_results::tables::faults::{
    ALL, HOLDER, PRIMARY_HANGS, PRIMARY_KILLED, REPLICA_KILLED, SERVER, SLOTS_MOVE,
    STANDBY_PROMOTED, WRITER,
};
use sessile_results::{Faults, Figures, Outcome, Row};

use self::journal::{Journal, Kill};
use self::load_worker::{LoadWorker, LoaderLog, stop_all};
use crate::deployment::LOCK_TTL;
use crate::experiments::{Bench, ReadyContender, check_interrupted, latency_of_few};
use crate::interruption::interrupted;
use crate::monotonic::now_ns;
use crate::reference::AfterDeath;
use crate::run::RunError;
use crate::selection::{Choice, ContenderSource};
use crate::worker::faults::{FaultTask, FoundContent};
use crate::worker::process::{TASK_MAX, WorkerProcess, unexpected};
use crate::worker::protocol::{WorkerReply, WorkerRequest, WorkerResult};

/// For locks that end with their process. The slowest store documents 80 ms; the rest is for a busy
/// machine.
const FREED_WITHIN: Duration = Duration::from_secs(1);
/// Each kill of everything takes as long as a server start, and one kill may miss a rare loss.
pub(crate) fn kills_of_all(rounds: usize) -> usize {
    (rounds / 4).max(3).min(rounds)
}

/// `lock_ttl` of a user's store whose URL does not set one.
const LOCK_TTL_USUAL: Duration = Duration::from_secs(60);

/// Processes and servers that are killed or disturbed; each kind is a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FaultKind {
    Holder,
    Writer,
    All,
    PrimaryKilled,
    ReplicaKilled,
    PrimaryHangs,
    SlotsMove,
    StandbyPromoted,
}

impl FaultKind {
    fn of(choice: &Choice) -> Vec<FaultKind> {
        use FaultKind::*;

        let mut kinds = Vec::new();
        if choice.after_death != AfterDeath::NoLock {
            kinds.extend([Holder, Writer]);
        }
        match choice.target {
            ContenderSource::Cluster(_) => {
                kinds.extend([PrimaryKilled, ReplicaKilled, PrimaryHangs, SlotsMove]);
            }
            ContenderSource::Standby(_) => kinds.push(StandbyPromoted),
            _ => kinds.push(All),
        }
        kinds
    }

    fn op(self, has_server: bool) -> &'static str {
        match self {
            FaultKind::Holder => HOLDER,
            FaultKind::Writer => WRITER,
            FaultKind::All if has_server => SERVER,
            FaultKind::All => ALL,
            FaultKind::PrimaryKilled => PRIMARY_KILLED,
            FaultKind::ReplicaKilled => REPLICA_KILLED,
            FaultKind::PrimaryHangs => PRIMARY_HANGS,
            FaultKind::SlotsMove => SLOTS_MOVE,
            FaultKind::StandbyPromoted => STANDBY_PROMOTED,
        }
    }
}

/// The row shows the median and maximum of the times.
#[derive(Default)]
struct FaultFindings {
    times_ns: Vec<u64>,
    faults: Faults,
    first_error: Option<String>,
}

struct FaultRun<'a> {
    bench: &'a Bench,
    contender: &'a mut ReadyContender,
    layout: SessionLayout,
    /// Processes under load.
    workers: usize,
    lock_ttl: Option<Duration>,
    /// A lock that is held for longer is stuck.
    stuck_after: Duration,
    random: fastrand::Rng,
    journal: Journal,
    /// Of the row that is measured.
    found: FaultFindings,
}

struct SessionLayout {
    /// One for each holder that is killed.
    held: Range<usize>,
    /// Sessions of each writer.
    each: usize,
    /// For the workers that are killed one by one, and their replacements.
    written: Range<usize>,
    /// For the workers that live until all are killed.
    last: Range<usize>,
}

impl SessionLayout {
    fn new(rounds: usize, workers: usize, each: usize) -> SessionLayout {
        let written = rounds..rounds + (workers + rounds) * each;
        let last = written.end..written.end + workers * each;
        SessionLayout { held: 0..rounds, each, written, last }
    }
}

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    bench.keep_choices(|choice| match choice.after_death {
        _ if !choice.shared_by_processes => {
            Some("it lives in one process, and dies with it".to_owned())
        }
        AfterDeath::NoLock if !is_on_cluster(choice) => Some("it has no locks".to_owned()),
        AfterDeath::NoLock | AfterDeath::Freed | AfterDeath::Lapses | AfterDeath::Stuck => None,
    });
    bench.progress.expect_more(bench.choices.iter().map(|it| FaultKind::of(it).len()).sum());
    for choice in bench.choices.clone() {
        check_interrupted()?;
        measure(bench, &choice);
        bench.finish_rows()?;
    }
    Ok(())
}

fn is_on_cluster(choice: &Choice) -> bool {
    matches!(choice.target, ContenderSource::Cluster(_))
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
    let mut contender = match bench.set_up(choice, 1, sessions, sessions) {
        Ok(contender) => contender,
        Err(failure) => {
            return bench.add_failure(choice, HOLDER, 2, sessions, &failure);
        }
    };
    let (lock_ttl, stuck_after) = lock_end(bench, choice);
    let served = contender.deployment.has_server();
    let mut run = FaultRun {
        bench,
        contender: &mut contender,
        layout,
        workers,
        lock_ttl,
        stuck_after,
        random: fastrand::Rng::with_seed(bench.settings.seed),
        journal: Journal::new(0..sessions, now_ns()),
        found: FaultFindings::default(),
    };
    let (mut rows, mut left_out) = (Vec::new(), None);
    for kind in FaultKind::of(choice) {
        if kind == FaultKind::All && !served && choice.over_socket {
            let why = "its server is not ours to kill, so only workers were";
            left_out = Some(choice.left_out(why));
            bench.progress.advance();
            continue;
        }
        let op = kind.op(served);
        bench.progress.set_message(&format!("{}: {op}", choice.title()));
        run.found.faults.stuck_after_ms = stuck_after.as_millis() as u64;
        let measured = match kind {
            FaultKind::Holder => holder::measure(&mut run),
            FaultKind::Writer => writers::measure(&mut run),
            FaultKind::All => crash::measure(&mut run, served),
            _ => cluster::measure(&mut run, kind),
        };
        let workers = if kind == FaultKind::Holder { 2 } else { workers };
        rows.push(run.end_row(bench.row(choice, op, workers, sessions), measured));
        bench.progress.advance();
    }
    bench.rows.extend(rows);
    bench.left_out.extend(left_out);
}

/// The lock's lifetime where it ends with time, and when it counts as stuck.
fn lock_end(bench: &Bench, choice: &Choice) -> (Option<Duration>, Duration) {
    if choice.after_death != AfterDeath::Lapses {
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

impl FaultFindings {
    fn count_failure(&mut self, message: &str) {
        self.faults.failed += 1;
        self.first_error.get_or_insert_with(|| message.to_owned());
    }

    fn count_stuck(&mut self, after: Duration) {
        self.faults.stuck += 1;
        self.first_error
            .get_or_insert_with(|| format!("a lock is still held {} ms later", after.as_millis()));
    }
}

impl FaultRun<'_> {
    /// The row of what was found since the one before.
    fn end_row(&mut self, row: Row, measured: WorkerResult<()>) -> Row {
        let FaultFindings { times_ns, mut faults, first_error } = std::mem::take(&mut self.found);
        let deployment = &self.contender.deployment;
        if let Err(failure) = measured {
            return row.into_failed(deployment.redact(&failure.message));
        }
        faults.stuck_is_meant = self.contender.choice.after_death == AfterDeath::Stuck;
        faults.lock_ttl_ms = self.lock_ttl.map(|lock_ttl| lock_ttl.as_millis() as u64);
        let stuck = if faults.stuck_is_meant { 0 } else { faults.stuck };
        Row {
            figures: Figures {
                rounds: usize::try_from(faults.kills).unwrap_or(usize::MAX),
                operations: faults.acknowledged,
                latency_us: latency_of_few(times_ns),
                ..row.figures
            },
            outcome: Outcome {
                lost: faults.lost_beyond,
                misses: faults.sessions_lost_beyond,
                errors: faults.damaged + faults.unreadable + faults.failed + stuck,
                first_error: first_error.map(|message| deployment.redact(&message)),
                ..row.outcome
            },
            faults: Some(faults),
            ..row
        }
    }

    fn open_worker(&self) -> WorkerResult<WorkerProcess> {
        WorkerProcess::open(&self.bench.launch, &self.contender.opening, interrupted)
    }

    /// Starts the load that lives until all is killed.
    fn start_all(&mut self) -> WorkerResult<Vec<LoadWorker>> {
        let each = self.layout.each;
        let firsts = self.layout.last.clone().step_by(each).take(self.workers);
        firsts.map(|first| LoadWorker::start(self, first..first + each)).collect()
    }

    /// Ends the load; what waits for a lock longer than `patience` is stuck.
    fn stop_all(
        &mut self,
        loaders: Vec<LoadWorker>,
        patience: Duration,
    ) -> WorkerResult<Vec<LoaderLog>> {
        let logs = stop_all(loaders, patience)?;
        logs.iter().filter(|log| log.stuck).for_each(|_| self.found.count_stuck(self.stuck_after));
        Ok(logs)
    }

    /// An operation that ended after the kill and was asked for until then is refused, not failed.
    fn record(&mut self, log: &LoaderLog, kill: Option<Kill>, refused_until_ns: u64) {
        for access in &log.accesses {
            let kill = kill.filter(|kill| access.ended_ns >= kill.at_ns);
            self.journal.record_change(access, kill, &mut self.found);
            match &access.found {
                FoundContent::Failed(_)
                    if kill.is_some() && access.asked_ns <= refused_until_ns =>
                {
                    self.found.faults.refused += 1;
                }
                FoundContent::Failed(failure) => self.found.count_failure(&failure.message),
                FoundContent::Counter(_) | FoundContent::Nothing | FoundContent::Damaged => {}
            }
        }
    }

    /// Compares what is there with the journal.
    fn check_sessions(&mut self, sessions: Range<usize>, kill: Option<Kill>) -> WorkerResult<()> {
        let mut reader = self.open_worker()?;
        reader.send(&WorkerRequest::Fault(FaultTask::Peek(sessions)))?;
        let peeked = match reader.receive(TASK_MAX, interrupted)? {
            WorkerReply::Peeked(peeked) => peeked,
            other => return Err(unexpected(&other)),
        };
        for access in peeked {
            self.journal.compare(&access, kill, &mut self.found);
            if let FoundContent::Failed(failure) = access.found {
                self.found.faults.unreadable += 1;
                self.found.first_error.get_or_insert(failure.message);
            }
        }
        Ok(())
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
