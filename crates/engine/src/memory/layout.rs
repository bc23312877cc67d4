//! Where everything lies: the offsets of DESIGN.md, "Files", as constants.
//!
//! Invariant: a change here is a change of [`FORMAT`].

/// The first word of a finished control file: "SESSILE" and a byte that shows the byte order.
pub const MAGIC: u64 = u64::from_le_bytes(*b"SESSILE\x01");
/// Another version is refused, never converted: the plane is volatile.
pub const FORMAT: u64 = 10;

/// Words of the control file's header, each hot one on a line of its own.
pub mod header {
    pub const MAGIC: u64 = 0;
    pub const FORMAT: u64 = 8;
    pub const UUID: u64 = 16; // two words
    pub const BOOT: u64 = 32; // two words: the boot id of the kernel
    pub const DATA: u64 = 48; // two words: device and inode of the data file
    pub const BYTES_MAX: u64 = 64; // configured size, 0: three quarters of the file system
    pub const ENTRY_BLOCKS: u64 = 128; // blocks of entries that exist
    pub const SEGMENTS: u64 = 192; // segments ever used: numbers below this are valid
    pub const HAND: u64 = 256; // next group of entries to examine for expiry
    pub const COMPACTION: u64 = 320; // next segment to examine
    pub const FENCE_FLOOR: u64 = 384; // no entry taken into use starts below this fence
    pub const BINS_LOCK: u64 = 448; // held while a bin is added
    pub const BEACONS: u64 = 512; // inode of the file of beacons
    // On a disk only.
    pub const DIRTY_SINCE: u64 = 576; // time of the oldest unsynced write; 0: none
    pub const SYNCING_SINCE: u64 = 584; // the oldest write of the sync under way; 0: none
    pub const SYNC_BEGUN_AT: u64 = 592; // when that one began
    pub const SYNCS_BEGUN: u64 = 640;
    pub const SYNCS_DONE: u64 = 648; // the greatest number of a sync that ended well
    // The syncs begun when one failed: a later one first writes everything again.
    pub const SYNC_FAILED: u64 = 656;
    pub const SYNC_LOCK: u64 = 664;
    pub const SYNCED: u64 = 672; // 1: the store was opened with a durability besides none
    pub const PARTIAL: u64 = 704; // for each log class, 1 + a segment left with room
    pub const SHARED: u64 = 720; // 1 + the reserve segment that notes and moves share
    pub const ROOM_LOCK: u64 = 728; // held while room is made in a full log
    pub const SYNC_LEADER: u64 = 768; // a counter; odd: a process syncs for all that wait
    pub const SEQUENCE_FLOOR: u64 = 776; // records given up after a failed sync are not above it
    pub const SEALING: u64 = 832; // the next segment that may be sealed
    // The wall clock against the time that has passed: `cautious_now`.
    pub const CLOCK_WINDOW: u64 = 896; // when the present window began
    pub const CLOCK_PRESENT: u64 = 904; // the clock's least lead in it; the greater, the less
    pub const CLOCK_BEFORE: u64 = 912; // and in the one before
    pub const FAILED_SAVES: u64 = 960; // for the operator: rare, so one for all
    pub const CURSORS: u64 = 1_024; // for each class, the segment after the last searched
}

pub const BINS: u64 = 4_096;
pub const BIN_BYTES: u64 = 40; // a length and 32 bytes
pub const BINS_MAX: u64 = 200;

/// One bit a part: whether it has memory.
pub const INDEX_PAGES: u64 = 64 << 10;
pub const INDEX_PAGES_BYTES: u64 = 768 << 10;

pub const PROCESSES: u64 = 832 << 10;
pub const PROCESS_BYTES: u64 = 512;
pub const PROCESSES_MAX: u64 = 1_024;
pub const LANES: u64 = 6;
pub mod process_word {
    pub const LIFE: u64 = 0; // generation << 1 | 1 until its owner was recovered from
    pub const PID: u64 = 1; // for messages: in the namespace of its owner
    // Statistics, kept from one owner to the next.
    pub const EXAMINED: u64 = 8; // records that maintenance examined
    pub const EXAMINED_MOST: u64 = 9; // in one call
    pub const REMOVED: u64 = 10;
    pub const MOVED: u64 = 11;
    pub const MAINTENANCE_NS: u64 = 12;
    pub const MAINTENANCE_NS_MOST: u64 = 13; // CPU time of one call
    pub const STEALS: u64 = 14; // locks taken over from dead owners
    pub const GROWTH_NS_MOST: u64 = 15; // CPU time of one growth of a file
}
pub const LANES_AT: u64 = 128;

