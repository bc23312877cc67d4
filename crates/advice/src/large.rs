//! What results say about payloads of the site's size.
//!
//! Invariant: a refused or lost payload speaks only against sites with sessions at least as large,
//! a stored one only for sites with sessions no larger, in whatever tier. The kind of server is
//! kept: private with its defaults, private with a raised limit, or the user's own. Limits that
//! nobody measured belong to the rules.

use std::cmp::Reverse;

use sessile_results::AS_CONFIGURED;
use sessile_results::server_limits::{raised_setting, stock};
use sessile_results::{Row, SaveOutcome};

use crate::candidate::{Candidate, is_cycle, is_of};
use crate::measured::is_of_store;
use crate::site::Site;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LargePayloads {
    /// The worst and smallest lost payload that is no larger than the site's.
    pub lost: Option<LostPayload>,
    /// The smallest refusal that applies to the site: a payload no larger, or a named limit below
    /// the site's size.
    pub refused: Option<RefusedPayload>,
    /// A payload no smaller was stored, or refused by a limit no smaller. A payload accepted once
    /// can be accepted, with the right server setting; one lost once can be lost again.
    pub accepted: Option<AcceptedPayload>,
}

/// A payload that was acknowledged and missing afterwards, or whose refusal destroyed the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPayload {
    pub payload_bytes: u64,
    pub by: MeasuredServer,
    /// The save had been acknowledged.
    pub silent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedPayload {
    pub payload_bytes: u64,
    /// The limit in bytes that the error named.
    pub limit: Option<u64>,
    /// Refused by the user's own server.
    pub as_configured: bool,
}

/// A payload that was accepted. A later server takes precedence: it needs no change of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AcceptedPayload {
    pub by: MeasuredServer,
    pub bytes: u64,
}

/// The server that a row was measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MeasuredServer {
    /// Started with the setting that raised its limit.
    Raised(&'static str),
    /// A private server with its defaults, or a store without a server.
    Default,
    /// The user's own server.
    Users,
}

impl LargePayloads {
    pub(crate) fn add_row(&mut self, row: &Row, candidate: &Candidate, site: &Site) {
        let Some(by) = MeasuredServer::of(row, candidate, site) else { return };
        let wanted = site.payload_bytes;
        let (payload_bytes, reaches) =
            (row.question.payload_bytes as u64, row.question.payload_bytes as u64 >= wanted);
        let Some(oversize) = row.oversize.as_ref() else {
            if reaches && is_cycle(row) && !row.is_bad() && row.question.payload_spread == "fixed" {
                self.accept(by, payload_bytes);
            }
            return;
        };
        let (limit, is_reached) = (oversize.limit, payload_bytes <= wanted);
        match oversize.outcome {
            SaveOutcome::Stored if reaches => self.accept(by, payload_bytes),
            SaveOutcome::Refused if is_reached || limit.is_some_and(|limit| limit < wanted) => {
                let as_configured = by == MeasuredServer::Users;
                let refused = RefusedPayload { payload_bytes, limit, as_configured };
                self.refused =
                    self.refused.into_iter().chain([refused]).min_by_key(RefusedPayload::weight);
            }
            SaveOutcome::Refused => limit.into_iter().for_each(|limit| self.accept(by, limit)),
            SaveOutcome::Lost if is_reached => {
                let lost = LostPayload { payload_bytes, by, silent: oversize.silent };
                self.lost = self.lost.into_iter().chain([lost]).max_by_key(LostPayload::weight);
            }
            // A contradicted row has an error, which excludes the store at any size.
            SaveOutcome::Stored | SaveOutcome::Lost | SaveOutcome::Contradicted => {}
        }
    }

    fn accept(&mut self, by: MeasuredServer, bytes: u64) {
        self.accepted = self.accepted.max(Some(AcceptedPayload { by, bytes }));
    }
}

impl RefusedPayload {
    /// The user's own server first, then the smallest payload and limit.
    fn weight(&self) -> (Reverse<bool>, u64, u64) {
        (Reverse(self.as_configured), self.payload_bytes, self.limit.unwrap_or(u64::MAX))
    }
}

impl LostPayload {
    /// Silent ones first, then those of a server with settings of its own, then the smallest.
    fn weight(&self) -> (bool, bool, Reverse<u64>) {
        (self.silent, self.by != MeasuredServer::Default, Reverse(self.payload_bytes))
    }
}

impl MeasuredServer {
    /// `None` for another store, and for a raised limit that the site does not need.
    fn of(row: &Row, candidate: &Candidate, site: &Site) -> Option<MeasuredServer> {
        if row.subject.store != candidate.rows.0 || !is_of_store(row) {
            return None;
        }
        let server = candidate.capabilities.server;
        // A URL's label is the user's; for embedded stores it does not identify a candidate.
        if row.question.durability == AS_CONFIGURED {
            return server.is_some().then_some(MeasuredServer::Users);
        }
        let is_needed = || stock(server).is_some_and(|stock| stock.bytes < site.payload_bytes);
        match raised_setting(candidate.store, &row.subject.variant) {
            _ if is_of(row, candidate) => Some(MeasuredServer::Default),
            Some(setting) => is_needed().then_some(MeasuredServer::Raised(setting)),
            None => None,
        }
    }
}
