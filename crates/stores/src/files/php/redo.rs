//! Overwriting PHP's file in place, so that a kill in between loses nothing.
//!
//! PHP opens a session file, blocks in flock, and never checks that the file still has its name. So
//! the inode must stay, and a rename cannot replace a payload. Instead a commit publishes the new
//! payload in `.sessile.<uid>/<bin>/redo/id_<id>`, writes it into the file, and removes the redo.
//!
//! The next holder of the session's lock finishes a redo if it belongs to this file (inode and
//! birth time) and the file holds only old pages, of which the redo has the sums, and new ones.
//! Otherwise PHP has written since, and its payload stands. A payload of one page that does not
//! shrink needs no redo: a kill cannot cut one write on one page.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{AtFlags, FallocateFlags, OFlags, Stat, StatxFlags, fallocate, ftruncate, statx};
use rustix::io::Errno;
use sessile_core::{Head, Key, Result, Timestamp};

use super::note::{NOTE_BYTES, Note, capped, head};
use super::{PhpMode, read_payload};
use crate::files::gate;
use crate::files::mode::Mode;
use crate::files::system::{examine, failed, mtime, set_time, size, sync_if, write_at};
use crate::files::temporary::Temporary;
use crate::files::words::{is_sealed, sum, words};

/// The unit in which a kill may cut a write short.
const PAGE: usize = 4_096;
const MAGIC: u64 = u64::from_le_bytes(*b"sessredo");

#[derive(Debug, PartialEq, Eq)]
pub struct Redo {
    /// Of the session file.
    birth: (u64, u64),
    mtime: Timestamp,
    old_pages: Vec<u32>,
    note: Note,
    payload: Vec<u8>,
}

