//! What results say of large payloads, as far as it is about the site.
//!
//! It owns one invariant: a payload that was refused or lost speaks against no site whose sessions fit below it, and one that was
//! stored for no site with larger ones. Whose server it was is kept: a private one with its defaults, a private one that was told
//! to take more, or the user's own, which is as it is. It does not know what a store takes that nobody measured: that is the
//! business of the rules.

use std::cmp::Reverse;

use super::candidate::{Candidate, is_cycle, is_of};
use super::measured::is_of_store;
use super::site::Site;
use crate::oversize::{raised_by, stock};
use crate::report::{Outcome, Row};
use crate::selection::AS_CONFIGURED;

/// What became of payloads of about the site's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Large {
    /// One that is no larger was lost: the worst and smallest.
    pub lost: Option<Lost>,
    /// One that is no larger was refused, or a larger one by a limit that the site's exceed: the smallest.
    pub refused: Option<Refused>,
    /// One that is no smaller was stored, or the limit by which it was refused is no smaller. What was taken once can be taken,
    /// whoever refused it at another time, by another setting of a server; what was lost once can be lost again.
    pub taken: Option<Taken>,
}

/// A payload that was acknowledged and not there afterwards, or refused and what it should have replaced was gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its size in bytes.
    pub payload_bytes: u64,
    /// The save had been acknowledged.
    pub silent: bool,
}

/// A payload that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its size in bytes.
    pub payload_bytes: u64,
    /// The limit in bytes that the error named.
    pub limit: Option<u64>,
    /// By the user's own server.
    pub as_configured: bool,
}

/// Whose server took a payload, in the order in which they count: who has one that takes it need not change anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Taken {
    /// A private one that was started with more than its defaults.
    With {
        /// So many bytes, or more.
        bytes: u64,
        /// What it was told.
        setting: &'static str,
    },
    /// The store as it is, on a private server with its defaults if it needs one.
    Stock,
    /// The user's own.
    AsConfigured {
        /// So many bytes, or more.
        bytes: u64,
    },
}

/// Whose server a row is of.
#[derive(Clone, Copy)]
enum Whose {
    Stock,
    Raised(&'static str),
    Own,
}

impl Large {
    /// What one more row says.
    pub(super) fn learn(&mut self, row: &Row, candidate: &Candidate, site: &Site) {
        let Some(whose) = Whose::of(row, candidate, site) else { return };
        let wanted = site.payload_bytes;
        let (payload_bytes, reaches) = (row.payload_bytes as u64, row.payload_bytes as u64 >= wanted);
        let Some(oversize) = row.oversize.as_ref() else {
            if reaches && is_cycle(row) && !row.is_bad() && row.payload_spread == "fixed" {
                self.take(whose.taken(payload_bytes));
            }
            return;
        };
        let (limit, is_reached) = (oversize.limit, payload_bytes <= wanted);
        match oversize.outcome {
            Outcome::Stored if reaches => self.take(whose.taken(payload_bytes)),
            Outcome::Refused if is_reached || limit.is_some_and(|limit| limit < wanted) => {
                let as_configured = matches!(whose, Whose::Own);
                let refused = Refused { payload_bytes, limit, as_configured };
                self.refused = self.refused.into_iter().chain([refused]).min_by_key(Refused::weight);
            }
            Outcome::Refused => limit.into_iter().for_each(|limit| self.take(whose.taken(limit))),
            Outcome::Lost if is_reached => {
                let lost = Lost { payload_bytes, silent: oversize.silent };
                self.lost = self.lost.into_iter().chain([lost]).max_by_key(Lost::weight);
            }
            // The row of what was contradicted has an error, which excludes the store whatever the size is.
            Outcome::Stored | Outcome::Lost | Outcome::Contradicted => {}
        }
    }

    fn take(&mut self, taken: Taken) {
        self.taken = self.taken.max(Some(taken));
    }
}

impl Refused {
    /// The smallest payload and limit are the ones to know, those of the user's own server before all others.
    fn weight(&self) -> (Reverse<bool>, u64, u64) {
        (Reverse(self.as_configured), self.payload_bytes, self.limit.unwrap_or(u64::MAX))
    }
}

impl Lost {
    fn weight(&self) -> (bool, Reverse<u64>) {
        (self.silent, Reverse(self.payload_bytes))
    }
}

impl Whose {
    /// Nobody's, if the row is of another store or tier, or of a server with a setting that the site does not need.
    fn of(row: &Row, candidate: &Candidate, site: &Site) -> Option<Whose> {
        if row.store != candidate.store || !is_of_store(row) {
            return None;
        }
        let server = candidate.capabilities.server;
        // The label of its URL is the user's own word; which of several candidates on no server it means nobody knows.
        if server.is_some() && row.durability == AS_CONFIGURED {
            return Some(Whose::Own);
        }
        if row.durability != site.durability.name() {
            return None;
        }
        let is_needed = || stock(server).is_some_and(|stock| stock.bytes < site.payload_bytes);
        match raised_by(candidate.store, &row.variant) {
            _ if is_of(row, candidate) => Some(Whose::Stock),
            Some(setting) => is_needed().then_some(Whose::Raised(setting)),
            None => None,
        }
    }

    fn taken(self, bytes: u64) -> Taken {
        match self {
            Whose::Stock => Taken::Stock,
            Whose::Raised(setting) => Taken::With { bytes, setting },
            Whose::Own => Taken::AsConfigured { bytes },
        }
    }
}
