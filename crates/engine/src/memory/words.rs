//! The words of an entry as bit fields: lock, state, overrides; and locations.
//!
//! Invariant: each is published by one atomic store or compare-and-swap, so no reader sees half of
//! one.

use sessile_core::Timestamp;

use super::layout::{SEGMENT_BYTES, UNIT_BYTES, UNITS_OF_SEGMENT};

/// A place in the data file, in units of 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Location(pub u64);

impl Location {
    pub fn new(segment: u64, offset_bytes: u64) -> Location {
        Location(segment * UNITS_OF_SEGMENT + offset_bytes / UNIT_BYTES)
    }

    pub fn segment(self) -> u64 {
        self.0 / UNITS_OF_SEGMENT
    }

    /// In bytes, from the start of its segment.
    pub fn within(self) -> u64 {
        self.0 % UNITS_OF_SEGMENT * UNIT_BYTES
    }

    pub fn offset(self) -> u64 {
        self.0 * UNIT_BYTES
    }

    /// In bytes, to the end of the segment.
    pub fn room(self) -> u64 {
        SEGMENT_BYTES - self.within()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// Stands for nothing; it may be taken.
    Free,
    /// A key without a record: its lock is held or wanted.
    Empty,
    Live,
    /// A destroyed session; the location field has the second at which it may be forgotten.
    Destroyed,
    /// A regenerated id; the record says where it leads.
    Regenerated,
    /// The index does not lead to it, or soon will not; no process may use it.
    Leaving,
    /// On a disk: a rebuild has found that its latest record is damaged.
    Damaged,
}

/// The state of an entry: kind (3 bits), version (25 bits), whether a log-out has begun (1 bit),
/// location (35 bits).
///
/// The version grows with each change except a move by compaction, so a commit that compares the
/// whole word detects each successor of what it has read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EntryState(pub u64);

const KIND_BITS: u32 = 3;
const VERSION_BITS: u32 = 25;
const BEING_DESTROYED: u64 = 1 << (KIND_BITS + VERSION_BITS);
const LOCATION_SHIFT: u32 = KIND_BITS + VERSION_BITS + 1;

impl EntryState {
    pub fn kind(self) -> EntryKind {
        match self.0 & 7 {
            1 => EntryKind::Empty,
            2 => EntryKind::Live,
            3 => EntryKind::Destroyed,
            4 => EntryKind::Regenerated,
            5 => EntryKind::Leaving,
            6 => EntryKind::Damaged,
            _ => EntryKind::Free,
        }
    }

    pub fn version(self) -> u64 {
        (self.0 >> KIND_BITS) & ((1 << VERSION_BITS) - 1)
    }

    /// On a disk: a tombstone of this state may be in the log. The next change is to destroy it.
    pub fn is_being_destroyed(self) -> bool {
        self.0 & BEING_DESTROYED != 0
    }

    pub fn being_destroyed(self) -> EntryState {
        EntryState(self.0 | BEING_DESTROYED)
    }

    pub fn location(self) -> Location {
        Location(self.0 >> LOCATION_SHIFT)
    }

    pub fn has_record(self) -> bool {
        self.is_readable() || self.kind() == EntryKind::Damaged
    }

    pub fn is_readable(self) -> bool {
        matches!(self.kind(), EntryKind::Live | EntryKind::Regenerated)
    }

    pub fn forgotten_at(self) -> Timestamp {
        Timestamp::from_ms(self.location().0.saturating_mul(1_000))
    }

    pub fn next(self, kind: EntryKind, location: Location) -> EntryState {
        let version = (self.version() + 1) & ((1 << VERSION_BITS) - 1);
        EntryState(kind as u64 | version << KIND_BITS | location.0 << LOCATION_SHIFT)
    }

    pub fn next_bare(self, kind: EntryKind) -> EntryState {
        self.next(kind, Location(0))
    }

    pub fn moved(self, location: Location) -> EntryState {
        EntryState(self.0 & ((1 << LOCATION_SHIFT) - 1) | location.0 << LOCATION_SHIFT)
    }

    /// All but the location is equal: only a move can lie between the two.
    pub fn is_moved_from(self, earlier: EntryState) -> bool {
        self.moved(earlier.location()) == earlier
    }

    /// The moment is rounded up to a second.
    pub fn tombstone(self, until: Timestamp) -> EntryState {
        self.next(EntryKind::Destroyed, Location(until.as_ms().div_ceil(1_000)))
    }
}

/// A moment that overrides what a record says, as long as the entry has the version it was set for:
/// the expiry after a touch, or another absolute end. 42 bits of milliseconds, the low 22 bits of
/// the version.
#[derive(Clone, Copy)]
pub struct Override(pub u64);

const OVERRIDE_VERSION_BITS: u32 = 22;
/// The moment that closes a record to touches: it is expired and about to be removed.
const CLOSED_MS: u64 = 1;

impl Override {
    pub fn new(moment: Timestamp, state: EntryState) -> Override {
        let ms = moment.as_ms().clamp(CLOSED_MS, (1 << (64 - OVERRIDE_VERSION_BITS)) - 1);
        Override(ms << OVERRIDE_VERSION_BITS | state.version() & ((1 << OVERRIDE_VERSION_BITS) - 1))
    }

    /// The override after which no touch can succeed.
    pub fn closed(state: EntryState) -> Override {
        Override::new(Timestamp::from_ms(CLOSED_MS), state)
    }

    /// The moment, if it is meant for this state.
    pub fn applies_to(self, state: EntryState) -> Option<Timestamp> {
        let same = (self.0 ^ state.version()) & ((1 << OVERRIDE_VERSION_BITS) - 1) == 0;
        (self.0 != 0 && same).then(|| Timestamp::from_ms(self.0 >> OVERRIDE_VERSION_BITS))
    }
}

pub type Owner = (u64, u64);

/// A lock word. Low half, on which waiters sleep: waiting (1 bit), starving (1), nonce (22),
/// generation (8 low bits). High half: generation (16 high bits), process slot + 1 (16; 0: free).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LockWord(pub u64);

impl LockWord {
    /// A waiter sleeps, or may.
    pub const WAITING: u64 = 1;
    /// A waiter has slept for long: newcomers queue up.
    pub const STARVING: u64 = 2;
    const NONCE_BITS: u32 = 22;
    const GENERATION_SHIFT: u32 = 24;
    pub const GENERATION_BITS: u32 = 24;

    pub fn owned((process, generation): Owner, nonce: u64) -> LockWord {
        let nonce = nonce & ((1 << LockWord::NONCE_BITS) - 1);
        let generation = generation & ((1 << LockWord::GENERATION_BITS) - 1);
        LockWord((process + 1) << 48 | generation << LockWord::GENERATION_SHIFT | nonce << 2)
    }

    pub fn owner(self) -> Option<Owner> {
        let generation =
            self.0 >> LockWord::GENERATION_SHIFT & ((1 << LockWord::GENERATION_BITS) - 1);
        (self.0 >> 48).checked_sub(1).map(|process| (process, generation))
    }

    pub fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    pub fn bare(self) -> LockWord {
        LockWord(self.0 & !(LockWord::WAITING | LockWord::STARVING))
    }
}
