//! `gc`: what removing sessions does to the requests beside it.
//!
//! For each contender, one after the other: live sessions and some that expire at one moment are filled in;
//! begins are timed alone, then while another process sweeps the expired ones (or the store removes them by
//! itself, if anybody can tell; else after they have expired), then 1,000 starts without and with a sweep in a
//! tenth of them, as PHP's garbage collection does it, then begins while nine tenths of the sessions are deleted.
//! The starts are timed with 1,000 sessions too.
//!
//! What was filled in is written to disk before anything is timed: a site's half a million sessions came in over
//! hours, and their writing back is no part of what a sweep does to requests.

mod expired_by_server;

use std::time::{Duration, Instant};

use sessile_core::Expiry;

use crate::capacity::Filling;
use crate::experiments::phase::Phase;
use crate::experiments::{Bench, Member, go_on};
use crate::monotonic::now_ns;
use crate::report::Removal;
use crate::run::RunError;
use crate::selection::{Choice, Target};
use crate::worker::protocol::{Action, Done, Expiring, Failure, Plan, Range, Request};

/// Processes that fill; the first one is timed later, the second one removes.
const CREW: usize = 4;
const REMOVER: usize = 1;
/// Of 11 sessions 2 expire: 100,000 of 550,000.
const EXPIRED: (usize, usize) = (2, 11);
const STARTS: u64 = 1_000;
const SMALL: usize = 1_000;
/// While something is removed, requests are timed in pieces of this length, until it is done.
const PIECE_NS: u64 = 250_000_000;
/// A store that expires by itself is watched for at most this many samples' length.
const WATCH_SAMPLES_MAX: f64 = 10.0;
/// How long its server may take until it removes the first expired record.
const EXPIRY_LAG_MAX: Duration = Duration::from_secs(30);

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    bench.keep_choices(|choice| match choice.target {
        Target::Reference(reference) if !reference.keeps_payloads => None,
        Target::Reference(_) => Some("a reference row has nothing that removes sessions".to_owned()),
        _ if !choice.shared_by_processes => Some("it lives in one process, so nobody removes beside it".to_owned()),
        _ => None,
    });
    bench.progress.expect_more(bench.choices.len() * 2);
    for choice in bench.choices.clone() {
        if matches!(choice.target, Target::Reference(_)) {
            nothing(bench, &choice)?;
            continue;
        }
        for (sessions, whole) in [(bench.settings.sessions, true), (SMALL, false)] {
            go_on()?;
            if !bench.has_room(&choice, Filling { sessions, ids: sessions, workers: CREW }) {
                bench.progress.step();
                continue;
            }
            let first_row = bench.rows.len();
            let measured = match bench.enlist(&choice, CREW, live_of(sessions, whole), sessions) {
                Ok(mut member) if whole => with_removal(bench, &mut member)?,
                Ok(mut member) => small(bench, &mut member),
                Err(failure) => Err(failure),
            };
            if let Err(failure) = measured {
                bench.rows.truncate(first_row);
                let row = bench.failed_row(&choice, "begin-alone", 1, sessions, &failure);
                bench.rows.push(row);
            }
            bench.rows_are_whole()?;
            bench.progress.step();
        }
    }
    Ok(())
}

/// The row of the harness: begins that do nothing. Whatever is slow here is the machine.
fn nothing(bench: &mut Bench, choice: &Choice) -> Result<(), RunError> {
    go_on()?;
    let plan = begins(bench, SMALL, bench.settings.seconds);
    let measured = bench.enlist(choice, 1, SMALL, SMALL).and_then(|mut member| {
        let phase = member.phase("begin-alone", plan)?;
        push(bench, &member, SMALL, phase, None);
        verify(bench, &mut member, SMALL)
    });
    if let Err(failure) = measured {
        let row = bench.failed_row(choice, "begin-alone", 1, SMALL, &failure);
        bench.rows.push(row);
    }
    bench.rows_are_whole()?;
    bench.progress.step();
    bench.progress.step();
    Ok(())
}

fn live_of(sessions: usize, whole: bool) -> usize {
    if whole { sessions - sessions * EXPIRED.0 / EXPIRED.1 } else { sessions }
}

