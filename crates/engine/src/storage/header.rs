//! The header of a record, in the first line of its slot.
//!
//! ```text
//! word  0      1        2        3        4     5        6                          7      8 ...
//!       stamp  created  written  expires  ends  version  bytes 40 | bin 8 | form 8  entry  *
//!              o        o        o              o                                   o
//!
//! * payload or list of chunks
//! o the owner: 16 bits of its first 64 above each of four words of 48 bits, its last 32 above the
//!   number of the entry. All zero: none, as in the records of versions without owners.
//! ```

use sessile_core::{Head, Owner, Timestamp};

use crate::memory::*;

const OWNER_SHIFT: u32 = 48;
const BELOW_OWNER: u64 = (1 << OWNER_SHIFT) - 1;
const ENTRY_BITS: u32 = 32;
const BELOW_OWNER_END: u64 = (1 << ENTRY_BITS) - 1;

/// Where the word with the form begins.
pub const FORM_AT: u64 = 48;
pub const PLAIN: u64 = 0;
pub const CHUNKED: u64 = 1;
/// The form of a chunk itself: only the list of its record leads to it.
pub const CHUNK: u64 = 2;

#[derive(Clone, Copy)]
pub struct RecordHeader {
    pub stamp: u64,
    pub head: Head,
    pub payload_bytes: u64,
    pub bin: u64,
    pub entry: u64,
    pub form: u64,
}

impl RecordHeader {
    pub fn new(entry: u64, bin: u64, head: Head) -> RecordHeader {
        RecordHeader { stamp: 0, head, payload_bytes: 0, bin, entry, form: PLAIN }
    }

    #[inline]
    pub fn from_words(words: [u64; LINE_WORDS]) -> RecordHeader {
        let [stamp, created, written, expires, ends, version, packed, entry] = words;
        let header = RecordHeader {
            stamp,
            head: Head {
                version,
                created: Timestamp::from_ms(created),
                written: Timestamp::from_ms(written),
                expires: Timestamp::from_ms(expires),
                ends: Timestamp::before_last(ends),
                owner: None,
            },
            payload_bytes: packed & 0xff_ffff_ffff,
            bin: packed >> 40 & 0xff,
            entry,
            form: RecordHeader::form_of(packed),
        };
        // Whole without an owner, so that a damaged header does not match its checksum.
        if (created | written | expires | version) > BELOW_OWNER { header.owned() } else { header }
    }

    pub fn form_of(packed: u64) -> u64 {
        packed >> 48
    }

    #[inline]
    pub fn to_words(self) -> [u64; LINE_WORDS] {
        let Head { version, created, written, expires, ends, owner } = self.head;
        let [created, written, expires] = [created, written, expires].map(Timestamp::as_ms);
        let ends = ends.map_or(u64::MAX, Timestamp::as_ms);
        let packed = self.payload_bytes | self.bin << 40 | self.form << 48;
        let words = [self.stamp, created, written, expires, ends, version, packed, self.entry];
        owner.map_or(words, |owner| with_owner(words, owner))
    }

    /// Of words that have an owner.
    fn owned(self) -> RecordHeader {
        let Head { version, created, written, expires, .. } = self.head;
        let [created, written, expires] = [created, written, expires].map(Timestamp::as_ms);
        let parts = [created, written, expires, version].map(|word| word >> OWNER_SHIFT);
        let owner = parts.iter().rev().fold(0, |owner, part| owner << 16 | part);
        let moment = |word| Timestamp::from_ms(word & BELOW_OWNER);
        let head = Head {
            version: version & BELOW_OWNER,
            created: moment(created),
            written: moment(written),
            expires: moment(expires),
            owner: Owner::from_parts(owner, (self.entry >> ENTRY_BITS) as u32),
            ..self.head
        };
        RecordHeader { head, entry: self.entry & BELOW_OWNER_END, ..self }
    }

    /// Chunks and their lists stay where they are.
    pub fn is_movable(&self) -> bool {
        self.form == PLAIN
    }

    pub fn stored_bytes(&self) -> u64 {
        if self.form == CHUNKED {
            self.payload_bytes.div_ceil(CHUNK_BYTES) * LISTED_BYTES
        } else {
            self.payload_bytes
        }
    }
}

#[inline(never)]
fn with_owner(words: [u64; LINE_WORDS], owner: Owner) -> [u64; LINE_WORDS] {
    let [stamp, created, written, expires, ends, version, packed, entry] = words;
    let (owner, end) = owner.to_parts();
    let below = |word: u64, part: u32| word & BELOW_OWNER | owner >> (16 * part) << OWNER_SHIFT;
    let [created, written] = [below(created, 0), below(written, 1)];
    let [expires, version] = [below(expires, 2), below(version, 3)];
    let entry = entry | u64::from(end) << ENTRY_BITS;
    [stamp, created, written, expires, ends, version, packed, entry]
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn header(owner: Option<Owner>) -> RecordHeader {
        let [created, written, expires, ends] =
            [1, 2, 3, 4].map(|ms| Timestamp::from_ms(1_800_000_000_000 + ms));
        let head = Head { version: 1 << 40, created, written, expires, ends: Some(ends), owner };
        RecordHeader {
            stamp: 5,
            payload_bytes: 1 << 39,
            ..RecordHeader::new(BLOCKS_MAX << 12, 200, head)
        }
    }

    #[test]
    fn an_owner_lies_beside_the_words_of_a_header_and_changes_none() {
        for owner in [Owner::new(b"17").ok(), Owner::from_parts(u64::MAX, u32::MAX), None] {
            let (written, read) =
                (header(owner), RecordHeader::from_words(header(owner).to_words()));
            assert_eq!(read.head, written.head);
            assert_eq!(read.to_words(), written.to_words());
            assert_eq!((read.entry, read.bin, read.form), (written.entry, written.bin, PLAIN));
        }
    }

    #[test]
    fn a_record_of_a_version_without_owners_has_none() {
        let none = header(None);
        let created = none.head.created.as_ms();
        assert_eq!(none.to_words()[1], created, "as it was written then");
        assert_eq!(none.to_words()[7], none.entry);
    }
}
