//! `gc`: the effect of removing sessions on concurrent requests.
//!
//! For each contender live and expiring sessions are filled in, then these are timed:
//! - begins alone;
//! - begins while another process sweeps, or while or after the store expires sessions by itself;
//! - 1,000 starts without a sweep, and with one in a tenth of them, as PHP's garbage collection
//!   does it; without `--quick` also with 1,000 sessions only;
//! - begins while nine tenths of the sessions are deleted.
//!
//! The sessions are written to disk first: a site's half a million sessions came in over hours, so
//! their write-back is no part of a sweep's effect.

use std::path::Path;
use std::time::Duration;

use sessile_core::Expiry;
use sessile_results::Removal;
use sessile_stores::StoreEntry;

use crate::experiments::phase::Phase;
use crate::experiments::sample_totals::Findings;
use crate::experiments::{Bench, ReadyContender, check_interrupted, redis_info};
use crate::monotonic::now_ns;
use crate::run::RunError;
use crate::selection::{Choice, ContenderSource};
use crate::worker::protocol::{
    ContenderFailure, SampleAction, SamplePlan, SessionRange, WorkerRequest, WorkerResult,
};

/// Processes that fill. The first is timed later, the second removes.
const WORKERS: usize = 4;
const REMOVER: usize = 1;
/// 100,000 of 550,000.
const EXPIRED: (usize, usize) = (2, 11);
const STARTS: u64 = 1_000;
const SMALL: usize = 1_000;
/// Two calls of the engine, each of which examines four entries.
const REMOVED_BY_REQUEST_MAX: u64 = 8;
/// Arrivals are planned for this long; a removal ends them before.
const UNTIL_TOLD_SECONDS: f64 = 3_600.0;
/// Longest watch of a store that expires by itself, in samples.
const WATCH_SAMPLES_MAX: f64 = 10.0;
/// Time for its server to remove the first expired record.
const EXPIRY_LAG_MAX_NS: u64 = 30_000_000_000;
/// Between two questions to a server; each is a connection.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Watched of a server that does not tell what it has removed.
const UNKNOWN_NS: u64 = 250_000_000;

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    bench.keep_choices(|choice| match choice.target {
        ContenderSource::Reference(reference) if !reference.keeps_payloads || reference.removes => {
            None
        }
        ContenderSource::Reference(_) => {
            Some("a reference row has nothing that removes sessions".to_owned())
        }
        ContenderSource::Cluster(_) if choice.entry().is_none() => {
            Some("a reference row has nothing that removes sessions".to_owned())
        }
        _ if !choice.shared_by_processes => {
            Some("it lives in one process, so nobody removes beside it".to_owned())
        }
        _ => None,
    });
    bench.progress.expect_more(bench.choices.len() * 2);
    for choice in bench.choices.clone() {
        if matches!(choice.target, ContenderSource::Reference(it) if !it.keeps_payloads) {
            measure_null(bench, &choice)?;
            continue;
        }
        for (sessions, whole) in [(bench.settings.sessions, true), (SMALL, false)] {
            if !whole && bench.settings.quick {
                bench.progress.advance();
                continue;
            }
            check_interrupted()?;
            if !bench.has_room(&choice, sessions, sessions * WORKERS, None) {
                bench.progress.advance();
                continue;
            }
            let first_row = bench.rows.len();
            let measured = match bench.set_up(&choice, WORKERS, live_of(sessions, whole), sessions)
            {
                Ok(mut contender) if whole => measure_with_removal(bench, &mut contender)?,
                Ok(mut contender) => measure_small(bench, &mut contender),
                Err(failure) => Err(failure),
            };
            if let Err(failure) = measured {
                bench.rows.truncate(first_row);
                bench.add_failure(&choice, "begin-alone", 1, sessions, &failure);
            }
            bench.finish_rows()?;
            bench.progress.advance();
        }
    }
    Ok(())
}

/// The row of the harness: begins that do nothing. Slow ones show the machine.
fn measure_null(bench: &mut Bench, choice: &Choice) -> Result<(), RunError> {
    check_interrupted()?;
    let plan = begin_plan(bench, SMALL, bench.settings.seconds);
    let measured = bench.set_up(choice, 1, SMALL, SMALL).and_then(|mut contender| {
        let mut phase = Phase::new("begin-alone");
        let plan = seeded(plan, &phase);
        contender.sample(&mut phase, plan)?;
        push_row(bench, &contender, SMALL, phase);
        verify(bench, &mut contender, SMALL)
    });
    if let Err(failure) = measured {
        bench.add_failure(choice, "begin-alone", 1, SMALL, &failure);
    }
    bench.finish_rows()?;
    bench.progress.advance();
    bench.progress.advance();
    Ok(())
}