/// All phases on the large store. The outer error ends the run, the inner one this contender.
fn with_removal(bench: &mut Bench, member: &mut Member) -> Result<Result<(), Failure>, RunError> {
    let sessions = bench.settings.sessions;
    let live = live_of(sessions, true);
    let title = member.choice.title();
    let phases = (|| {
        bench.progress.say(&format!("{title}: fill in {} that expire", sessions - live));
        let expire_at_ns = fill_expiring(bench, member, live..sessions, flush())?;
        flush();
        bench.progress.say(&format!("{title}: begins alone"));
        let alone = member.phase("begin-alone", begins(bench, live, bench.settings.seconds))?;
        push(bench, member, sessions, alone, None);
        bench.progress.say(&format!("{title}: begins while expired sessions are removed"));
        if !wait_for(expire_at_ns) {
            return Ok(());
        }
        let (beside, removal) = while_sweeping(bench, member, live, (sessions - live) as u64)?;
        push(bench, member, sessions, beside, Some(removal));
        starts(bench, member, live, sessions)?;
        verify(bench, member, live)?;
        bench.progress.say(&format!("{title}: begins while nine tenths are deleted"));
        let kept = live / 10;
        let deleted = Range::whole(&(kept..live));
        member.crew.begin_task(REMOVER, &Request::Destroy(deleted))?;
        let (beside, done) = until_task_ends(bench, member, "begin-while-deleting", kept.max(1))?;
        push(bench, member, sessions, beside, Some(removal_of(&done)));
        Ok(())
    })();
    go_on()?;
    Ok(phases)
}

fn small(bench: &mut Bench, member: &mut Member) -> Result<(), Failure> {
    flush();
    starts(bench, member, SMALL, SMALL)?;
    verify(bench, member, SMALL)
}

/// Writes back what the kernel still holds in memory, and says how long that took.
fn flush() -> u64 {
    let start = now_ns();
    // Of every file system: where a store keeps its data is its own business, and others' dirty pages would
    // disturb it just as much. Nothing can be done about a failure; the store's own errors will tell.
    rustix::fs::sync();
    now_ns().saturating_sub(start)
}

/// Fills in sessions that expire at one moment: late enough for the filling, for writing it back (which takes
/// no longer than it took for the live ones) and for the phase before.
fn fill_expiring(
    bench: &Bench,
    member: &mut Member,
    range: std::ops::Range<usize>,
    flush_ns: u64,
) -> Result<u64, Failure> {
    let each_ns = member.fill_ns / range.start.max(1) as u64;
    let filling_ns = each_ns * range.len() as u64 * 3 / 2 + flush_ns + 500_000_000;
    let phase_ns = ((bench.settings.seconds + bench.settings.warm_up_seconds) * 1e9) as u64 + 500_000_000;
    let expire_at_ns = now_ns() + filling_ns + phase_ns;
    let expiring = Some(Expiring { first: range.start, at_ns: expire_at_ns, apart_ns: 0 });
    let range = Range { expiring, ..Range::whole(&range) };
    let done = member.crew.share(CREW, range, Request::Fill)?;
    match done.first_error {
        Some(message) => Err(Failure { code: "fill".to_owned(), message: member.stage.redact(&message) }),
        None => Ok(expire_at_ns),
    }
}

