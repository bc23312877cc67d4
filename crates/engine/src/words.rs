//! What the single words mean: lock, state and override of an entry, as bit fields.
//!
//! Invariant: each of these is published by one atomic store or compare-and-swap, so no reader sees half of one.

use sessile_core::Timestamp;

use crate::layout::{SEGMENT_BYTES, UNIT_BYTES, UNITS_OF_SEGMENT};

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

    /// Bytes from the start of its segment.
    pub fn within(self) -> u64 {
        self.0 % UNITS_OF_SEGMENT * UNIT_BYTES
    }

    /// Bytes from the start of the file.
    pub fn offset(self) -> u64 {
        self.0 * UNIT_BYTES
    }

    /// Bytes from here to the end of the segment.
    pub fn room(self) -> u64 {
        SEGMENT_BYTES - self.within()
    }
}

/// What an entry stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nothing; it may be taken.
    Free,
    /// A key without a record: someone holds or wants its lock.
    Empty,
    /// A record.
    Live,
    /// A destroyed session; instead of a location it has the second at which it may be forgotten.
    Destroyed,
    /// A regenerated id; the record says where it leads.
    Regenerated,
    /// Being taken out of the index; nobody may use it any more.
    Leaving,
}

/// The state of an entry: kind (3 bits), version (26 bits), location (35 bits).
///
/// The version grows with each change except a move by compaction, so a commit that compares the whole word cannot
/// mistake a successor for what it has read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State(pub u64);

const KIND_BITS: u32 = 3;
const VERSION_BITS: u32 = 26;
const LOCATION_SHIFT: u32 = KIND_BITS + VERSION_BITS;

impl State {
    pub fn kind(self) -> Kind {
        match self.0 & 7 {
            1 => Kind::Empty,
            2 => Kind::Live,
            3 => Kind::Destroyed,
            4 => Kind::Regenerated,
            5 => Kind::Leaving,
            _ => Kind::Free,
        }
    }

    pub fn version(self) -> u64 {
        (self.0 >> KIND_BITS) & ((1 << VERSION_BITS) - 1)
    }

    pub fn location(self) -> Location {
        Location(self.0 >> LOCATION_SHIFT)
    }

    /// Whether its location is one of a record.
    pub fn has_record(self) -> bool {
        matches!(self.kind(), Kind::Live | Kind::Regenerated)
    }

    /// The end of a tombstone.
    pub fn forgotten_at(self) -> Timestamp {
        Timestamp::from_ms(self.location().0.saturating_mul(1_000))
    }

    /// The next state.
    pub fn next(self, kind: Kind, location: Location) -> State {
        let version = (self.version() + 1) & ((1 << VERSION_BITS) - 1);
        State(kind as u64 | version << KIND_BITS | location.0 << LOCATION_SHIFT)
    }

    /// The same record elsewhere.
    pub fn moved(self, location: Location) -> State {
        State(self.0 & ((1 << LOCATION_SHIFT) - 1) | location.0 << LOCATION_SHIFT)
    }

    /// A tombstone, kept until then (rounded up to a second).
    pub fn tombstone(self, until: Timestamp) -> State {
        self.next(Kind::Destroyed, Location(until.as_ms().div_ceil(1_000)))
    }
}

/// A moment that overrides what a record says, as long as the entry still has the version it was set for: expiry
/// after a touch, or another absolute end. 42 bits of milliseconds, the low 22 bits of the version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Override(pub u64);

const OVERRIDE_VERSION_BITS: u32 = 22;
/// The moment that closes a record to touches: it is expired and about to be removed.
const CLOSED_MS: u64 = 1;

impl Override {
    pub const NONE: Override = Override(0);

    pub fn new(moment: Timestamp, state: State) -> Override {
        let ms = moment.as_ms().clamp(CLOSED_MS, (1 << (64 - OVERRIDE_VERSION_BITS)) - 1);
        Override(ms << OVERRIDE_VERSION_BITS | state.version() & ((1 << OVERRIDE_VERSION_BITS) - 1))
    }

    /// No touch can succeed any more.
    pub fn closed(state: State) -> Override {
        Override::new(Timestamp::from_ms(CLOSED_MS), state)
    }

    /// The moment, if it is meant for this state.
    pub fn applies_to(self, state: State) -> Option<Timestamp> {
        let same = (self.0 ^ state.version()) & ((1 << OVERRIDE_VERSION_BITS) - 1) == 0;
        (self != Override::NONE && same).then(|| Timestamp::from_ms(self.0 >> OVERRIDE_VERSION_BITS))
    }
}

/// A lock word. Low half, on which waiters sleep: waiting (1 bit), starving (1), nonce (22), generation (8 low
/// bits). High half: generation (16 high bits), process slot + 1 (16; 0 is nobody).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock(pub u64);

impl Lock {
    /// Someone sleeps, or may.
    pub const WAITING: u64 = 1;
    /// Someone has waited long: newcomers queue up.
    pub const STARVING: u64 = 2;
    const NONCE_BITS: u32 = 22;
    const GENERATION_SHIFT: u32 = 24;
    pub const GENERATION_BITS: u32 = 24;

    pub fn owned(process: u64, generation: u64, nonce: u64) -> Lock {
        let nonce = nonce & ((1 << Lock::NONCE_BITS) - 1);
        let generation = generation & ((1 << Lock::GENERATION_BITS) - 1);
        Lock((process + 1) << 48 | generation << Lock::GENERATION_SHIFT | nonce << 2)
    }

    /// Slot and generation of the owner.
    pub fn owner(self) -> Option<(u64, u64)> {
        let generation = self.0 >> Lock::GENERATION_SHIFT & ((1 << Lock::GENERATION_BITS) - 1);
        (self.0 >> 48).checked_sub(1).map(|process| (process, generation))
    }

    pub fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    /// Without the bits of the waiters.
    pub fn bare(self) -> Lock {
        Lock(self.0 & !(Lock::WAITING | Lock::STARVING))
    }
}