impl Redo {
    fn encode(&self) -> Vec<u8> {
        let (pages, length) = (self.old_pages.len() as u64, self.payload.len() as u64);
        let words = [MAGIC, self.birth.0, self.birth.1, self.mtime.as_ms(), pages, length];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.extend(self.note.encode());
        bytes.extend(self.old_pages.iter().flat_map(|page| page.to_le_bytes()));
        bytes.extend(&self.payload);
        bytes.extend(sum(&bytes).to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Redo> {
        let (words_of_file, rest) = bytes.split_at_checked(6 * 8)?;
        let [MAGIC, inode, born, mtime, pages, length] = words(words_of_file)? else {
            return None;
        };
        let (note, rest) = rest.split_at_checked(NOTE_BYTES)?;
        let pages = usize::try_from(pages).ok()?.checked_mul(4)?;
        let (old_pages, rest) = rest.split_at_checked(pages)?;
        let (payload, _) = rest.split_last_chunk::<4>()?;
        (payload.len() as u64 == length && is_sealed(bytes)).then_some(Redo {
            birth: (inode, born),
            mtime: Timestamp::from_ms(mtime),
            old_pages: old_pages
                .as_chunks()
                .0
                .iter()
                .map(|page| u32::from_le_bytes(*page))
                .collect(),
            note: Note::decode(note)?,
            payload: payload.to_vec(),
        })
    }

    /// Whether the file holds what an interrupted overwriting leaves.
    pub fn belongs_to(&self, file: &OwnedFd, content: &[u8]) -> bool {
        let mut new_pages = self.payload.chunks(PAGE);
        let known = content.chunks(PAGE).enumerate().all(|(index, page)| {
            // The last page may be the new one followed by the old tail.
            let is_new = new_pages.next().is_some_and(|new| page.starts_with(new));
            is_new || self.old_pages.get(index) == Some(&sum(page))
        });
        known && birth(file).is_ok_and(|birth| birth == self.birth)
    }

    pub fn record(self, maxlifetime: Duration) -> Option<(Head, Vec<u8>)> {
        let expires = self.mtime.plus(maxlifetime);
        head(&self.payload, self.mtime, expires, Some(self.note)).map(|head| (head, self.payload))
    }
}

/// Under the gate and the lock; all or nothing.
pub fn commit(
    store: &PhpMode,
    key: &Key,
    (file, stat): (&OwnedFd, &Stat),
    payload: &[u8],
    head: Head,
) -> Result<()> {
    let (note, time) = (Note::new(payload, head), head.expires.minus(store.maxlifetime));
    let in_pieces = payload.len() > PAGE || size(stat) > payload.len() as u64;
    if !store.durable && !in_pieces {
        return overwrite(file, payload, &note, time);
    }
    let now = store.now();
    let old = if capped(store.expiry(stat), Note::read(file)) <= now {
        take_out(file, now)?;
        Vec::new()
    } else {
        read_payload(file, size(stat))?
    };
    reserve(file, payload, mtime(stat))?;
    let redo = Redo {
        birth: birth(file)?,
        mtime: time,
        old_pages: old.chunks(PAGE).map(sum).collect(),
        note,
        payload: payload.to_vec(),
    };
    let name = store.shared.redo(key);
    let mut new = Temporary::create(&name)?;
    new.write(&mut [IoSlice::new(&redo.encode())])?;
    sync_if(&new.file, store.durable)?;
    new.publish(&name)?;
    // From here on the commit is done: the next holder of the lock would finish it.
    let finish = || {
        name.sync_if(store.durable)?;
        overwrite(file, payload, &note, time)?;
        sync_if(file, store.durable)?;
        name.unlink()
    };
    if let Err(error) = finish() {
        log::warn!("a commit is written beside the session file, but not yet into it: {error:#}");
    }
    Ok(())
}

/// For the holder of the lock. Returns the file's new state, if there was a redo.
pub fn finish_redo(store: &PhpMode, key: &Key, file: &OwnedFd) -> Result<Option<Stat>> {
    let Some(redo) = read_redo(store, key)? else { return Ok(None) };
    gate::enter(file)?;
    let content = read_payload(file, size(&examine(file)?))?;
    if let Some(redo) = redo.filter(|redo| redo.belongs_to(file, &content)) {
        overwrite(file, &redo.payload, &redo.note, redo.mtime)?;
    }
    store.shared.redo(key).unlink()?;
    gate::release(file);
    examine(file).map(Some)
}

/// `Some(None)` if it is unreadable: this store never published it.
pub fn read_redo(store: &PhpMode, key: &Key) -> Result<Option<Option<Redo>>> {
    let opened = store.shared.redo(key).open_checked(OFlags::RDONLY)?;
    let Some((file, stat)) = opened else { return Ok(None) };
    Ok(Some(Redo::decode(&read_payload(&file, size(&stat))?)))
}

/// Allocates the space, so that a full disk is noticed while the old payload is whole. This moves
/// the file's time, which is put back: it is the expiry of the old payload.
fn reserve(file: &OwnedFd, payload: &[u8], mtime: Timestamp) -> Result<()> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, (payload.len() as u64).max(1)) {
        Ok(()) => set_time(file, mtime),
        Err(Errno::NOTSUP | Errno::NOSYS) => Ok(()),
        Err(errno) => Err(failed("there is no space for the session", errno)),
    }
}

fn overwrite(file: &OwnedFd, payload: &[u8], note: &Note, mtime: Timestamp) -> Result<()> {
    write_at(file, payload, 0)?;
    cut(file, payload.len() as u64)?;
    note.write(file)?;
    set_time(file, mtime)
}

/// Empties an expired file. The next write moves the file's time before it is complete, and
/// meanwhile, or for good if the writer is killed, the old payload would look alive.
fn take_out(file: &OwnedFd, now: Timestamp) -> Result<()> {
    // An empty payload that fits its note would be a session.
    Note::unknown(now).write(file)?;
    cut(file, 0)
}

fn cut(file: &OwnedFd, bytes: u64) -> Result<()> {
    ftruncate(file, bytes).map_err(|errno| failed("a session file cannot be written", errno))
}

