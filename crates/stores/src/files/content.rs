//! The content of a session file: bytes and a modification time become a core [`Stored`], and back.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::libc::F_RDLCK;
use rustix::fs::Stat;
use rustix::io::{pread, preadv};
use sessile_core::{Bin, ErrorKind, Key, Result, Stored, Timestamp};

use super::directory::Opened;
use super::frame::{HEADER_BYTES, Header, PAGE_BYTES, corrupt, outgrown, retarget};
use super::gate;
use super::system::{examine, failed, mtime, size};
use super::temporary::Temporary;

/// How long bytes that look damaged are read again. A write takes a microsecond.
const SETTLE_MAX: Duration = Duration::from_secs(1);
/// From here on one more read costs little.
const LARGE_BYTES: u64 = 1 << 20;

/// Writes a whole new file. The payload of an alias is `bin/id` of its target.
pub fn write(
    new: &Temporary<'_>,
    stored: &Stored,
    payload: &[u8],
    now: Timestamp,
    durable: bool,
) -> Result<()> {
    let target = match stored {
        Stored::Alias { target, .. } => format!("{}/{}", target.bin().name(), target.id()),
        _ => String::new(),
    };
    let payload = if target.is_empty() { payload } else { target.as_bytes() };
    let header = Header::new(stored, payload, now);
    let zeros = [0; PAGE_BYTES];
    // A session that grows a little later finds room, and its commits stay in place.
    let filling = zeros.get(header.end()..).filter(|_| stored.head().is_some());
    let header = header.encode();
    new.write(&mut [&header, payload, filling.unwrap_or_default()].map(IoSlice::new))?;
    new.finish(stored.due().unwrap_or(now), durable)
}

fn parse_target(payload: &[u8]) -> Result<Key> {
    let parse = || {
        let (bin, id) = str::from_utf8(payload).ok()?.split_once('/')?;
        Key::in_bin(Bin::new(bin).ok()?, id).ok()
    };
    parse().ok_or_else(|| corrupt("a regenerated id leads nowhere"))
}

/// The state and payload of a key. After `Corrupt` the gate is released.
pub fn read(key: &Key, file: &OwnedFd, stat: &Stat) -> Result<(Stored, Vec<u8>)> {
    read_again(file, stat, |stat| {
        // No memory for a file that has grown.
        if size(stat) > LARGE_BYTES {
            let header = read_parts(file, stat, &mut [])?;
            if header.stored != Stored::Nothing && !header.fits(size(stat)) {
                return Err(outgrown());
            }
        }
        let mut payload = zeros(size(stat).saturating_sub(HEADER_BYTES as u64))?;
        let header = read_parts(file, stat, &mut payload)?;
        if header.stored == Stored::Nothing {
            return Ok((Stored::Nothing, Vec::new()));
        }
        header.unfill(&mut payload)?;
        match retarget(&header.stored, || parse_target(&payload))? {
            // An alias of its own name is an unfinished regeneration.
            Stored::Alias { target, .. } if target == *key => Ok((Stored::Nothing, Vec::new())),
            stored => Ok((stored, payload)),
        }
    })
}

pub fn read_header(file: &OwnedFd, stat: &Stat) -> Result<Header> {
    read_again(file, stat, |stat| read_parts(file, stat, &mut []))
}

/// A commit or touch rewrites a file in place, under the gate, and may be seen half-done. Bytes
/// that are wrong under the gate are damaged.
fn read_again<T>(file: &OwnedFd, stat: &Stat, read: impl Fn(&Stat) -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let mut read_bytes = read(stat);
    loop {
        match read_bytes {
            Err(error) if *error.kind() == ErrorKind::Corrupt => {}
            done => return done,
        }
        // Examined again: the first commit of a session gives its file another length.
        let examine_and_read = || read(&examine(file)?);
        // The owner of the gate may be stopped, but not within a write.
        if gate::try_lock(file, F_RDLCK, 0).unwrap_or(false) || start.elapsed() >= SETTLE_MAX {
            let last = examine_and_read();
            gate::release(file);
            return last;
        }
        std::thread::sleep(Duration::from_micros(20));
        read_bytes = examine_and_read();
    }
}

/// The header, and as many bytes behind it as `payload` takes. That of a placeholder for a first
/// commit that is under way or was killed: the bytes behind the first page are written before it
/// (own/commit.rs). A power cut may leave one page of zeros: the length reached the disk first.
fn read_parts(file: &OwnedFd, stat: &Stat, payload: &mut [u8]) -> Result<Header> {
    let (bytes, mut header) = (size(stat), [0; HEADER_BYTES]);
    if bytes == 0 {
        return Ok(Header::default());
    }
    let wanted = HEADER_BYTES + payload.len();
    let read = preadv(file, &mut [IoSliceMut::new(&mut header), IoSliceMut::new(payload)], 0);
    if read.map_err(|errno| failed("a session file cannot be read", errno))? != wanted {
        return Err(corrupt("the session file is truncated"));
    }
    let is_placeholder = header == [0; HEADER_BYTES]
        && match bytes.cmp(&(PAGE_BYTES as u64)) {
            Less => false,
            Equal => {
                let mut page = [1; PAGE_BYTES];
                pread(file, &mut page, 0) == Ok(PAGE_BYTES) && page == [0; PAGE_BYTES]
            }
            Greater => true,
        };
    if is_placeholder { Ok(Header::default()) } else { Header::decode(&header, mtime(stat)) }
}

/// The size comes from the disk: one that does not fit in memory is refused, instead of an abort.
pub fn zeros(bytes: u64) -> Result<Vec<u8>> {
    let too_large = || corrupt("the session file is too large");
    let length = usize::try_from(bytes).map_err(|_| too_large())?;
    let mut memory = Vec::new();
    memory.try_reserve_exact(length).map_err(|_| too_large())?;
    memory.resize(length, 0);
    Ok(memory)
}

/// Where the file of a key leads at `now`.
pub fn alias_target(key: &Key, (file, stat): &Opened, now: Timestamp) -> Result<Option<Key>> {
    if read_header(file, stat)?.stored.leads_to(now).is_none() {
        return Ok(None);
    }
    Ok(read(key, file, stat)?.0.leads_to(now).cloned())
}
