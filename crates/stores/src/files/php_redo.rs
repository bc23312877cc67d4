//! Overwriting a file of PHP's in place, so that a kill in between loses nothing.
//!
//! PHP opens a session file, then blocks in flock, and never looks whether the file is still the one in the
//! directory. So its inode must stay, and a payload cannot be replaced by rename. Instead the new payload is
//! first written to `.sessile/<bin>/redo/<id>` (which a rename makes appear as a whole), then into the file, then
//! the redo is removed. Whoever takes the session's lock finishes a redo that it finds.
//!
//! A redo is finished only if it belongs to this file (inode and birth time) and the file holds nothing but old
//! and new pages: the redo carries a sum of each page of the old payload. Otherwise PHP has written since, and
//! its payload stands. A payload of one page that does not shrink needs no redo: one write call on one page is
//! done or not done, whatever kills the process.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{AtFlags, FallocateFlags, StatxFlags, fallocate, fsync, ftruncate, futimens, statx};
use rustix::io::Errno;
use sessile_core::{Record, Result, Timestamp};

use super::php_note::{NOTE_BYTES, Note, record, sum};
use super::system::{failed, modified_at};

/// The unit in which a write may be cut short by a kill.
const PAGE: usize = 4_096;
const MAGIC: &[u8; 8] = b"sessredo";

/// One overwriting.
#[derive(Debug, PartialEq, Eq)]
pub struct Redo {
    inode: u64,
    born: u64,
    mtime: Timestamp,
    old_pages: Vec<u32>,
    pub note: Note,
    pub payload: Vec<u8>,
}

/// The sum of each page of a payload.
pub fn page_sums(payload: &[u8]) -> Vec<u32> {
    payload.chunks(PAGE).map(sum).collect()
}

/// Whether an overwriting can be cut into pieces by a kill.
pub fn is_needed(old_bytes: u64, payload: &[u8]) -> bool {
    payload.len() > PAGE || old_bytes > payload.len() as u64
}

impl Redo {
    pub fn new(file: &OwnedFd, old_pages: Vec<u32>, note: Note, payload: &[u8], mtime: Timestamp) -> Result<Redo> {
        let (inode, born) = birth(file)?;
        Ok(Redo { inode, born, mtime, old_pages, note, payload: payload.to_vec() })
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let pages = self.old_pages.len() as u64;
        for number in [self.inode, self.born, self.mtime.as_ms(), pages, self.payload.len() as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.note.encode());
        self.old_pages.iter().for_each(|page| bytes.extend_from_slice(&page.to_le_bytes()));
        bytes.extend_from_slice(&self.payload);
        let own = sum(&bytes);
        bytes.extend_from_slice(&own.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Redo> {
        let (summed, own) = bytes.split_last_chunk::<4>()?;
        let rest = summed.strip_prefix(MAGIC)?;
        if sum(summed) != u32::from_le_bytes(*own) {
            return None;
        }
        let number = |index: usize| rest.get(index * 8..index * 8 + 8)?.try_into().ok().map(u64::from_le_bytes);
        let note = Note::decode(rest.get(40..40 + NOTE_BYTES)?)?;
        let rest_at = 40 + NOTE_BYTES;
        let payload_at = rest_at.checked_add(usize::try_from(number(3)?).ok()?.checked_mul(4)?)?;
        let old_pages = rest
            .get(rest_at..payload_at)?
            .chunks(4)
            .map(|page| u32::from_le_bytes(page.try_into().unwrap_or_default()));
        let payload = rest.get(payload_at..)?.to_vec();
        (payload.len() as u64 == number(4)?).then_some(Redo {
            inode: number(0)?,
            born: number(1)?,
            mtime: Timestamp::from_ms(number(2)?),
            old_pages: old_pages.collect(),
            note,
            payload,
        })
    }

    /// Whether the file holds what an overwriting that was cut short leaves.
    pub fn belongs_to(&self, file: &OwnedFd, content: &[u8]) -> bool {
        let new_pages = page_sums(&self.payload);
        // The last page may be the old one, the new one, or the new one followed by the old one's tail.
        let mixed_tail = |index: usize, page: &[u8]| {
            let from = index * PAGE;
            let new = self.payload.get(from..).filter(|new| !new.is_empty() && new.len() < PAGE);
            new.is_some_and(|new| page.starts_with(new))
        };
        let known = content.chunks(PAGE).enumerate().all(|(index, page)| {
            let page_sum = sum(page);
            self.old_pages.get(index) == Some(&page_sum)
                || new_pages.get(index) == Some(&page_sum)
                || mixed_tail(index, page)
        });
        known && birth(file).is_ok_and(|birth| birth == (self.inode, self.born))
    }

    /// The record that it makes.
    pub fn record(self, maxlifetime: Duration) -> Option<Record> {
        record(self.payload, self.mtime, self.mtime.plus(maxlifetime), Some(self.note))
    }

    /// Writes the payload into the file. The caller has the session's lock or its gate.
    pub fn apply(&self, file: &OwnedFd) -> Result<()> {
        overwrite(file, &self.payload, &self.note, self.mtime)
    }
}

/// Takes the space beforehand, so that a full disk is noticed while the old payload is still whole. The file's time is
/// moved by that; it is put back, because it says when the old payload expires.
pub fn reserve(file: &OwnedFd, payload: &[u8], mtime: Timestamp) -> Result<()> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, (payload.len() as u64).max(1)) {
        Ok(()) => set_time(file, mtime),
        Err(Errno::NOTSUP | Errno::NOSYS) => Ok(()),
        Err(errno) => Err(failed("there is no space for the session", errno)),
    }
}

