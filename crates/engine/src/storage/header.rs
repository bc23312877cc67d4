//! The header of a record, in the first line of its slot.
//!
//! ```text
//! word  0      1        2        3        4     5        6                          7      8 ...
//!       stamp  created  written  expires  ends  version  bytes 40 | bin 8 | form 8  entry  *
//!
//! * payload or list of chunks
//! ```

use sessile_core::{Head, Timestamp};

use crate::memory::*;

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

    pub fn from_words(words: [u64; LINE_WORDS]) -> RecordHeader {
        let [stamp, created, written, expires, ends, version, packed, entry] = words;
        let head = Head {
            version,
            created: Timestamp::from_ms(created),
            written: Timestamp::from_ms(written),
            expires: Timestamp::from_ms(expires),
            ends: (ends != u64::MAX).then_some(Timestamp::from_ms(ends)),
        };
        RecordHeader {
            stamp,
            head,
            payload_bytes: packed & 0xff_ffff_ffff,
            bin: packed >> 40 & 0xff,
            entry,
            form: packed >> 48,
        }
    }

    pub fn to_words(self) -> [u64; LINE_WORDS] {
        let Head { version, created, written, expires, ends } = self.head;
        let [created, written, expires] = [created, written, expires].map(Timestamp::as_ms);
        let ends = ends.map_or(u64::MAX, Timestamp::as_ms);
        let packed = self.payload_bytes | self.bin << 40 | self.form << 48;
        [self.stamp, created, written, expires, ends, version, packed, self.entry]
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
