//! `faults`: what becomes of sessions when workers and servers are killed with SIGKILL.
//!
//! Three rows for each contender: a worker dies while it holds a session; workers die while they write; the server dies under
//! load and is started again in the same place (of an embedded store all processes die, and others open it). What the
//! store has acknowledged is in the parent's own journal, so what is missing is known whatever the store says.

mod crash;
mod holder;
mod journal;
mod loader;
mod writers;

use std::time::Duration;

use crate::capacity::Filling;
use crate::experiments::{Bench, Member, go_on};
use crate::monotonic::now_ns;
use crate::reference::AfterDeath;
use crate::report::faults::{ALL, HOLDER, SERVER, WRITER};
use crate::report::{Faults, LatencyUs, Row};
use crate::run::RunError;
use crate::selection::{Choice, Target};
use crate::setup::LOCK_TTL;
use crate::worker::process::Process;
use crate::worker::protocol::Failure;
use journal::Journal;

/// A lock that ends with its process is stuck when it is not free after this. The slowest is said to take 80 ms, and
/// what a busy machine adds.
const FREED_WITHIN: Duration = Duration::from_secs(1);
/// So often everything is killed for so many kills of one process: each time takes as long as a server takes to start, and
/// what is lost once in a while is not seen in one.
pub(crate) fn kills_of_all(rounds: usize) -> usize {
    (rounds / 4).max(3).min(rounds)
}

/// How long a lock lasts in a store of the user's whose URL does not say.
const LOCK_TTL_USUAL: Duration = Duration::from_secs(60);

/// What one part found: the times of which the row shows the median and the longest, and the rest.
struct Findings {
    times_ns: Vec<u64>,
    faults: Faults,
    first_error: Option<String>,
}

/// One contender, and what the parts need of the run.
struct Scene<'a> {
    bench: &'a Bench,
    member: &'a mut Member,
    /// A lock that is not free after so long is stuck.
    stuck_after: Duration,
    random: fastrand::Rng,
}

/// Which sessions are whose.
struct Layout {
    /// One for each holder that is killed.
    held: std::ops::Range<usize>,
    /// So many for each worker that writes.
    each: usize,
    /// Of the workers that are killed one by one, and of those that take their places.
    written: std::ops::Range<usize>,
    /// Of the workers that live until all are killed.
    last: std::ops::Range<usize>,
}

impl Layout {
    fn of(rounds: usize, workers: usize, each: usize) -> Layout {
        let written = rounds..rounds + (workers + rounds) * each;
        let last = written.end..written.end + workers * each;
        Layout { held: 0..rounds, each, written, last }
    }
}

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    bench.keep_choices(|choice| match choice.after_death() {
        _ if !choice.shared_by_processes => Some("it lives in one process, and dies with it".to_owned()),
        AfterDeath::NoLock => Some("it has no lock that anybody could hold".to_owned()),
        AfterDeath::Freed | AfterDeath::Lapses | AfterDeath::Stuck => None,
    });
    bench.progress.expect_more(bench.choices.len() * 3);
    for choice in bench.choices.clone() {
        go_on()?;
        measure(bench, &choice);
        bench.rows_are_whole()?;
    }
    Ok(())
}

