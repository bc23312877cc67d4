//! Where everything lies: the offsets of docs/engine.md, "Files", as constants.
//!
//! Invariant: a change here is a change of [`FORMAT`].

/// The first word of a finished control file: "SESSILE" and a byte that shows the byte order.
pub const MAGIC: u64 = u64::from_le_bytes(*b"SESSILE\x01");
/// Version of the layout of the control plane. Another one is refused, never converted: the plane is volatile.
pub const FORMAT: u64 = 3;

/// Words of the control file's header, each hot one on a line of its own.
pub mod header {
    pub const MAGIC: u64 = 0;
    pub const FORMAT: u64 = 8;
    pub const UUID: u64 = 16; // two words
    pub const BOOT: u64 = 32; // two words: the boot id of the kernel
    pub const DATA: u64 = 48; // two words: device and inode of the file of the data
    pub const BYTES_MAX: u64 = 64; // configured size, 0: three quarters of the file system
    pub const ENTRY_BLOCKS: u64 = 128; // blocks of entries that exist
    pub const SEGMENTS: u64 = 192; // segments that were ever used: numbers below this are valid
    pub const HAND: u64 = 256; // next group of entries to examine for expiry
    pub const COMPACTION: u64 = 320; // next segment to look at
    pub const FENCE_FLOOR: u64 = 384; // no entry that is taken into use starts below this fence
    pub const BINS_LOCK: u64 = 448; // held while a bin is added
    pub const BEACONS: u64 = 512; // inode of the file of beacons
    // On a disk only.
    pub const DIRTY_SINCE: u64 = 576; // when the oldest byte was written that is not synced; 0: none
    pub const SYNCING_SINCE: u64 = 584; // the same of what the latest sync under way covers; 0: none
    pub const SYNCS_BEGUN: u64 = 640;
    pub const SYNCS_DONE: u64 = 648; // the greatest number of a sync that has ended well
    pub const SYNC_FAILED: u64 = 656; // 1 + the syncs begun when one has failed: a later one first writes everything again
    pub const SYNC_LOCK: u64 = 664;
    pub const SYNCED: u64 = 672; // 1: someone has opened the store with a durability other than none
    pub const STAGES: u64 = 680; // two words: device and inode of the file of stages; 0: it is not used
    pub const PARTIAL: u64 = 704; // for each class of the log, 1 + a segment whose owner left room in it
    pub const SHARED: u64 = 720; // 1 + the segment of the reserve that notes and moves share
    pub const ROOM_LOCK: u64 = 728; // held while room is made in a full log
    pub const CURSORS: u64 = 1_024; // for each class, the segment after the one searched last
}

/// Names of bins.
pub const BINS: u64 = 4_096;
pub const BIN_BYTES: u64 = 40; // a length and 32 bytes
pub const BINS_MAX: u64 = 200;

/// One bit for each part of the index that has memory.
pub const INDEX_PARTS: u64 = 64 << 10;
pub const INDEX_PARTS_BYTES: u64 = 128 << 10;

/// Process table.
pub const PROCESSES: u64 = 256 << 10;
pub const PROCESS_BYTES: u64 = 512;
pub const PROCESSES_MAX: u64 = 1_024;
pub const LANES: u64 = 6;
/// Lanes start here in a process' slot.
pub const LANES_AT: u64 = 128;

/// Segment headers, a line each: a state, a lock; on a disk also the syncs begun when it was emptied, the granules
/// appended, and the stage.
pub const SEGMENTS: u64 = 1 << 20;
pub const SEGMENT_HEADER_BYTES: u64 = 64;
pub const SEGMENTS_MAX: u64 = 1 << 23;
/// Size of the mapping of the control file.
pub const CONTROL_BYTES: u64 = SEGMENTS + SEGMENTS_MAX * SEGMENT_HEADER_BYTES;
/// What of it has memory from the beginning.
pub const CONTROL_BACKED: u64 = SEGMENTS + PAGE_BYTES;

pub const PAGE_BYTES: u64 = 4_096;

/// A segment of the data file. In models it is so small that its last slot is near.
pub const SEGMENT_BYTES: u64 = if cfg!(sessile_model) { 1 << 10 } else { 256 << 10 };
/// Data is addressed in units of a cache line.
pub const UNIT_BYTES: u64 = 64;
pub const UNITS_OF_SEGMENT: u64 = SEGMENT_BYTES / UNIT_BYTES;
/// Records of the log begin at a multiple of this.
pub const GRANULE_BYTES: u64 = 128;
/// Most slots of a segment, and the place of their stamps in the file of stamps.
pub const SLOTS_MAX: u64 = SEGMENT_BYTES / GRANULE_BYTES;
pub const STAMPS_BYTES: u64 = SLOTS_MAX * 8;

/// Stages: a line of words for each, then their bytes.
pub const STAGES: u64 = 64;
pub const STAGES_AT: u64 = STAGES * 64;

/// A block of entries: a bitmap of those in use, a due time for each, the entries.
pub const ENTRIES_OF_BLOCK: u64 = 4_096;
pub const BLOCK_DUE_AT: u64 = 4_096;
pub const BLOCK_ENTRIES_AT: u64 = BLOCK_DUE_AT + ENTRIES_OF_BLOCK * 8;
pub const BLOCK_BYTES: u64 = BLOCK_ENTRIES_AT + ENTRIES_OF_BLOCK * 64;
pub const BLOCKS_MAX: u64 = 1 << 15; // 134 million sessions

/// Levels of the index: the first exists from the beginning (64 buckets, one part), the last bounds the file.
pub const LEVEL_FIRST: u32 = 6;
pub const LEVEL_LAST: u32 = 25;
pub const INDEX_BYTES: u64 = BUCKET_BYTES << (LEVEL_LAST + 1);
/// A bucket: a line that decides, and a line of hints.
pub const BUCKET_BYTES: u64 = 128;
/// Buckets that get their memory together.
pub const BUCKETS_OF_PART: u64 = 64;
pub const INDEX_PART_BYTES: u64 = BUCKETS_OF_PART * BUCKET_BYTES;

const _: () = {
    assert!(INDEX_BYTES / INDEX_PART_BYTES / 8 <= INDEX_PARTS_BYTES, "the bitmap covers the index");
    assert!(INDEX_PARTS + INDEX_PARTS_BYTES <= PROCESSES, "the parts of the control file do not overlap");
    assert!(PROCESSES + PROCESSES_MAX * PROCESS_BYTES <= SEGMENTS, "the parts of the control file do not overlap");
    assert!(BINS + BINS_MAX * BIN_BYTES <= INDEX_PARTS, "the parts of the control file do not overlap");
    assert!(header::CURSORS + crate::class::CLASSES_ALL * 8 <= BINS, "the cursors fit into the header");
    assert!(LANES_AT + LANES * 64 <= PROCESS_BYTES, "the lanes fit into a slot");
    assert!(BLOCK_BYTES.is_multiple_of(PAGE_BYTES), "blocks are whole pages");
};
