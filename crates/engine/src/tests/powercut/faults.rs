//! Each call of the disk fails once: every write, whole or half, every sync, every allocation, also
//! of shared memory, of one history that has all operations.
//!
//! Invariant: the error is told to the one whose call it was, the store goes on, and what was
//! acknowledged before and after it survives a power cut.

use std::time::Duration;

use super::cut::{Image, examine};
use super::history::{History, START};
use super::plan::Plan;
use crate::SyncMode;
use crate::memory::REFUSED;
use crate::tests::disk::{DiskCall, PlannedFault};

/// Of the history; with it each operation is there.
const SEED: u64 = 3;
/// One call is made again for each open file description, which is told of a failed sync, and a
/// record that was written again before the sync.
const REFUSALS_MAX: u64 = 4;

fn plan(tier: SyncMode, fault: PlannedFault) -> Plan {
    Plan {
        seed: SEED,
        tier,
        processes: 1,
        sessions: 6,
        payload_bytes_max: 9_000,
        chunked: 12,
        size_bytes_max: 0,
        room: None,
        faults: 0,
        tells_once: true,
        fault,
        background_calls: Some(2),
        nested: 0,
        cut_every: 100,
        images: 1,
        recoveries: 1,
        steps: 40,
        lives: 1,
        short: 10,
        destroys: 10,
        long_waits: 10,
        ..Plan::drawn(SEED)
    }
}

/// Runs the history. False when it has no such call.
fn runs_with(tier: SyncMode, call: DiskCall, number: u64) -> bool {
    let plan = plan(tier, Some((call, number)));
    let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let mut random = fastrand::Rng::with_seed(SEED);
    Image::of_nothing().make_store(folder.path(), &plan, &mut random);
    let history = History::begin(&plan, folder.path(), None, START);
    let wrong = |what: String| panic!("{call:?} {number} fails, {tier:?}: {what}");
    history.run().unwrap_or_else(wrong);
    let refusals = history.refusals.get();
    if refusals > REFUSALS_MAX {
        wrong(format!("{refusals} calls are refused"));
    }
    examine(&history, &Image::drawn(&history)).unwrap_or_else(|what| panic!("{what}"));
    let was_met = history.was_met();
    REFUSED.set(None);
    was_met
}

fn each(call: DiskCall) {
    for tier in [SyncMode::EachChange, SyncMode::Interval(Duration::from_secs(1))] {
        let calls = (0..).take_while(|number| runs_with(tier, call, *number)).count();
        println!("{call:?}: each of {calls} calls has failed, {tier:?}");
        assert!(calls >= 3, "{call:?}: {calls} calls, {tier:?}");
    }
}

#[test]
fn a_store_goes_on_after_any_write_that_fails() {
    each(DiskCall::Write);
}

#[test]
fn a_store_goes_on_after_any_write_that_is_cut_short() {
    each(DiskCall::ShortWrite);
}

#[test]
fn a_store_goes_on_after_any_sync_that_fails() {
    each(DiskCall::Sync);
}

#[test]
fn a_store_goes_on_after_any_allocation_that_finds_no_room() {
    each(DiskCall::Allocation);
}

#[test]
fn a_store_goes_on_after_any_allocation_of_shared_memory_that_finds_no_room() {
    each(DiskCall::Memory);
}
