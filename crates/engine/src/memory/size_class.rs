//! Size classes: the slot sizes of segments.
//!
//! 64 bytes apart up to 2 KiB, then eight for each doubling up to 64 KiB: at most an eighth of a
//! slot is unused, and at most 64 bytes for a usual session of one or two kilobytes.

use super::layout::{BINS, GRANULE_BYTES, SEGMENT_BYTES, SLOT_BYTES_MAX, header};

const FINE_BYTES: u64 = 64;
const SMALLEST: u64 = 128;
const FINE_LAST: u64 = 2_048;
const STEPS: u64 = 8;
/// Classes that are 64 bytes apart.
const FINE: u64 = (FINE_LAST - SMALLEST) / FINE_BYTES + 1;
pub const CLASSES: u64 = FINE + 5 * STEPS;
/// Segments of a log on a disk: their slots are granules, and a record takes several.
pub const LOG: u64 = CLASSES;
/// Segments of the log for records that do not move: chunks, and the records that list them.
pub const LOG_CHUNKS: u64 = CLASSES + 1;
pub const CLASSES_ALL: u64 = CLASSES + 2;

pub fn is_log(class: u64) -> bool {
    class >= LOG
}

/// The smallest class whose slots hold this many bytes; `None` above the largest.
pub fn class_of(bytes: u64) -> Option<u64> {
    if bytes <= FINE_LAST {
        return Some(bytes.max(SMALLEST).div_ceil(FINE_BYTES) - SMALLEST / FINE_BYTES);
    }
    if bytes > SLOT_BYTES_MAX {
        return None;
    }
    let doubling = u64::from((bytes - 1).ilog2()) - u64::from(FINE_LAST.ilog2());
    let start = FINE_LAST << doubling;
    Some(FINE - 1 + doubling * STEPS + (bytes - start).div_ceil(start / STEPS))
}

pub fn slot_bytes(class: u64) -> u64 {
    if is_log(class) {
        return GRANULE_BYTES;
    }
    match class.checked_sub(FINE) {
        None => SMALLEST + class * FINE_BYTES,
        Some(coarse) => {
            let start = FINE_LAST << (coarse / STEPS).min(4);
            start + (coarse % STEPS + 1) * (start / STEPS)
        }
    }
}

pub fn slots(class: u64) -> u64 {
    SEGMENT_BYTES / slot_bytes(class)
}

const _: () = assert!(header::CURSORS + CLASSES_ALL * 8 <= BINS, "the cursors fit");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_fits_its_class_and_not_the_one_below() {
        for bytes in 0..=SLOT_BYTES_MAX {
            let class = class_of(bytes).unwrap();
            assert!(class < CLASSES, "{bytes}");
            assert!(slot_bytes(class) >= bytes, "{bytes} in {class}");
            assert!(class == 0 || slot_bytes(class - 1) < bytes, "{bytes} fits below {class}");
            assert_eq!(slot_bytes(class) % FINE_BYTES, 0);
        }
        assert_eq!(class_of(SLOT_BYTES_MAX + 1), None);
    }
}