fn live_of(sessions: usize, whole: bool) -> usize {
    if whole { sessions - sessions * EXPIRED.0 / EXPIRED.1 } else { sessions }
}

/// All phases on the large store. The outer error ends the run, the inner one this contender.
fn measure_with_removal(
    bench: &mut Bench,
    contender: &mut ReadyContender,
) -> Result<WorkerResult<()>, RunError> {
    let sessions = bench.settings.sessions;
    let live = live_of(sessions, true);
    let title = contender.choice.title();
    let rounds = bench.settings.rounds;
    let phases = (|| {
        let mut alone = Phase::new("begin-alone");
        let mut beside = Phase::new("begin-while-sweeping");
        for round in 0..rounds {
            let expiring = part_of(live..sessions, round, rounds);
            let count = expiring.len();
            bench.progress.set_message(&format!("{title}: fill in {count} that expire"));
            let expire_at_ns = fill_expiring(bench, contender, expiring, live, flush())?;
            flush();
            bench.progress.set_message(&format!("{title}: begins alone"));
            let plan = seeded(begin_plan(bench, live, bench.settings.seconds), &alone);
            contender.sample(&mut alone, plan)?;
            bench
                .progress
                .set_message(&format!("{title}: begins while expired sessions are removed"));
            if !wait_for(expire_at_ns) {
                return Ok(());
            }
            while_sweeping(bench, contender, &mut beside, live, count as u64)?;
        }
        push_row(bench, contender, sessions, alone);
        push_row(bench, contender, sessions, beside);
        measure_starts(bench, contender, live, sessions)?;
        verify(bench, contender, live)?;
        bench.progress.set_message(&format!("{title}: begins while nine tenths are deleted"));
        let kept = live / 10;
        let mut beside = Phase::new("begin-while-deleting");
        for round in 0..rounds {
            let deleted = SessionRange::whole(&part_of(kept..live, round, rounds));
            let request = WorkerRequest::Destroy(deleted);
            while_removing(bench, contender, &mut beside, kept.max(1), &request)?;
        }
        push_row(bench, contender, sessions, beside);
        Ok(())
    })();
    check_interrupted()?;
    Ok(phases)
}

fn measure_small(bench: &mut Bench, contender: &mut ReadyContender) -> WorkerResult<()> {
    flush();
    measure_starts(bench, contender, SMALL, SMALL)?;
    verify(bench, contender, SMALL)
}

/// Writes back the kernel's dirty pages, and returns the nanoseconds.
fn flush() -> u64 {
    let start = now_ns();
    // On every file system, because others' dirty pages disturb just as much. The store's own
    // errors show a failure.
    rustix::fs::sync();
    now_ns().saturating_sub(start)
}

/// The sessions of a round.
fn part_of(
    sessions: std::ops::Range<usize>,
    round: usize,
    rounds: usize,
) -> std::ops::Range<usize> {
    let from = |round| sessions.start + sessions.len() * round / rounds;
    from(round)..from(round + 1)
}

/// The sessions expire late enough for filling, writing back (no longer than for the live ones) and
/// the phase before.
fn fill_expiring(
    bench: &Bench,
    contender: &mut ReadyContender,
    range: std::ops::Range<usize>,
    live: usize,
    flush_ns: u64,
) -> WorkerResult<u64> {
    let each_ns = contender.fill_ns / live.max(1) as u64;
    let filling_ns = each_ns * range.len() as u64 * 3 / 2 + flush_ns + 500_000_000;
    let phase_ns =
        ((bench.settings.seconds + bench.settings.warm_up_seconds) * 1e9) as u64 + 500_000_000;
    let expire_at_ns = now_ns() + filling_ns + phase_ns;
    let range = SessionRange { expire_at_ns: Some(expire_at_ns), ..SessionRange::whole(&range) };
    let done = contender.group.run_split(WORKERS, range, WorkerRequest::Fill)?;
    match done.first_error {
        Some(message) => Err(ContenderFailure {
            code: "fill".to_owned(),
            message: contender.deployment.redact(&message),
        }),
        None => Ok(expire_at_ns),
    }
}

