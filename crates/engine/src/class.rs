//! Size classes: which slot a record of some size goes into.
//!
//! 64 bytes apart up to 2 KiB, then eight for each doubling up to 64 KiB: at most an eighth of a slot is unused, and
//! for the usual session of one or two kilobytes at most 64 bytes.

use crate::layout::{GRANULE_BYTES, SEGMENT_BYTES};

const FINE_BYTES: u64 = 64;
const SMALLEST: u64 = 128;
const FINE_LAST: u64 = 2_048;
const STEPS: u64 = 8;
/// The largest slot; four fit into a segment.
pub const LARGEST: u64 = 64 << 10;
/// Number of classes.
pub const CLASSES: u64 = (FINE_LAST - SMALLEST) / FINE_BYTES + 1 + 5 * STEPS;
/// Segments of a log on a disk: their slots are granules, of which a record takes several.
pub const LOG: u64 = CLASSES;
/// The same, for what does not move: chunks, and the records that list them.
pub const LOG_CHUNKS: u64 = CLASSES + 1;
/// Number of classes of both kinds.
pub const CLASSES_ALL: u64 = CLASSES + 2;

/// Whether segments of this class are appended to.
pub fn is_log(class: u64) -> bool {
    class >= LOG
}

/// The smallest class whose slots have room for so many bytes; `None` above the largest.
pub fn class_of(bytes: u64) -> Option<u64> {
    let fine_last = (FINE_LAST - SMALLEST) / FINE_BYTES;
    if bytes <= FINE_LAST {
        return Some(bytes.max(SMALLEST).div_ceil(FINE_BYTES) - SMALLEST / FINE_BYTES);
    }
    if bytes > LARGEST {
        return None;
    }
    let doubling = u64::from((bytes - 1).ilog2()) - u64::from(FINE_LAST.ilog2());
    let start = FINE_LAST << doubling;
    Some(fine_last + doubling * STEPS + (bytes - start).div_ceil(start / STEPS))
}

/// Bytes of a slot of this class.
pub fn slot_bytes(class: u64) -> u64 {
    if is_log(class) {
        return GRANULE_BYTES;
    }
    let fine_last = (FINE_LAST - SMALLEST) / FINE_BYTES;
    match class.checked_sub(fine_last + 1) {
        None => SMALLEST + class * FINE_BYTES,
        Some(coarse) => {
            let start = FINE_LAST << (coarse / STEPS).min(4);
            start + (coarse % STEPS + 1) * (start / STEPS)
        }
    }
}

/// Slots of a segment of this class.
pub fn slots(class: u64) -> u64 {
    SEGMENT_BYTES / slot_bytes(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_fits_its_class_and_not_the_one_below() {
        for bytes in 0..=LARGEST {
            let class = class_of(bytes).unwrap();
            assert!(class < CLASSES, "{bytes}");
            assert!(slot_bytes(class) >= bytes, "{bytes} in {class}");
            assert!(class == 0 || slot_bytes(class - 1) < bytes, "{bytes} fits below {class}");
            assert_eq!(slot_bytes(class) % FINE_BYTES, 0);
        }
        assert_eq!(class_of(LARGEST + 1), None);
    }
}
