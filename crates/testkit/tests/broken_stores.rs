//! The suite must reject each deliberately broken store, and accept the same store without its
//! fault.
//!
//! Prints which sentence rejected which store, and why.

use std::process::ExitCode;

use sessile_testkit::Case;
use sessile_testkit::StoreFault;
use sessile_testkit::suite::{CaseVerdict, StoreUnderTest, SuiteOptions, run};
use sessile_testkit::{cases, matrix};

/// For each fault the sentence that is about it; other cases may fail too.
const CAUGHT_BY: &[(StoreFault, &str)] = &[
    (StoreFault::ResurrectedByCommit, "a late commit after destroy is refused and counted"),
    (
        StoreFault::UnlockWithoutOwnerCheck,
        "an old holder's release does not free its successor's lock",
    ),
    (
        StoreFault::TtlIgnored,
        "a record reads until the last millisecond of its life and not one longer",
    ),
    (StoreFault::LockNeverTaken, "a held lock excludes a second holder"),
    (StoreFault::LostWrite, "a commit replaces the payload, longer and shorter"),
    (StoreFault::TornWrite, "peek sees whole payloads while others commit"),
    (
        StoreFault::TouchRecreates,
        "a touch of a missing, destroyed or expired session says so and makes nothing",
    ),
    (StoreFault::OversizeTruncates, "a payload at the limit is stored, one byte more is refused"),
    (
        StoreFault::ExpiredForOneMs,
        "a record reads until the last millisecond of its life and not one longer",
    ),
    (
        StoreFault::CreateOverwrites,
        "create refuses an id that is taken and leaves its record alone",
    ),
    (StoreFault::TimeoutLooksEmpty, "a lock time-out comes in time and names the holder"),
    (StoreFault::StaleAccepted, "a late commit is refused even when the session was created again"),
    (StoreFault::OldIdStaysAlive, "the old id leads to the new one until the grace ends"),
    (StoreFault::ErrorLeaksId, "create refuses an id that is taken and leaves its record alone"),
    (
        StoreFault::SweepRemovesLive,
        "a sweep removes the expired, counts them truly and leaves the living",
    ),
    (
        StoreFault::SweepCountsLie,
        "a sweep removes the expired, counts them truly and leaves the living",
    ),
    (StoreFault::FenceFromRecord, "the fence does not repeat after destroy and create"),
    (StoreFault::UnfairLock, "threads in a closed loop are served fairly"),
    (StoreFault::ListSkips, "a listing shows every living record over its pages"),
    (
        StoreFault::OwnerForgotten,
        "a session keeps the owner that a commit has set until another one is",
    ),
    (
        StoreFault::OwnerDropped,
        "a session keeps the owner that a commit has set until another one is",
    ),
    (StoreFault::RevokesBlindly, "what belongs to somebody else by then is not ended"),
    (
        StoreFault::OwnerStays,
        "a session keeps the owner that a commit has set until another one is",
    ),
    (StoreFault::OwnersMix, "revoke ends all sessions of an owner and no other"),
    (StoreFault::OwnedSkips, "a revocation misses no session while others log in and change ids"),
    (StoreFault::UndeclaredListing, "without listing, list and stat are Unsupported"),
    (StoreFault::DestroyWaits, "destroy does not wait for the lock"),
    (StoreFault::PeekWaits, "peek does not wait and sees the old payload"),
    (StoreFault::DroppedLeaseStays, "a release, a commit and a dropped lease free the lock"),
    (StoreFault::EmptyIsMissing, "an empty payload is a record"),
    (StoreFault::IdsFoldCase, "ids that differ in case are different sessions"),
    (StoreFault::BinsMix, "bins do not mix, and other bins take dots and colons"),
    (StoreFault::BeginLeavesRecord, "begin and release on a missing session leave nothing behind"),
    (StoreFault::GlobalLock, "nobody waits for another session's lock"),
    (StoreFault::CutAtNul, "a payload may contain any bytes"),
    (StoreFault::SweepRemovesLeased, "a sweep leaves leased records alone"),
    (StoreFault::SpentIdsUntold, "the use of an id whose grace is over is told and counted"),
    (StoreFault::EndIgnored, "an absolute lifetime caps commits"),
    (StoreFault::TouchDoesNothing, "a touch moves the expiry and nothing else"),
    (StoreFault::TouchRewrites, "touches beside commits never bring an old payload back"),
    (StoreFault::HolderUnnamed, "a lock time-out comes in time and names the holder"),
    (StoreFault::LockOutlivesHolder, "the lock of a killed holder is free at once"),
    (StoreFault::LostUpdates, "8 processes make 2,000 increments each and the sum is exact"),
    (StoreFault::StealsFromLiving, "a stopped holder keeps its lock"),
    (StoreFault::TornByCrash, "200 writers killed at random moments leave whole payloads"),
];

fn main() -> ExitCode {
    let mut problems = the_unbroken_one();
    let (mut rejected, mut skipped) = (0, 0);
    println!("\nbroken stores, and the sentence that rejects each");
    for fault in StoreFault::ALL.iter().filter(|fault| **fault != StoreFault::Unbroken) {
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

fn options(cases: Vec<Case>) -> SuiteOptions {
    let worker = env!("CARGO_BIN_EXE_sessile-testkit-worker").into();
    SuiteOptions { worker, cases, side_by_side: 1, progress: |_, _, _| {} }
}

/// The sentence that rejects a fault and its reason; `None` without the good store behind it.
fn verdict(fault: StoreFault) -> Result<Option<(&'static str, String)>, String> {
    let sentence =
        CAUGHT_BY.iter().find(|(caught, _)| *caught == fault).map(|(_, sentence)| *sentence);
    let sentence = sentence
        .ok_or_else(|| format!("{}: no sentence is named that catches it", fault.name()))?;
    let case = cases::all().into_iter().find(|case| case.name == sentence);
    let case = case.ok_or_else(|| format!("{}: no case says {sentence:?}", fault.name()))?;
    let Some(store) = StoreUnderTest::broken(fault) else { return Ok(None) };
    let verdict =
        run(&options(vec![case]), &[store]).pop().and_then(|mut column| column.verdicts.pop());
    match verdict {
        Some(CaseVerdict::Failed(why)) => Ok(Some((sentence, why))),
        other => Err(format!("{} is not rejected by {sentence:?}: {other:?}", fault.name())),
    }
}

/// The decorator without a fault passes every case, so a rejection is due to the fault.
fn the_unbroken_one() -> Vec<String> {
    let Some(store) = StoreUnderTest::broken(StoreFault::Unbroken) else {
        return vec!["no memory store".into()];
    };
    let options = options(cases::all());
    matrix::failures(&options.cases, &run(&options, &[store]))
}