/// Counted for the operator, a line for each process slot. Apart from the slot: all threads of the
/// owner load the slot's first line in each call, and a write would take it from their caches.
///
/// ```text
/// word  0         1     2        3           4             5                     6
///       requests  hits  commits  lock waits  lock wait us  longest lock wait us  unused
/// ```
pub const COUNTERS: u64 = PROCESSES + PROCESSES_MAX * PROCESS_BYTES;

/// Segment headers, a line each: `SegmentWords`.
pub const SEGMENTS: u64 = 2 << 20;
pub const SEGMENT_HEADER_BYTES: u64 = 64;
pub const SEGMENTS_MAX: u64 = 1 << 23;
pub const CONTROL_BYTES: u64 = SEGMENTS + SEGMENTS_MAX * SEGMENT_HEADER_BYTES;
/// The part of the control file that has memory from the beginning.
pub const CONTROL_BACKED: u64 = SEGMENTS + PAGE_BYTES;

pub const PAGE_BYTES: u64 = 4_096;
pub const CACHE_LINE_BYTES: u64 = 64;
pub const LINE_WORDS: usize = 8;

/// In models a segment is so small that its last slot is near.
pub const SEGMENT_BYTES: u64 = if cfg!(sessile_model) { 1 << 10 } else { 256 << 10 };
pub const UNIT_BYTES: u64 = 64;
pub const UNITS_OF_SEGMENT: u64 = SEGMENT_BYTES / UNIT_BYTES;
/// Records of the log begin at a multiple of this.
pub const GRANULE_BYTES: u64 = 128;
pub const SLOTS_MAX: u64 = SEGMENT_BYTES / GRANULE_BYTES;
pub const STAMPS_BYTES: u64 = SLOTS_MAX * 8;

pub const SLOT_BYTES_MAX: u64 = 64 << 10;

pub const HEADER_BYTES: u64 = 64;
pub const LOG_LINE_BYTES: u64 = 64;
pub const CHUNK_BYTES: u64 = SLOT_BYTES_MAX - HEADER_BYTES - LOG_LINE_BYTES;
/// Location and stamp of a chunk.
pub const LISTED_BYTES: u64 = 16;
pub const PAYLOAD_BYTES_MAX: u64 = CHUNK_BYTES / LISTED_BYTES * CHUNK_BYTES;

/// A bitmap of used entries, a due time and an owner hint for each, the entries.
pub const ENTRIES_OF_BLOCK: u64 = 4_096;
pub const BLOCK_DUE_AT: u64 = 4_096;
pub const BLOCK_OWNERS_AT: u64 = BLOCK_DUE_AT + ENTRIES_OF_BLOCK * 8;
pub const BLOCK_ENTRIES_AT: u64 = BLOCK_OWNERS_AT + ENTRIES_OF_BLOCK * 8;
pub const BLOCK_BYTES: u64 = BLOCK_ENTRIES_AT + ENTRIES_OF_BLOCK * 64;
pub const BLOCKS_MAX: u64 = 1 << 15; // 134 million sessions

/// The first level exists from the beginning, the last bounds the file.
pub const LEVEL_FIRST: u32 = 6;
pub const LEVEL_LAST: u32 = 26;
pub const INDEX_BYTES: u64 = BUCKET_BYTES << (LEVEL_LAST + 1);
/// A bucket: two lines that decide, and a line of hints.
pub const BUCKET_BYTES: u64 = 192;
pub const BUCKET_WORDS: usize = 16;
/// In models a bucket is so small that it splits soon.
pub const BUCKET_CELLS: usize = if cfg!(sessile_model) { 7 } else { BUCKET_WORDS - 1 };

const _: () = {
    assert!(INDEX_BYTES / PAGE_BYTES / 8 <= INDEX_PAGES_BYTES, "the bitmap covers the index");
    let apart = BINS + BINS_MAX * BIN_BYTES <= INDEX_PAGES
        && INDEX_PAGES + INDEX_PAGES_BYTES <= PROCESSES
        && PROCESSES + PROCESSES_MAX * PROCESS_BYTES <= COUNTERS
        && COUNTERS + PROCESSES_MAX * CACHE_LINE_BYTES <= SEGMENTS;
    assert!(apart, "the parts of the control file do not overlap");
    assert!(LANES_AT + LANES * 64 <= PROCESS_BYTES, "the lanes fit into a slot");
    assert!(BLOCK_BYTES.is_multiple_of(PAGE_BYTES), "blocks are whole pages");
    assert!(SEGMENT_BYTES.is_multiple_of(GRANULE_BYTES), "a segment is whole granules");
    assert!(GRANULE_BYTES == LOG_LINE_BYTES + HEADER_BYTES, "a note fills one granule");
};
