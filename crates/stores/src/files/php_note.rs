//! What PHP's session files cannot say, kept in an extended attribute of the file.
//!
//! ```text
//!   0      8         16        24        32        40        48     52     56
//!   +------+---------+---------+---------+---------+---------+------+------+
//!   |format|version  |created  |written  |ends     |payload  |pay-  |note  |
//!   |1     |         |ms       |ms       |ms or 0  |bytes    |load  |sum   |
//!   |      |         |         |         |         |         |sum   |      |
//!   +------+---------+---------+---------+---------+---------+------+------+
//! ```
//!
//! Little-endian, sums are the low halves of XXH3-64. PHP keeps the attribute when it writes the file, so the
//! note also says for which payload it was made: one that does not fit was written by PHP since. Invariant: a
//! note is believed only if its own sum is right. Files of PHP's, and file systems without user attributes
//! (tmpfs before Linux 6.6), have none, which costs the version, the creation and the absolute end.

use std::os::fd::OwnedFd;

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::io::Errno;
use sessile_core::{Record, Result, Timestamp};
use xxhash_rust::xxh3::xxh3_64;

use super::system::failed;

const NAME: &str = "user.sessile";
/// Bytes of a note.
pub const NOTE_BYTES: usize = 56;

/// What is noted about a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    pub version: u64,
    pub created: Timestamp,
    pub written: Timestamp,
    pub ends: Option<Timestamp>,
    pub payload_bytes: u64,
    pub payload_sum: u32,
}

impl Note {
    /// The note for a new payload.
    pub fn of(payload: &[u8], version: u64, created: Timestamp, written: Timestamp, ends: Option<Timestamp>) -> Note {
        Note { version, created, written, ends, payload_bytes: payload.len() as u64, payload_sum: sum(payload) }
    }

    /// A note that carries an absolute end for a payload of PHP's, which it never fits.
    pub fn of_unknown(created: Timestamp, ends: Option<Timestamp>) -> Note {
        Note { version: 0, created, written: created, ends, payload_bytes: u64::MAX, payload_sum: 0 }
    }

    pub fn fits(&self, payload: &[u8]) -> bool {
        self.payload_bytes == payload.len() as u64 && self.payload_sum == sum(payload)
    }

    pub fn encode(&self) -> Vec<u8> {
        let ends = self.ends.map_or(0, Timestamp::as_ms);
        let numbers = [1, self.version, self.created.as_ms(), self.written.as_ms(), ends, self.payload_bytes];
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        bytes.extend_from_slice(&self.payload_sum.to_le_bytes());
        let own = sum(&bytes);
        bytes.extend_from_slice(&own.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Note> {
        let number = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let half = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        if bytes.len() != NOTE_BYTES || number(0)? != 1 || half(52)? != sum(bytes.get(..52)?) {
            return None;
        }
        Some(Note {
            version: number(8)?,
            created: Timestamp::from_ms(number(16)?),
            written: Timestamp::from_ms(number(24)?),
            ends: Some(number(32)?).filter(|ends| *ends != 0).map(Timestamp::from_ms),
            payload_bytes: number(40)?,
            payload_sum: half(48)?,
        })
    }

    /// The note of a file; `None` where there is none, or none that can be believed.
    pub fn read(file: &OwnedFd) -> Option<Note> {
        let mut bytes = [0; NOTE_BYTES];
        match fgetxattr(file, NAME, &mut bytes) {
            Ok(length) => Note::decode(bytes.get(..length)?),
            Err(_) => None,
        }
    }

    pub fn write(&self, file: &OwnedFd) -> Result<()> {
        match fsetxattr(file, NAME, &self.encode(), XattrFlags::empty()) {
            // Without user attributes the session works, as PHP's own do, but knows no version.
            Ok(()) | Err(Errno::NOTSUP) => Ok(()),
            Err(errno) => Err(failed("the attribute of a session file cannot be written", errno)),
        }
    }
}

/// A record from a payload, the file's time and its note, if any. `None` for a file without a session in it.
pub fn record(payload: Vec<u8>, mtime: Timestamp, expires: Timestamp, note: Option<Note>) -> Option<Record> {
    let ends = note.and_then(|note| note.ends);
    let expires = ends.map_or(expires, |ends| ends.min(expires));
    match note {
        Some(note) if note.fits(&payload) => {
            let Note { version, created, written, .. } = note;
            Some(Record { payload, version, created, written, expires, ends })
        }
        // PHP creates an empty file when a session starts, and an empty file is an empty session to it.
        _ if payload.is_empty() => None,
        // Written by PHP: at least one write more than the note knows of.
        Some(note) => {
            let version = if note.version == 0 { 0 } else { note.version + 1 };
            Some(Record { payload, version, created: note.created, written: mtime, expires, ends })
        }
        None => Some(Record { payload, version: 0, created: mtime, written: mtime, expires, ends }),
    }
}

/// The check sum of payloads and of their parts.
pub fn sum(bytes: &[u8]) -> u32 {
    (xxh3_64(bytes) & 0xffff_ffff) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_of_phps_is_not_taken_for_the_noted_one() {
        let [created, written, now] = [1, 2, 9].map(Timestamp::from_ms);
        let note = Note::of(b"a|i:1;", 3, created, written, None);
        assert_eq!(Note::decode(&note.encode()), Some(note));
        let ours = record(b"a|i:1;".to_vec(), now, now, Some(note)).unwrap();
        assert_eq!((ours.version, ours.written), (3, written));
        let phps = record(b"a|i:2;".to_vec(), now, now, Some(note)).unwrap();
        assert_eq!((phps.version, phps.created, phps.written), (4, created, now));
        assert!(record(Vec::new(), now, now, Some(note)).is_none());
        assert!(record(Vec::new(), now, now, Some(Note::of(b"", 1, created, written, None))).is_some());
    }
}
