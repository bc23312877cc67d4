//! Records and where they lie: slots in memory, or the log on a disk.
//!
//! It reads, writes, frees and syncs records, and knows no operation of the contract.

mod append;
mod cautious_clock;
mod directory;
mod disk_file;
mod flush;
mod format;
mod group_commit;
mod header;
mod kernel_aio;
mod lane;
mod log_line;
mod log_segment;
mod notes;
mod record;
mod reserve;
mod seal;
mod segment;
mod slots;
mod unsynced;
mod write;

pub(crate) use {
    directory::*, disk_file::*, format::*, header::*, lane::*, log_line::*, notes::*, record::*,
    reserve::*, seal::*, segment::*, write::*,
};
