//! What a session file of the store's own mode says, read and checked.
//!
//! It turns bytes and a modification time into a record, a tombstone or an alias, and owns the rule where an
//! alias leads. It changes nothing.

use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::libc::F_RDLCK;
use rustix::fs::{Stat, fstat};
use sessile_core::{Bin, ErrorKind, Found, Key, Record, Result, Timestamp, Trace};

use super::alias::Step;
use super::frame::{HEADER_BYTES, Header, Kind, PAGE_BYTES, corrupt};
use super::gate;
use super::system::{failed, mtime, size};

/// What a file says.
pub enum Content {
    Empty,
    Live(Record),
    Destroyed { forget: Timestamp },
    Regenerated { to: Key, grace_ends: Timestamp, forget: Timestamp },
}

impl Content {
    /// Where it leads at `now`. A file that leads to its own name is a regeneration that was never finished.
    pub fn leads_to(&self, from: &Key, now: Timestamp) -> Option<&Key> {
        match self {
            Content::Regenerated { to, grace_ends, .. } if *grace_ends > now && to != from => Some(to),
            _ => None,
        }
    }

    /// Where a look-up under `key` goes on at `now`, or what it answers.
    pub fn look_up(self, key: &Key, now: Timestamp) -> Step<Found> {
        match self.leads_to(key, now) {
            Some(next) => Step::LeadsTo(next.clone()),
            None => Step::Here(self.found(key, now)),
        }
    }

    /// What is found under `key` if it leads nowhere.
    pub fn found(self, key: &Key, now: Timestamp) -> Found {
        match self {
            Content::Live(record) if !record.expired(now) => Found::live(record),
            Content::Destroyed { forget } if forget > now => Found::traced(Trace::Destroyed),
            Content::Regenerated { to, forget, .. } if forget > now && to != *key => Found::traced(Trace::Regenerated),
            _ => Found::nothing(),
        }
    }
}

/// How long bytes that look damaged are read again. Whoever is writing them needs a microsecond.
const SETTLE_MAX: Duration = Duration::from_secs(1);

/// Reads a whole file. Not for a caller that has the gate: it could lose it.
///
/// # Errors
///
/// `Corrupt` and `Incompatible` as in frame.rs.
pub fn read(file: &OwnedFd, stat: &Stat) -> Result<Content> {
    match read_once(file, stat) {
        Err(error) if *error.kind() == ErrorKind::Corrupt => settled(file, || {
            // The first commit of a session gives its file another length.
            let stat = fstat(file).map_err(|errno| failed("a session file cannot be examined", errno))?;
            read_once(file, &stat)
        }),
        read => read,
    }
}

/// Commits and touches rewrite a file in place and may be seen half-done. They do so under the gate: bytes that
/// are still wrong under it are wrong.
fn settled<T>(file: &OwnedFd, read: impl Fn() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        match read() {
            Err(error) if *error.kind() == ErrorKind::Corrupt => {}
            read => return read,
        }
        // Whoever has the gate may be stopped in it, but not within a write: the bytes are whole all the same.
        if gate::try_lock(file, F_RDLCK, 0).unwrap_or(false) || start.elapsed() >= SETTLE_MAX {
            let read = read();
            gate::leave(file);
            return read;
        }
        std::thread::sleep(Duration::from_micros(20));
    }
}

/// The same for a caller that has the gate.
pub fn read_once(file: &OwnedFd, stat: &Stat) -> Result<Content> {
    let bytes = size(stat);
    if bytes == 0 {
        return Ok(Content::Empty);
    }
    let payload_bytes =
        bytes.checked_sub(HEADER_BYTES as u64).ok_or_else(|| corrupt("the session file is truncated"))?;
    let payload_bytes = usize::try_from(payload_bytes).map_err(|_| corrupt("the session file is too large"))?;
    let mut header = [0; HEADER_BYTES];
    let mut payload = Vec::new();
    // Refuses what does not fit into memory instead of aborting: the size comes from the disk.
    payload.try_reserve_exact(payload_bytes).map_err(|_| corrupt("the session file is too large"))?;
    payload.resize(payload_bytes, 0);
    let read = rustix::io::preadv(file, &mut [IoSliceMut::new(&mut header), IoSliceMut::new(&mut payload)], 0)
        .map_err(|errno| failed("a session file cannot be read", errno))?;
    if read != HEADER_BYTES + payload_bytes {
        return Err(corrupt("the session file is truncated"));
    }
    if unfinished(&header, bytes, || payload.iter().all(|byte| *byte == 0)) {
        return Ok(Content::Empty);
    }
    let header = Header::decode(&header)?;
    header.unfill(&mut payload)?;
    let moment = mtime(stat);
    match header.kind {
        Kind::Live => Ok(Content::Live(Record {
            payload,
            version: header.version,
            created: header.created,
            written: header.written,
            expires: header.expires.unwrap_or(moment),
            ends: header.ends,
        })),
        Kind::Destroyed => Ok(Content::Destroyed { forget: moment }),
        Kind::Regenerated => {
            let to = parse_target(&payload).ok_or_else(|| corrupt("a regenerated id leads nowhere"))?;
            Ok(Content::Regenerated { to, grace_ends: header.ends.unwrap_or_default(), forget: moment })
        }
    }
}

/// A first commit that is under way, or whose process was killed: what is behind the first page is written before it
/// (own_commit.rs). Of one page a power cut may leave nothing but zeros: the length was on the disk before the bytes.
fn unfinished(header: &[u8; HEADER_BYTES], file_bytes: u64, rest_is_zeros: impl FnOnce() -> bool) -> bool {
    let page = PAGE_BYTES as u64;
    *header == [0; HEADER_BYTES] && (file_bytes > page || file_bytes == page && rest_is_zeros())
}

/// Whether the first page is zeros behind the header, too.
fn page_is_zeros(file: &OwnedFd) -> bool {
    let mut page = [1; PAGE_BYTES];
    matches!(rustix::io::pread(file, &mut page, 0), Ok(PAGE_BYTES)) && page == [0; PAGE_BYTES]
}

/// The header alone; `None` for a placeholder.
///
/// # Errors
///
/// `Corrupt` and `Incompatible` as in frame.rs.
pub fn read_header(file: &OwnedFd) -> Result<Option<Header>> {
    settled(file, || read_header_once(file))
}

/// The same for a caller that has the gate.
pub fn read_header_once(file: &OwnedFd) -> Result<Option<Header>> {
    let mut header = [0; HEADER_BYTES];
    match rustix::io::pread(file, &mut header, 0) {
        Ok(0) => Ok(None),
        Ok(HEADER_BYTES) => match Header::decode(&header) {
            Err(_) if fstat(file).is_ok_and(|stat| unfinished(&header, size(&stat), || page_is_zeros(file))) => {
                Ok(None)
            }
            decoded => decoded.map(Some),
        },
        Ok(_) => Err(corrupt("the session file is truncated")),
        Err(errno) => Err(failed("a session file cannot be read", errno)),
    }
}

/// The payload of an alias.
pub fn target(key: &Key) -> String {
    format!("{}/{}", key.bin().name(), key.id())
}

fn parse_target(payload: &[u8]) -> Option<Key> {
    let (bin, id) = std::str::from_utf8(payload).ok()?.split_once('/')?;
    Key::in_bin(Bin::new(bin).ok()?, id).ok()
}
