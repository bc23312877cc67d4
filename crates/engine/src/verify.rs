//! `verify`: every invariant of docs/engine.md that can be seen from outside, checked without changing anything.
//!
//! Others go on working, so a first look sees half-done changes everywhere. What looks wrong is noted with the words
//! that make it so, stamps and states, which never repeat; only what looks wrong in the same way three times, with
//! pauses, is a problem. Slots that a lane names are spoken for: its owner frees them, or recovery does.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use sessile_core::{Result, Verified};

use crate::class::slots;
use crate::engine::Engine;
use crate::index;
use crate::lane::{Claim, intents};
use crate::layout::PROCESSES_MAX;
use crate::plane::Plane;
use crate::record::{Header, Look, WHOLE, chunks, look, settle};
use crate::segment::{Use, is_claim, is_note, location, state};
use crate::staging;
use crate::sync::Ordering;
use crate::words::{Kind, Location, Lock};

const LOOKS: usize = 3;
const PAUSE: Duration = Duration::from_millis(20);
const PROGRESS_EVERY: u64 = 65_536;

/// Something that looks wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Suspect {
    /// The state of an entry is none of the known ones, or leads outside of the data.
    State { entry: u64, state: u64 },
    /// The record that an entry leads to is not one of it.
    Record { entry: u64, state: u64 },
    /// The index does not lead to an entry that is in use.
    Unreachable { entry: u64, state: u64 },
    /// An entry in use is not marked so and may be searched for in vain by the hand.
    Unmarked { entry: u64, state: u64 },
    /// An entry expires long before its due time.
    Late { entry: u64, state: u64 },
    /// Two records claim one slot.
    Shared { location: u64, stamp: u64 },
    /// Nothing leads to a slot that is claimed.
    Leaked { location: u64, stamp: u64 },
    /// A segment names a stage that is not its own.
    Stage { segment: u64 },
    /// A cell of the index leads to an entry that is free or belongs elsewhere.
    Cell { bucket: u64, cell: u64 },
}

impl Suspect {
    fn problem(self, plane: &Plane) -> String {
        match self {
            Suspect::State { entry, state } => format!("entry {entry}: state {state:#x} cannot be"),
            Suspect::Record { entry, .. } => format!("entry {entry}: its record is not what the entry says"),
            Suspect::Unreachable { entry, .. } => format!("entry {entry}: in use, but the index does not lead to it"),
            Suspect::Unmarked { entry, .. } => format!("entry {entry}: in use, but not marked as used"),
            Suspect::Late { entry, .. } => format!("entry {entry}: its due time is after its expiry"),
            Suspect::Shared { location, .. } => format!("slot {location:#x}: two records claim it"),
            Suspect::Leaked { location, stamp } => {
                let header = Header::read(plane, Location(location));
                let about = header.map_or(String::new(), |header| {
                    let state =
                        if header.entry < plane.entry_count() { plane.entry(header.entry).state().0 } else { 0 };
                    format!(
                        " ({} of {} bytes, stamp {:#x} inside, for entry {}, whose state is {state:#x})",
                        if header.is_movable() { "a record" } else { "chunks" },
                        header.payload_bytes,
                        header.stamp,
                        header.entry
                    )
                });
                format!("slot {location:#x}, stamp {stamp:#x}: claimed, but nothing leads to it{about}")
            }
            Suspect::Stage { segment } => format!("segment {segment}: names a stage that is not its own"),
            Suspect::Cell { bucket, .. } => format!("bucket {bucket}: a cell leads to an entry that does not belong"),
        }
    }
}

struct Pass {
    suspects: HashSet<Suspect>,
    checked: u64,
}

impl Engine {
    pub(crate) fn check_all(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
        let mut pass = check(&self.plane, progress)?;
        for _ in 1..LOOKS {
            if pass.suspects.is_empty() {
                break;
            }
            std::thread::sleep(PAUSE);
            let again = check(&self.plane, progress)?;
            pass.suspects.retain(|suspect| again.suspects.contains(suspect));
        }
        let mut verified = Verified { checked: pass.checked, ..Verified::default() };
        let mut problems: Vec<String> = pass.suspects.into_iter().map(|suspect| suspect.problem(&self.plane)).collect();
        problems.sort_unstable();
        problems.into_iter().for_each(|problem| verified.note(problem));
        Ok(verified)
    }
}

