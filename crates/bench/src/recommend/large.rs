//! What results say of large payloads, as far as it is about the site.
//!
//! It owns one invariant: a payload that was refused or lost speaks against no site whose sessions fit below it, and one that was
//! stored for no site with larger ones. It does not know what a store takes that nobody measured: that is the business of the
//! rules.

use std::cmp::Reverse;

use super::site::Site;
use crate::report::{Outcome, Row};

/// What became of payloads of about the site's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Large {
    /// One that is no larger was refused, or a larger one by a limit that the site's exceed.
    Refused {
        /// Its size in bytes.
        payload_bytes: u64,
        /// The limit in bytes that the error named.
        limit: Option<u64>,
    },
    /// One that is no smaller was stored, or the limit by which it was refused is no smaller.
    Taken,
    /// One that is no larger was acknowledged and not there afterwards, or refused and what it should have replaced was gone.
    Lost {
        /// Its size in bytes.
        payload_bytes: u64,
        /// The save had been acknowledged.
        silent: bool,
    },
}

impl Large {
    /// What a row says to the site; of payloads far from the site's, nothing.
    pub(super) fn of(row: &Row, site: &Site) -> Option<Large> {
        let oversize = row.oversize.as_ref()?;
        let (payload_bytes, wanted, limit) = (row.payload_bytes as u64, site.payload_bytes, oversize.limit);
        let (reaches, is_reached) = (payload_bytes >= wanted, payload_bytes <= wanted);
        match oversize.outcome {
            Outcome::Stored => reaches.then_some(Large::Taken),
            Outcome::Refused if is_reached || limit.is_some_and(|limit| limit < wanted) => {
                Some(Large::Refused { payload_bytes, limit })
            }
            Outcome::Refused => limit.map(|_| Large::Taken),
            Outcome::Lost => is_reached.then_some(Large::Lost { payload_bytes, silent: oversize.silent }),
            // Its row has an error, which excludes it whatever the size is.
            Outcome::Contradicted => None,
        }
    }

    /// Of two the one that counts, in whichever order they come. What was taken once can be taken, whoever refused it at another
    /// time, by another setting of a server; what was lost once can be lost again.
    pub(super) fn graver(self, other: Large) -> Large {
        if other.weight() > self.weight() { other } else { self }
    }

    /// Of the same kind the smallest payload and limit are the ones to know.
    fn weight(self) -> (u8, Reverse<u64>, Reverse<u64>) {
        let (rank, payload_bytes, limit) = match self {
            Large::Refused { payload_bytes, limit } => (0, payload_bytes, limit.unwrap_or(u64::MAX)),
            Large::Taken => (1, 0, 0),
            Large::Lost { payload_bytes, silent } => (2 + u8::from(silent), payload_bytes, 0),
        };
        (rank, Reverse(payload_bytes), Reverse(limit))
    }
}
