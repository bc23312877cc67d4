//! The suite must reject each deliberately broken store, and accept the same store without its fault.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sessile_testkit::broken::Fault;
use sessile_testkit::case::Case;
use sessile_testkit::cases;
use sessile_testkit::suite::{Plan, Subject, Verdict, run};

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
];

fn plan(cases: Vec<Case>) -> Plan {
    let worker = env!("CARGO_BIN_EXE_sessile-testkit-worker").into();
    Plan { worker, cases, side_by_side: 2, progress: |_, _, _| {} }
}

fn failed(plan: &Plan, verdicts: &[Verdict]) -> Vec<&'static str> {
    let failed = plan.cases.iter().zip(verdicts).filter(|(_, verdict)| matches!(verdict, Verdict::Failed(_)));
    failed.map(|(case, _)| case.name).collect()
}

#[test]
fn every_broken_store_is_rejected_for_its_fault() {
    let mut surprises = Vec::new();
    for (fault, sentence) in CAUGHT_BY {
        let Some(subject) = Subject::broken(*fault) else { continue };
        let case = cases::all().into_iter().find(|case| case.name == *sentence);
        let plan = plan(vec![case.unwrap_or_else(|| panic!("no case says {sentence:?}"))]);
        let [column] = run(&plan, &[subject]).try_into().unwrap();
        match column.verdicts.as_slice() {
            [Verdict::Failed(why)] => println!("{:<24} caught by {sentence:?}: {why}", fault.name()),
            other => surprises.push(format!("{} is not caught by {sentence:?}: {other:?}", fault.name())),
        }
    }
    assert!(surprises.is_empty(), "{surprises:#?}");
}

#[test]
fn a_fault_of_nothing_passes_every_case() {
    let plan = plan(cases::all());
    let columns = run(&plan, &[Subject::broken(Fault::None).unwrap()]);
    let reasons: Vec<_> = columns[0].verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Failed(_))).collect();
    assert!(reasons.is_empty(), "the decorator itself fails {:?}: {reasons:#?}", failed(&plan, &columns[0].verdicts));
}