/// Puts a payload, its note and its time into a file.
pub fn overwrite(file: &OwnedFd, payload: &[u8], note: &Note, mtime: Timestamp) -> Result<()> {
    let cannot_write = |errno| failed("a session file cannot be written", errno);
    let mut written = 0;
    while let Some(rest) = payload.get(written..).filter(|rest| !rest.is_empty()) {
        written += rustix::io::pwrite(file, rest, written as u64).map_err(cannot_write)?;
    }
    ftruncate(file, payload.len() as u64).map_err(cannot_write)?;
    note.write(file)?;
    set_time(file, mtime)
}

fn set_time(file: &OwnedFd, mtime: Timestamp) -> Result<()> {
    futimens(file, &modified_at(mtime)).map_err(|errno| failed("a file's time cannot be set", errno))
}

/// Takes an expired payload out of its file. What is written next moves the file's time before it is there as a whole, and
/// meanwhile, or for good if the writer is killed, the old payload would look alive.
pub fn take_out(file: &OwnedFd, now: Timestamp) -> Result<()> {
    // An empty payload that fits its note would be a session, too.
    Note::of_unknown(now, None).write(file)?;
    ftruncate(file, 0).map_err(|errno| failed("a session file cannot be written", errno))
}

/// Makes a file durable.
pub fn sync(file: &OwnedFd) -> Result<()> {
    fsync(file).map_err(|errno| failed("a session file cannot be written to disk", errno))
}

/// Inode numbers are used again, together with the birth time they are not. (0 where the file system has none.)
fn birth(file: &OwnedFd) -> Result<(u64, u64)> {
    let statx = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME)
        .map_err(|errno| failed("a session file cannot be examined", errno))?;
    let seconds = u64::try_from(statx.stx_btime.tv_sec).unwrap_or(0);
    Ok((statx.stx_ino, seconds.saturating_mul(1_000_000_000).saturating_add(u64::from(statx.stx_btime.tv_nsec))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redo(file: &OwnedFd, old: &[u8], new: &[u8]) -> Redo {
        let note = Note::of(new, 2, Timestamp::ZERO, Timestamp::ZERO, None);
        Redo::new(file, page_sums(old), note, new, Timestamp::from_ms(5)).unwrap()
    }

    #[test]
    fn a_redo_that_is_read_is_the_one_that_was_written() {
        let file = OwnedFd::from(tempfile::tempfile().unwrap());
        let written = redo(&file, &[1; 9_000], &[2; 5_000]);
        let mut bytes = written.encode();
        assert_eq!(Redo::decode(&bytes).unwrap(), written);
        *bytes.last_mut().unwrap() ^= 1;
        assert!(Redo::decode(&bytes).is_none());
        assert!(Redo::decode(&bytes[..20]).is_none());
    }

    #[test]
    fn what_php_wrote_since_is_not_undone() {
        let file = OwnedFd::from(tempfile::tempfile().unwrap());
        let (old, new) = ([1_u8; 9_000], [2_u8; 5_000]);
        let redo = redo(&file, &old, &new);
        let mut cut = new[..4_096].to_vec();
        cut.extend_from_slice(&old[4_096..]);
        let mut tail = new.to_vec();
        tail.extend_from_slice(&old[5_000..]);
        for left_by_a_kill in [old.to_vec(), cut, tail, new.to_vec()] {
            assert!(redo.belongs_to(&file, &left_by_a_kill));
        }
        assert!(!redo.belongs_to(&file, b"php|i:1;"));
        let other = OwnedFd::from(tempfile::tempfile().unwrap());
        assert!(!redo.belongs_to(&other, &old), "a file that came later may have the same inode number");
    }

    #[test]
    fn making_room_does_not_move_the_time_that_says_when_the_session_expires() {
        let file = OwnedFd::from(tempfile::tempfile_in("/var/tmp").unwrap());
        let long_ago = Timestamp::from_ms(5_000);
        overwrite(&file, b"old", &Note::of(b"old", 1, long_ago, long_ago, None), long_ago).unwrap();
        reserve(&file, &[1; 20_000], long_ago).unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        assert_eq!((super::super::system::mtime(&stat), stat.st_size), (long_ago, 3));
    }

    #[test]
    fn what_is_taken_out_is_no_session_whatever_its_time() {
        let now = Timestamp::from_ms(9_000);
        for old in [&b"old"[..], b""] {
            let file = OwnedFd::from(tempfile::tempfile_in("/var/tmp").unwrap());
            overwrite(&file, old, &Note::of(old, 1, now, now, None), now).unwrap();
            take_out(&file, now).unwrap();
            assert_eq!(rustix::fs::fstat(&file).unwrap().st_size, 0);
            assert_eq!(record(Vec::new(), now, now.plus(Duration::from_secs(60)), Note::read(&file)), None);
        }
    }
}
