//! Owner hints: whose session an entry may stand for, so that the sessions of one user are found
//! without a look at each record. DESIGN.md, "Owners".
//!
//! ```text
//! hint  0 | first 63 bits of an owner      the owner of the record when it was published
//!       1 | a lock word                    unsure: its holder changes the owner, or died there
//!       0                                  nobody's
//! ```
//!
//! Invariant: the hint of a record that has an owner is that owner's, or unsure. The hint of any
//! other entry may be anything: a look at the record decides.

use std::ops::Range;

use sessile_core::Owner;

use crate::memory::*;

const UNSURE: u64 = 1 << 63;

fn hint_of(owner: Option<Owner>) -> u64 {
    owner.map_or(0, |owner| (owner.to_parts().0 >> 1).max(1))
}

/// Names one holder of one lock, so that nobody else settles what it has begun.
fn unsure(mine: LockWord) -> u64 {
    UNSURE | mine.bare().0 >> 1
}

fn may_be(hint: u64, wanted: u64) -> bool {
    hint == wanted || hint & UNSURE != 0
}

impl Plane {
    /// The first entry of a range whose record may have this owner.
    pub fn find_owner_hint(&self, owner: Owner, range: Range<u64>) -> Option<u64> {
        let wanted = hint_of(Some(owner));
        let mut number = range.start;
        while number < range.end {
            let (block, at) = (number / ENTRIES_OF_BLOCK, number % ENTRIES_OF_BLOCK);
            let end = (range.end - block * ENTRIES_OF_BLOCK).min(ENTRIES_OF_BLOCK);
            let hints = self.owner_hints(block).get(at as usize..end as usize)?;
            if let Some(ahead) = hints.iter().position(|hint| may_be(hint.load(Relaxed), wanted)) {
                return Some(number + ahead as u64);
            }
            number = (block + 1) * ENTRIES_OF_BLOCK;
        }
        None
    }

    /// While no other process is attached.
    pub fn restore_owner_hint(&self, number: u64, owner: Option<Owner>) {
        self.owner_hint(number).store(hint_of(owner), Relaxed);
    }
}

impl TableEntry<'_> {
    /// Before a record with another owner is published: whoever looks for the owner before or after
    /// looks at the record. A holder that has lost its lock, and comes late, does no harm with it.
    pub fn doubt_owner(self, plane: &Plane, mine: LockWord) {
        if !mutated(Mutation::DoubtsNoOwner) {
            plane.owner_hint(self.number).store(unsure(mine), SeqCst);
        }
    }

    /// After it was published, and before the lock is given up. A later holder's doubt stays.
    pub fn settle_owner(self, plane: &Plane, mine: LockWord, owner: Option<Owner>) {
        let hint = plane.owner_hint(self.number);
        if mutated(Mutation::SettlesOwnerBlindly) {
            hint.store(hint_of(owner), SeqCst);
        } else {
            hint.cas(unsure(mine), hint_of(owner));
        }
    }

    /// The invariant, for `verify`.
    pub fn hints_at_owner(self, plane: &Plane, owner: Option<Owner>) -> bool {
        owner.is_none() || may_be(plane.owner_hint(self.number).load(Relaxed), hint_of(owner))
    }
}
