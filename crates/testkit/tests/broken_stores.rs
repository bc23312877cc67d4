//! The suite must reject each deliberately broken store, and accept the same store without its fault.
//!
//! Prints which sentence rejected which store, and why.

use std::process::ExitCode;

use sessile_testkit::broken::Fault;
use sessile_testkit::case::Case;
use sessile_testkit::suite::{Plan, Subject, Verdict, run};
use sessile_testkit::{cases, matrix};

/// For each fault the sentence that is about it; other cases may fail too.
const CAUGHT_BY: &[(Fault, &str)] = &[
    (Fault::ResurrectedByCommit, "a late commit after destroy is refused and counted"),
    (Fault::UnlockWithoutOwnerCheck, "an old holder's release does not free its successor's lock"),
    (Fault::TtlIgnored, "a record reads until the last millisecond of its life and not one longer"),
    (Fault::LockNeverTaken, "a held lock excludes a second holder"),
    (Fault::LostWrite, "a commit replaces the payload, longer and shorter"),
    (Fault::TornWrite, "peek sees whole payloads while others commit"),
    (Fault::TouchRecreates, "a touch of a missing, destroyed or expired session says so and makes nothing"),
    (Fault::OversizeTruncates, "a payload at the limit is stored, one byte more is refused"),
    (Fault::ExpiredForOneMs, "a record reads until the last millisecond of its life and not one longer"),
    (Fault::CreateOverwrites, "create refuses an id that is taken and leaves its record alone"),
    (Fault::TimeoutLooksEmpty, "a lock time-out comes in time and names the holder"),
    (Fault::StaleAccepted, "a late commit is refused even when the session was created again"),
    (Fault::OldIdStaysAlive, "the old id leads to the new one until the grace ends"),
    (Fault::ErrorLeaksId, "create refuses an id that is taken and leaves its record alone"),
    (Fault::SweepRemovesLive, "a sweep removes the expired, counts them truly and leaves the living"),
    (Fault::SweepCountsLie, "a sweep removes the expired, counts them truly and leaves the living"),
    (Fault::FenceFromRecord, "the fence does not repeat after destroy and create"),
    (Fault::UnfairLock, "threads in a closed loop are served fairly"),
    (Fault::ListSkips, "a listing shows every living record over its pages"),
    (Fault::UndeclaredListing, "without listing, list and stat are Unsupported"),
    (Fault::DestroyWaits, "destroy does not wait for the lock"),
    (Fault::PeekWaits, "peek does not wait and sees the old payload"),
    (Fault::DroppedLeaseStays, "a release, a commit and a dropped lease free the lock"),
    (Fault::EmptyIsMissing, "an empty payload is a record"),
    (Fault::IdsFoldCase, "ids that differ in case are different sessions"),
    (Fault::BinsMix, "bins do not mix, and other bins take dots and colons"),
    (Fault::BeginLeavesRecord, "begin and release on a missing session leave nothing behind"),
    (Fault::GlobalLock, "nobody waits for another session's lock"),
    (Fault::CutAtNul, "a payload may contain any bytes"),
    (Fault::SweepRemovesLeased, "a sweep leaves leased records alone"),
    (Fault::SpentIdsUntold, "the use of an id whose grace is over is told and counted"),
    (Fault::EndIgnored, "an absolute lifetime caps commits"),
    (Fault::TouchDoesNothing, "a touch moves the expiry and nothing else"),
    (Fault::TouchRewrites, "touches beside commits never bring an old payload back"),
    (Fault::HolderUnnamed, "a lock time-out comes in time and names the holder"),
    (Fault::LockOutlivesHolder, "the lock of a killed holder is free at once"),
    (Fault::LostUpdates, "8 processes make 2,000 increments each and the sum is exact"),
    (Fault::StealsFromLiving, "a stopped holder keeps its lock"),
    (Fault::TornByCrash, "200 writers killed at random moments leave whole payloads"),
];

fn main() -> ExitCode {
    let mut problems = the_unbroken_one();
    let (mut rejected, mut skipped) = (0, 0);
    println!("\nbroken stores, and the sentence that rejects each");
    for fault in Fault::ALL.iter().filter(|fault| **fault != Fault::None) {
        match verdict(*fault) {
            Ok(Some((sentence, why))) => {
                rejected += 1;
                let why: String = why.chars().take(160).collect();
                println!("  {}: {}", fault.name(), fault.sentence());
                println!("      rejected by {sentence:?}: {why}");
            }
            Ok(None) => {
                skipped += 1;
                println!("  {}: skipped: this build has no store {}", fault.name(), fault.base());
            }
            Err(problem) => problems.push(problem),
        }
    }
    problems.iter().for_each(|problem| println!("FAILED {problem}"));
    println!("{rejected} broken stores rejected, {} failed, {skipped} skipped", problems.len());
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn plan(cases: Vec<Case>) -> Plan {
    let worker = env!("CARGO_BIN_EXE_sessile-testkit-worker").into();
    Plan { worker, cases, side_by_side: 1, progress: |_, _, _| {} }
}

/// The sentence that rejects a fault and its reason; `None` without the good store behind it.
fn verdict(fault: Fault) -> Result<Option<(&'static str, String)>, String> {
    let sentence = CAUGHT_BY.iter().find(|(caught, _)| *caught == fault).map(|(_, sentence)| *sentence);
    let sentence = sentence.ok_or_else(|| format!("{}: no sentence is named that catches it", fault.name()))?;
    let case = cases::all().into_iter().find(|case| case.name == sentence);
    let case = case.ok_or_else(|| format!("{}: no case says {sentence:?}", fault.name()))?;
    let Some(subject) = Subject::broken(fault) else { return Ok(None) };
    let verdict = run(&plan(vec![case]), &[subject]).pop().and_then(|mut column| column.verdicts.pop());
    match verdict {
        Some(Verdict::Failed(why)) => Ok(Some((sentence, why))),
        other => Err(format!("{} is not rejected by {sentence:?}: {other:?}", fault.name())),
    }
}

/// The decorator without a fault passes every case, so a rejection is due to the fault.
fn the_unbroken_one() -> Vec<String> {
    let Some(subject) = Subject::broken(Fault::None) else { return vec!["no memory store".into()] };
    let plan = plan(cases::all());
    matrix::failures(&plan.cases, &run(&plan, &[subject]))
}
