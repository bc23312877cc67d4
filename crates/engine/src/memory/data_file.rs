//! The file of the log on a disk. The engine writes, syncs and resizes it only through
//! [`DataFile`], so a test can see, delay or fail each of these operations.

use sessile_core::Result;

pub trait DataFile: Send + Sync {
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()>;

    /// Reads until the buffer is full; bytes beyond the end of the file read as zero.
    fn read(&self, into: &mut [u8], offset: u64) -> Result<()>;

    /// Returns when everything written before is on the disk.
    /// `Io`: nothing written since the last success may be believed to be there.
    fn sync(&self) -> Result<()>;

    /// A hint, so that the next sync has less to do.
    fn begin_write_back(&self, offset: u64, bytes: u64);

    fn begin_sync(&self) -> SyncStart;

    /// The result of the sync that was begun, if it has ended.
    fn end_of_sync(&self) -> Option<Result<()>>;

    /// After it these bytes have room.
    fn allocate(&self, offset: u64, bytes: u64) -> Result<()>;

    /// The bytes read as zero then.
    fn punch(&self, offset: u64, bytes: u64);

    fn length(&self) -> Result<u64>;
}

#[derive(PartialEq, Eq)]
pub enum SyncStart {
    UnderWay,
    /// An earlier one is still under way.
    Busy,
    /// The kernel or a sandbox does not offer it.
    Refused,
}