fn measure(bench: &mut Bench, choice: &Choice) {
    let settings = &bench.settings;
    let (rounds, workers) = (settings.rounds, settings.workers.first().copied().unwrap_or(1));
    let layout = Layout::of(rounds, workers, settings.sessions);
    let sessions = layout.last.end;
    // Whoever is killed has given its ids back before another one prepares them.
    if !bench.has_room(choice, Filling { sessions, ids: sessions, workers: workers + 1 }) {
        return;
    }
    let settings = &bench.settings;
    let mut member = match bench.enlist(choice, 1, sessions, sessions) {
        Ok(member) => member,
        Err(failure) => {
            let row = bench.failed_row(choice, HOLDER, 2, sessions, &failure);
            return bench.rows.push(row);
        }
    };
    let mut journal = Journal::of(0..sessions, now_ns());
    let (lock_ttl, stuck_after) = lock_end(bench, choice);
    let served = member.stage.has_server();
    let random = fastrand::Rng::with_seed(settings.seed);
    let mut scene = Scene { bench, member: &mut member, stuck_after, random };
    let title = choice.title();
    let mut parts = Vec::new();
    bench.progress.say(&format!("{title}: holders are killed"));
    parts.push((HOLDER, 2, holder::measure(&mut scene, &layout, &mut journal)));
    bench.progress.step();
    bench.progress.say(&format!("{title}: writers are killed"));
    parts.push((WRITER, workers, writers::measure(&mut scene, &layout, workers, &mut journal)));
    bench.progress.step();
    let ours = served || !choice.over_socket;
    if ours {
        bench.progress.say(&format!("{title}: {} killed", if served { "the server is" } else { "all are" }));
        let op = if served { SERVER } else { ALL };
        parts.push((op, workers, crash::measure(&mut scene, &layout, workers, served, &mut journal)));
    }
    bench.progress.step();
    let meant = choice.after_death() == AfterDeath::Stuck;
    let rows = parts.into_iter().map(|(op, workers, found)| match found {
        Ok(found) => row(bench.row(choice, op, workers, sessions), found, &member, meant, lock_ttl),
        Err(failure) => {
            let failed = Some(member.stage.redact(&failure.message));
            Row { failed, ..bench.row(choice, op, workers, sessions) }
        }
    });
    let rows: Vec<Row> = rows.collect();
    bench.rows.extend(rows);
    if !ours {
        bench.left_out.push(choice.left_out("its server is not ours to kill, so only workers were"));
    }
}

/// How long a lock lasts where it ends with time, and after how long one counts as stuck.
fn lock_end(bench: &Bench, choice: &Choice) -> (Option<Duration>, Duration) {
    if choice.after_death() != AfterDeath::Lapses {
        return (None, FREED_WITHIN);
    }
    let usual = match choice.target {
        Target::Url(_, url) => sessile_stores::StoreUrl::parse(url)
            .ok()
            .and_then(|url| url.text(LOCK_TTL)?.parse().ok())
            .map_or(LOCK_TTL_USUAL, Duration::from_millis),
        _ => bench.settings.lock_ttl.unwrap_or(LOCK_TTL_USUAL),
    };
    (Some(usual), usual * 2)
}

fn row(row: Row, found: Findings, member: &Member, stuck_is_meant: bool, lock_ttl: Option<Duration>) -> Row {
    let (mut times, mut faults) = (found.times_ns, found.faults);
    times.sort_unstable();
    let us = |ns: Option<&u64>| ns.map_or(0.0, |ns| *ns as f64 / 1e3);
    faults.stuck_is_meant = stuck_is_meant;
    faults.lock_ttl_ms = lock_ttl.map(|lock_ttl| lock_ttl.as_millis() as u64);
    let stuck = if stuck_is_meant { 0 } else { faults.stuck };
    Row {
        rounds: usize::try_from(faults.kills).unwrap_or(usize::MAX),
        operations: faults.acknowledged,
        latency_us: LatencyUs {
            min: us(times.first()),
            p50: us(times.get(times.len() / 2)),
            max: us(times.last()),
            ..LatencyUs::default()
        },
        lost: faults.lost_beyond,
        misses: faults.sessions_lost_beyond,
        errors: faults.damaged + faults.unreadable + faults.failed + stuck,
        first_error: found.first_error.map(|message| member.stage.redact(&message)),
        faults: Some(faults),
        ..row
    }
}

impl Findings {
    fn new(scene: &Scene<'_>) -> Findings {
        let stuck_after_ms = scene.stuck_after.as_millis() as u64;
        Findings { times_ns: Vec::new(), faults: Faults { stuck_after_ms, ..Faults::default() }, first_error: None }
    }

    /// An operation failed although nothing was gone.
    fn fail(&mut self, message: &str) {
        self.faults.failed += 1;
        self.first_error.get_or_insert_with(|| message.to_owned());
    }

    /// A lock that nobody gives back.
    fn stuck(&mut self, after: Duration) {
        self.faults.stuck += 1;
        self.first_error
            .get_or_insert_with(|| format!("the lock of a killed worker is still held {} ms later", after.as_millis()));
    }
}

impl Scene<'_> {
    /// A further worker.
    fn worker(&self) -> Result<Process, Failure> {
        Process::open(&self.bench.launch, &self.member.opening)
    }

    /// Waits, unless a signal ends the run.
    fn wait(&self, time: Duration) {
        let until = now_ns() + time.as_nanos() as u64;
        loop {
            let left = Duration::from_nanos(until.saturating_sub(now_ns()));
            if left.is_zero() || crate::interruption::interrupted() {
                return;
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
    }
}