fn check(plane: &Plane, progress: &mut dyn FnMut(u64)) -> Result<Pass> {
    let mut pass = Pass { suspects: HashSet::new(), checked: 0 };
    // Slots that are led to, with their stamps: first from the lanes, which name what is on its way.
    let spoken_for: HashSet<u64> = spoken_for(plane);
    let mut led_to: HashMap<u64, u64> = HashMap::new();
    for number in 0..plane.entry_count() {
        check_entry(plane, number, &mut pass, &mut led_to)?;
        if number % PROGRESS_EVERY == 0 {
            progress(pass.checked);
        }
    }
    let spoken_for_after = self::spoken_for(plane);
    check_slots(plane, &mut pass, &led_to, |stamp| spoken_for.contains(&stamp) || spoken_for_after.contains(&stamp));
    index::check(plane, |bucket, cell| {
        pass.suspects.insert(Suspect::Cell { bucket, cell });
    });
    progress(pass.checked);
    Ok(pass)
}

fn spoken_for(plane: &Plane) -> HashSet<u64> {
    let intents = (0..PROCESSES_MAX).flat_map(|slot| intents(plane, slot));
    intents.flat_map(|intent| [intent.new, intent.old, intent.chunk]).flatten().map(|claim| claim.stamp).collect()
}

fn check_entry(plane: &Plane, number: u64, pass: &mut Pass, led_to: &mut HashMap<u64, u64>) -> Result<()> {
    let entry = plane.entry(number);
    let state = entry.state();
    if state.kind() == Kind::Free {
        if state.0 & 7 > 5 {
            pass.suspects.insert(Suspect::State { entry: number, state: state.0 });
        }
        return Ok(());
    }
    pass.checked += 1;
    let digest = entry.digest();
    let (word, bit) = plane.used_bit(number);
    if word.load(Ordering::Relaxed) & bit == 0 {
        pass.suspects.insert(Suspect::Unmarked { entry: number, state: state.0 });
    }
    // An empty entry whose owner died may not have come into the index; the hand removes it.
    let half_taken = matches!(state.kind(), Kind::Empty | Kind::Leaving);
    if !half_taken && index::find(plane, digest) != Some(number) {
        pass.suspects.insert(Suspect::Unreachable { entry: number, state: state.0 });
    }
    if !state.has_record() {
        return Ok(());
    }
    match look(plane, &entry, digest, WHOLE, 1_000) {
        Ok(Look::Record(snapshot)) => {
            let locked = Lock(entry.lock().load(Ordering::Relaxed)).owner().is_some();
            // On a disk the due time may be that of something older that has not expired there.
            if !locked && plane.log.is_none() && plane.due(number).load(Ordering::Relaxed) > snapshot.expires.as_ms() {
                pass.suspects.insert(Suspect::Late { entry: number, state: state.0 });
            }
            let head = Claim { location: snapshot.state.location(), stamp: snapshot.header.stamp };
            for claim in std::iter::once(head).chain(chunks(plane, head.location, &snapshot.header)) {
                if led_to.insert(claim.location.0, claim.stamp) == Some(claim.stamp) {
                    pass.suspects.insert(Suspect::Shared { location: claim.location.0, stamp: claim.stamp });
                }
            }
        }
        Ok(_) => {}
        Err(_) => {
            // What the entry leads to is not lost besides.
            let claim = settle(plane, &entry, state).and_then(|(_, claim)| claim);
            claim.map(|claim| led_to.insert(claim.location.0, claim.stamp));
            pass.suspects.insert(Suspect::Record { entry: number, state: state.0 });
        }
    }
    Ok(())
}

fn check_slots(plane: &Plane, pass: &mut Pass, led_to: &HashMap<u64, u64>, spoken_for: impl Fn(u64) -> bool) {
    for segment in 0..plane.segment_count() {
        let state = state(plane, segment);
        if !staging::belongs(plane, segment) {
            pass.suspects.insert(Suspect::Stage { segment });
        }
        if matches!(state.usage(), Use::Unbacked | Use::Emptied) {
            continue;
        }
        for slot in 0..slots(state.class()) {
            let stamp = plane.stamp(segment, slot).load(Ordering::SeqCst);
            if !is_claim(stamp) || is_note(stamp) {
                continue;
            }
            let location = location(segment, state.class(), slot);
            let claimed = led_to.get(&location.0) == Some(&stamp) || spoken_for(stamp);
            if !claimed {
                pass.suspects.insert(Suspect::Leaked { location: location.0, stamp });
            }
        }
    }
}