/// False when a signal came first.
fn wait_for(moment_ns: u64) -> bool {
    while now_ns() < moment_ns {
        if go_on().is_err() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

fn while_sweeping(bench: &Bench, member: &mut Member, live: usize, expired: u64) -> Result<(Phase, Removal), Failure> {
    let start = Instant::now();
    let native = matches!(member.choice.target, Target::Fixture(entry, _) | Target::FixtureOn(entry, ..) | Target::Url(entry, _)
        if entry.capabilities.expiry == Expiry::Native);
    let op = "begin-while-sweeping";
    if !native {
        member.crew.begin_task(REMOVER, &Request::Sweep)?;
        let (mut phase, done) = until_task_ends(bench, member, op, live)?;
        if done.count < expired && go_on().is_ok() {
            // Two complete passes began after all of them had expired: what is left was overlooked.
            phase.totals.errors += 1;
            let text = format!("the sweep removed {} of {expired} expired sessions", done.count);
            phase.totals.first_error.get_or_insert(text);
        }
        return Ok((phase, removal_of(&done)));
    }
    // A store may let its server keep expired records for a while; calm seconds would dilute the percentiles.
    let count = |member: &Member| member.stage.server_socket().and_then(expired_by_server::count);
    let before = count(member);
    while before.is_some() && count(member) == before && start.elapsed() < EXPIRY_LAG_MAX && go_on().is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let start = Instant::now();
    let mut phase = Phase::new(op);
    let watch_max = Duration::from_secs_f64(bench.settings.seconds * WATCH_SAMPLES_MAX);
    let mut removed = Some(0);
    while removed.is_some_and(|removed| removed < expired) && start.elapsed() < watch_max && go_on().is_ok() {
        member.piece(bench, &mut phase, live)?;
        // Where it is not ours to ask, one piece is shown, without a count.
        removed = before.zip(count(member)).map(|(before, now)| now.saturating_sub(before));
    }
    if removed.is_none_or(|removed| removed == 0) {
        phase.op = "begin-after-expiry"; // nothing tells that any was removed meanwhile
    }
    Ok((phase, Removal { removed, seconds: start.elapsed().as_secs_f64(), ..Removal::default() }))
}

/// Times begins until the remover is done.
fn until_task_ends(
    bench: &Bench,
    member: &mut Member,
    op: &'static str,
    sessions: usize,
) -> Result<(Phase, Done), Failure> {
    let mut phase = Phase::new(op);
    while !member.crew.task_ended(REMOVER)? && go_on().is_ok() {
        member.piece(bench, &mut phase, sessions)?;
    }
    let mut done = member.crew.end_task(REMOVER)?;
    phase.totals.errors += done.errors;
    phase.totals.first_error = phase.totals.first_error.take().or(done.first_error.take());
    Ok((phase, done))
}

fn starts(bench: &mut Bench, member: &mut Member, live: usize, sessions: usize) -> Result<(), Failure> {
    for (op, action) in [("start-gc-0", Action::Cycle), ("start-gc-0.1", Action::StartWithSweep)] {
        bench.progress.say(&format!("{}: {op} with {sessions} sessions", member.choice.title()));
        let closed = Plan { action, rate: None, operations_max: Some(STARTS), ..begins(bench, live, 600.0) };
        let phase = member.phase(op, closed)?;
        push(bench, member, sessions, phase, None);
    }
    Ok(())
}

fn verify(bench: &mut Bench, member: &mut Member, live: usize) -> Result<(), Failure> {
    let verified = member.verify(live)?;
    if let Some(row) = bench.rows.last_mut() {
        verified.put_on(row);
    }
    Ok(())
}

fn begins(bench: &Bench, live: usize, seconds: f64) -> Plan {
    Plan {
        sessions: 0..live,
        warm_up_ns: (bench.settings.warm_up_seconds * 1e9) as u64,
        measure_ns: (seconds * 1e9) as u64,
        seed: bench.settings.seed,
        rate: bench.settings.rate,
        ..Plan::of(Action::Begin)
    }
}

/// Each phase, and each sample of one, chooses other sessions: those of the one before are still in the caches. The seed of a
/// run brings all of them back, but not how many samples a removal takes.
fn seed_of(seed: u64, op: &str, sample: u64) -> u64 {
    let of_phase = op.bytes().fold(seed, |seed, letter| seed.wrapping_mul(31).wrapping_add(u64::from(letter)));
    of_phase.rotate_left(32) ^ sample
}

fn removal_of(done: &Done) -> Removal {
    Removal {
        removed: Some(done.count),
        seconds: done.elapsed_ns as f64 / 1e9,
        cpu_seconds: Some(done.cpu_us as f64 / 1e6),
        longest_call_us: Some(done.longest_ns as f64 / 1e3),
    }
}

fn push(bench: &mut Bench, member: &Member, sessions: usize, phase: Phase, removal: Option<Removal>) {
    let row = bench.row(&member.choice, phase.op, 1, sessions);
    bench.rows.push(phase.into_row(row, member, removal));
}

impl Member {
    fn phase(&mut self, op: &'static str, plan: Plan) -> Result<Phase, Failure> {
        let mut phase = Phase::new(op);
        self.sample(&mut phase, plan)?;
        Ok(phase)
    }

    fn piece(&mut self, bench: &Bench, phase: &mut Phase, sessions: usize) -> Result<(), Failure> {
        self.sample(phase, Plan { warm_up_ns: 0, measure_ns: PIECE_NS, ..begins(bench, sessions, 0.0) })
    }

    fn sample(&mut self, phase: &mut Phase, plan: Plan) -> Result<(), Failure> {
        let seed = seed_of(plan.seed, phase.op, phase.samples);
        phase.add(self.timed(Plan { seed, ..plan })?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock was in it, so that no run of `gc` could be repeated.
    #[test]
    fn a_seed_gives_the_same_choices_again_and_no_two_phases_or_samples_the_same() {
        let plans = [("begin-alone", 0), ("start-gc-0", 0), ("start-gc-0.1", 0), ("begin-while-sweeping", 1)];
        let seeds = |seed| plans.map(|(op, piece)| seed_of(seed, op, piece));
        assert_eq!(seeds(7), seeds(7));
        let mut all = [seeds(7), seeds(8)].concat();
        all.push(seed_of(7, "begin-while-sweeping", 0));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 9);
    }
}