/// False after a signal.
fn wait_for(moment_ns: u64) -> bool {
    while now_ns() < moment_ns {
        if check_interrupted().is_err() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

fn while_sweeping(
    bench: &Bench,
    contender: &mut ReadyContender,
    phase: &mut Phase,
    live: usize,
    expired: u64,
) -> WorkerResult<()> {
    let is_native = |entry: &StoreEntry| entry.capabilities.expiry == Expiry::Native;
    if contender.choice.entry().is_some_and(is_native) {
        return while_expiring(bench, contender, phase, live, expired);
    }
    let start = now_ns();
    let removed = while_removing(bench, contender, phase, live, &WorkerRequest::Sweep)?;
    let by_each_change = |entry: &StoreEntry| entry.capabilities.expiry == Expiry::Changes;
    let by_requests = match contender.choice.entry() {
        Some(entry) if by_each_change(entry) => {
            removed_by_requests_max(bench.settings.rate, now_ns() - start)
        }
        _ => 0,
    };
    // Two complete passes began after the expiry, so the sweep overlooked the rest.
    if removed + by_requests < expired {
        let text = format!("the sweep removed {removed} of {expired} expired sessions");
        phase.totals.findings.add(Findings {
            errors: 1,
            first_error: Some(text),
            ..Findings::default()
        });
    }
    Ok(())
}

/// The most expired sessions that the requests beside a sweep of `elapsed_ns` can have removed: the
/// engine removes some in each call, and not those of a sweep.
fn removed_by_requests_max(rate: Option<f64>, elapsed_ns: u64) -> u64 {
    let requests = rate.unwrap_or_default() * elapsed_ns as f64 / 1e9;
    (requests.ceil() as u64 + 1) * REMOVED_BY_REQUEST_MAX
}

/// A server may keep expired records for a while, and calm seconds would dilute the percentiles:
/// the time counts from the first record that it has removed to the last.
fn while_expiring(
    bench: &Bench,
    contender: &mut ReadyContender,
    phase: &mut Phase,
    live: usize,
    expired: u64,
) -> WorkerResult<()> {
    let socket = contender.deployment.server_socket().map(Path::to_owned);
    // The server is asked, not the store: reads hide expired records that still take memory.
    let count =
        || redis_info::figure(&redis_info::info(socket.as_deref()?, "stats").ok()?, "expired_keys");
    let before = count();
    let server_cpu = contender.begin_requests(until_told(bench, phase, live))?;
    let mut start = now_ns();
    let mut watch_ns = UNKNOWN_NS;
    let mut removed = None;
    if let Some(before) = before {
        let removed_since = || count().unwrap_or(before).saturating_sub(before);
        let lag_max = start + EXPIRY_LAG_MAX_NS;
        while removed_since() == 0 && now_ns() < lag_max && check_interrupted().is_ok() {
            start = now_ns();
            std::thread::sleep(LOOK_EVERY);
        }
        watch_ns = (bench.settings.seconds * WATCH_SAMPLES_MAX * 1e9) as u64;
        while removed_since() < expired
            && now_ns() < start + watch_ns
            && check_interrupted().is_ok()
        {
            std::thread::sleep(LOOK_EVERY);
        }
        removed = Some(removed_since());
    } else {
        wait_for(start + watch_ns);
    }
    let end = now_ns().min(start + watch_ns);
    contender.end_requests(phase, server_cpu, start..end)?;
    if removed.is_none_or(|removed| removed == 0) {
        phase.op = "begin-after-expiry"; // no removal is known to have happened meanwhile
    }
    let seconds = (end - start) as f64 / 1e9;
    phase.add_removal(Removal { removed, seconds, ..Removal::default() });
    Ok(())
}

/// Times requests while the remover works, and returns how many sessions it removed. Requests that
/// are due before its end count, however late they are served.
fn while_removing(
    bench: &Bench,
    contender: &mut ReadyContender,
    phase: &mut Phase,
    sessions: usize,
    request: &WorkerRequest,
) -> WorkerResult<u64> {
    let server_cpu = contender.begin_requests(until_told(bench, phase, sessions))?;
    contender.group.begin_task(REMOVER, request)?;
    let done = contender.group.end_task(REMOVER)?;
    let during = done.started_ns..done.started_ns + done.elapsed_ns;
    contender.end_requests(phase, server_cpu, during)?;
    let (errors, first_error) = (done.errors, done.first_error);
    phase.totals.findings.add(Findings { errors, first_error, ..Findings::default() });
    phase.add_removal(Removal {
        removed: Some(done.count),
        seconds: done.elapsed_ns as f64 / 1e9,
        cpu_seconds: Some(done.cpu_us as f64 / 1e6),
        longest_call_us: Some(done.longest_ns as f64 / 1e3),
    });
    Ok(done.count)
}

fn until_told(bench: &Bench, phase: &Phase, sessions: usize) -> SamplePlan {
    let plan = begin_plan(bench, sessions, UNTIL_TOLD_SECONDS);
    SamplePlan { warm_up_ns: 0, until_told: true, ..seeded(plan, phase) }
}

fn measure_starts(
    bench: &mut Bench,
    contender: &mut ReadyContender,
    live: usize,
    sessions: usize,
) -> WorkerResult<()> {
    for (op, action) in
        [("start-gc-0", SampleAction::Cycle), ("start-gc-0.1", SampleAction::StartWithSweep)]
    {
        bench
            .progress
            .set_message(&format!("{}: {op} with {sessions} sessions", contender.choice.title()));
        let closed = SamplePlan {
            action,
            rate: None,
            operations_max: Some(STARTS),
            ..begin_plan(bench, live, 600.0)
        };
        let mut phase = Phase::new(op);
        let closed = seeded(closed, &phase);
        contender.sample(&mut phase, closed)?;
        push_row(bench, contender, sessions, phase);
    }
    Ok(())
}

fn verify(bench: &mut Bench, contender: &mut ReadyContender, live: usize) -> WorkerResult<()> {
    let verified = contender.verify(live)?;
    if let Some(row) = bench.rows.last_mut() {
        verified.add_to_row(row);
    }
    Ok(())
}

fn begin_plan(bench: &Bench, live: usize, seconds: f64) -> SamplePlan {
    SamplePlan {
        sessions: 0..live,
        warm_up_ns: (bench.settings.warm_up_seconds * 1e9) as u64,
        measure_ns: (seconds * 1e9) as u64,
        seed: bench.settings.seed,
        rate: bench.settings.rate,
        ..SamplePlan::new(SampleAction::Begin)
    }
}

/// The plan of the next sample of a phase.
fn seeded(plan: SamplePlan, phase: &Phase) -> SamplePlan {
    SamplePlan { seed: seed_of(plan.seed, phase.op, phase.totals.samples() as u64), ..plan }
}

/// Each sample has a seed of its own: the sessions of the one before are still in caches. The
/// number of samples varies between runs with the same seed.
fn seed_of(seed: u64, op: &str, sample: u64) -> u64 {
    let of_phase =
        op.bytes().fold(seed, |seed, letter| seed.wrapping_mul(31).wrapping_add(u64::from(letter)));
    of_phase.rotate_left(32) ^ sample
}

fn push_row(bench: &mut Bench, contender: &ReadyContender, sessions: usize, phase: Phase) {
    let row = bench.row(&contender.choice, phase.op, 1, sessions);
    bench.rows.push(phase.into_row(row, contender));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In one run of many the requests came to where the expired sessions were: 13 of them removed
    /// 52 sessions, and the sweep, which removed the other 3,282, was blamed.
    #[test]
    fn what_requests_beside_a_sweep_remove_is_not_overlooked_by_it() {
        let of_requests = removed_by_requests_max(Some(500.0), 26_000_000);
        assert!(of_requests >= 52, "{of_requests}");
        // A sweep that overlooks every tenth session is found out.
        assert!(of_requests < 333, "{of_requests}");
    }

    /// The seed once contained the clock, so that no run could be repeated.
    #[test]
    fn a_seed_gives_the_same_choices_again_and_no_two_phases_or_samples_the_same() {
        let plans = [
            ("begin-alone", 0),
            ("start-gc-0", 0),
            ("start-gc-0.1", 0),
            ("begin-while-sweeping", 1),
        ];
        let seeds = |seed| plans.map(|(op, sample_piece)| seed_of(seed, op, sample_piece));
        assert_eq!(seeds(7), seeds(7));
        let mut all = [seeds(7), seeds(8)].concat();
        all.push(seed_of(7, "begin-while-sweeping", 0));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 9);
    }
}