/// Inode number and birth time (0 where the file system has none). The number alone is used again.
fn birth(file: &OwnedFd) -> Result<(u64, u64)> {
    let statx = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME)
        .map_err(|errno| failed("a session file cannot be examined", errno))?;
    let seconds_ns = statx.stx_btime.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000);
    Ok((statx.stx_ino, seconds_ns.wrapping_add(statx.stx_btime.tv_nsec.into())))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode as FileMode, mknodat};
    use sessile_core::{Clock, Ttl};

    use super::*;

    const HEAD: Head = Head {
        version: 2,
        created: Timestamp::ZERO,
        written: Timestamp::ZERO,
        expires: Timestamp::ZERO,
        ends: None,
        owner: None,
    };

    fn redo(file: &OwnedFd, old: &[u8], new: &[u8]) -> Redo {
        Redo {
            birth: birth(file).unwrap(),
            mtime: Timestamp::from_ms(5),
            old_pages: old.chunks(PAGE).map(sum).collect(),
            note: Note::new(new, HEAD),
            payload: new.to_vec(),
        }
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

    /// A forged redo was written into the session at its next begin, whoever had put it there.
    #[test]
    fn a_redo_that_is_not_a_file_of_our_user_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let hour = Duration::from_secs(3_600);
        let store = PhpMode::open(dir.path(), 0, hour, 1 << 20, Clock::system(), false).unwrap();
        let (key, ttl) = (Key::session("one").unwrap(), Ttl::sliding(hour).unwrap());
        store.create(&key, b"old", ttl).unwrap();
        let file = || store.file(&key).unwrap().open_checked(OFlags::RDWR).unwrap().unwrap().0;
        let planted = store.shared.beside.path.join(store.shared.redo(&key).path);
        let forged = || redo(&file(), b"old", b"new").encode();
        let refused = |what: &str| {
            let start = std::time::Instant::now();
            assert!(finish_redo(&store, &key, &file()).is_err(), "{what}");
            assert!(start.elapsed() < Duration::from_secs(5), "{what}");
            assert_eq!(read_payload(&file(), 3).unwrap(), b"old", "{what}");
            std::fs::remove_file(&planted).unwrap();
        };
        let elsewhere = dir.path().join("elsewhere");
        std::fs::write(&elsewhere, forged()).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &planted).unwrap();
        refused("a symbolic link");
        mknodat(CWD, &planted, FileType::Fifo, FileMode::RUSR, 0).unwrap();
        refused("a fifo");
        std::fs::write(&planted, forged()).unwrap();
        if std::os::unix::fs::chown(&planted, Some(65_534), None).is_ok() {
            refused("a file of another user");
            std::fs::write(&planted, forged()).unwrap();
        } else {
            eprintln!("skipped in part: needs root");
        }
        finish_redo(&store, &key, &file()).unwrap();
        assert_eq!(read_payload(&file(), 3).unwrap(), b"new", "ours");
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
        assert!(
            !redo.belongs_to(&other, &old),
            "a file that came later may have the same inode number"
        );
    }

    #[test]
    fn making_room_does_not_move_the_time_that_says_when_the_session_expires() {
        let file = OwnedFd::from(tempfile::tempfile_in("/var/tmp").unwrap());
        let long_ago = Timestamp::from_ms(5_000);
        overwrite(&file, b"old", &Note::new(b"old", Head { written: long_ago, ..HEAD }), long_ago)
            .unwrap();
        reserve(&file, &[1; 20_000], long_ago).unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        assert_eq!((mtime(&stat), stat.st_size), (long_ago, 3));
    }

    #[test]
    fn what_is_taken_out_is_no_session_whatever_its_time() {
        let now = Timestamp::from_ms(9_000);
        for old in [&b"old"[..], b""] {
            let file = OwnedFd::from(tempfile::tempfile_in("/var/tmp").unwrap());
            overwrite(&file, old, &Note::new(old, HEAD), now).unwrap();
            take_out(&file, now).unwrap();
            assert_eq!(rustix::fs::fstat(&file).unwrap().st_size, 0);
            assert_eq!(head(b"", now, now.plus(Duration::from_secs(60)), Note::read(&file)), None);
        }
    }
}
