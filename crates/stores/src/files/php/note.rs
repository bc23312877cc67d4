//! Facts that PHP's session files cannot express, in an extended attribute of the file.
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
//! PHP keeps the attribute when it writes the file, so the note identifies its payload: if it does
//! not fit, PHP has written since. Invariant: a note is believed only if its own sum is right.
//! PHP's files, and file systems without user attributes (tmpfs before Linux 6.6), have no note:
//! version, creation and absolute end are unknown.

use std::os::fd::OwnedFd;

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::io::Errno;
use sessile_core::{Head, Result, Timestamp};

use crate::files::system::failed;
use crate::files::words::{is_sealed, moment, ms, seal, sum, words};

const NAME: &str = "user.sessile";
pub const NOTE_BYTES: usize = 56;

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
    pub fn new(payload: &[u8], head: Head) -> Note {
        let Head { version, created, written, ends, .. } = head;
        let (payload_bytes, payload_sum) = (payload.len() as u64, sum(payload));
        Note { version, created, written, ends, payload_bytes, payload_sum }
    }

    /// A note for a payload of PHP's, which it never fits.
    pub fn unknown(created: Timestamp) -> Note {
        let (version, payload_bytes, payload_sum) = (0, u64::MAX, 0);
        Note { version, created, written: created, ends: None, payload_bytes, payload_sum }
    }

    pub fn fits(&self, payload: &[u8]) -> bool {
        self.payload_bytes == payload.len() as u64 && self.payload_sum == sum(payload)
    }

    pub fn encode(&self) -> [u8; NOTE_BYTES] {
        seal(&[
            1,
            self.version,
            self.created.as_ms(),
            self.written.as_ms(),
            ms(self.ends),
            self.payload_bytes,
            self.payload_sum.into(),
        ])
    }

    pub fn decode(bytes: &[u8]) -> Option<Note> {
        let [1, version, created, written, ends, payload_bytes, sums] = words(bytes)? else {
            return None;
        };
        let [created, written] = [created, written].map(Timestamp::from_ms);
        let (ends, payload_sum) = (moment(ends), (sums & 0xffff_ffff) as u32);
        let note = Note { version, created, written, ends, payload_bytes, payload_sum };
        is_sealed(bytes).then_some(note)
    }

    /// `None` if it is missing or its sum is wrong.
    pub fn read(file: &OwnedFd) -> Option<Note> {
        let mut bytes = [0; NOTE_BYTES];
        match fgetxattr(file, NAME, &mut bytes) {
            Ok(length) => Note::decode(bytes.get(..length)?),
            Err(_) => None,
        }
    }

    pub fn write(&self, file: &OwnedFd) -> Result<()> {
        match fsetxattr(file, NAME, &self.encode(), XattrFlags::empty()) {
            // Without user attributes the session works, but has no version.
            Ok(()) | Err(Errno::NOTSUP) => Ok(()),
            Err(errno) => Err(failed("the attribute of a session file cannot be written", errno)),
        }
    }
}

/// The head of a record from its payload, the file's time and its note. `None` if the file has no
/// session.
pub fn head(
    payload: &[u8],
    mtime: Timestamp,
    expires: Timestamp,
    note: Option<Note>,
) -> Option<Head> {
    let (ends, expires) = (note.and_then(|note| note.ends), capped(expires, note));
    let (version, created, written) = match note {
        Some(note) if note.fits(payload) => (note.version, note.created, note.written),
        // PHP creates an empty file when a session starts, and takes an empty file for an empty
        // session.
        _ if payload.is_empty() => return None,
        // Written by PHP: at least one write more than the note knows of.
        Some(Note { version: 0, created, .. }) => (0, created, mtime),
        Some(Note { version, created, .. }) => (version + 1, created, mtime),
        None => (0, mtime, mtime),
    };
    Some(Head { version, created, written, expires, ends, owner: None })
}

/// The expiry of a record, not after the absolute end in its note.
pub fn capped(expires: Timestamp, note: Option<Note>) -> Timestamp {
    note.and_then(|note| note.ends).map_or(expires, |ends| ends.min(expires))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_of_phps_is_not_taken_for_the_noted_one() {
        let [created, written, now] = [1, 2, 9].map(Timestamp::from_ms);
        let version =
            |version| Head { version, created, written, expires: now, ends: None, owner: None };
        let note = Note::new(b"a|i:1;", version(3));
        assert_eq!(Note::decode(&note.encode()), Some(note));
        let ours = head(b"a|i:1;", now, now, Some(note)).unwrap();
        assert_eq!((ours.version, ours.written), (3, written));
        let phps = head(b"a|i:2;", now, now, Some(note)).unwrap();
        assert_eq!((phps.version, phps.created, phps.written), (4, created, now));
        assert!(head(b"", now, now, Some(note)).is_none());
        assert!(head(b"", now, now, Some(Note::new(b"", version(1)))).is_some());
    }
}
