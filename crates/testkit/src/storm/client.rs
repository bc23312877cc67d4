//! Makes calls on a store and reports each before and after.
//!
//! Invariant: the report of a call is out before the store is asked, that of its result only after
//! the store has answered. The client judges nothing.

use std::io::Write;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use sessile_core::{Error, ErrorKind, Key, Lease, Result, Sessions};

use super::event::{CallResult, SeenPayload, SeenRecord, StoreCall, WorkerEvent, now_ns};
use super::run_sessions::RunSessions;
use crate::sealed::Seal;
use crate::testbed::{ms, ttl};

/// Longest wait for a lock. Longer than any stop of a holder, so that a timeout means trouble.
pub const WAIT: Duration = Duration::from_secs(3);
pub const HOUR_MS: u64 = 3_600_000;

pub struct ReportingClient {
    store: Sessions,
    sessions: RunSessions,
    worker: usize,
    /// Must not lose what it is given if this process is killed afterwards.
    reports: Box<dyn Write + Send>,
}

pub struct HeldLock {
    lease: Lease,
    /// The session that is really locked.
    pub id: u64,
    pub seen: SeenRecord,
}

impl ReportingClient {
    pub fn new(
        store: Sessions,
        sessions: RunSessions,
        worker: usize,
        reports: Box<dyn Write + Send>,
    ) -> ReportingClient {
        ReportingClient { store, sessions, worker, reports }
    }

    fn report(&mut self, event: &WorkerEvent) {
        let line = event.line(self.worker, now_ns());
        // Fails only when the storm has ended, and then nobody needs the report.
        let _ = self.reports.write_all(line.as_bytes()).and_then(|()| self.reports.flush());
    }

    /// Makes one call. `known` are the errors that the contract has for it (`gone|stale`).
    fn call<T>(
        &mut self,
        id: u64,
        call: StoreCall,
        known: &str,
        work: impl FnOnce(&ReportingClient, &Key) -> Result<T>,
        result: impl FnOnce(&T) -> CallResult,
    ) -> Option<T> {
        let key = self.sessions.key(id);
        self.report(&WorkerEvent::Call(id, call));
        let done = work(self, &key);
        let result = match &done {
            Ok(value) => result(value),
            Err(error) if known.split('|').any(|code| code == error.kind().code()) => {
                CallResult::Refused(error.kind().code().to_owned())
            }
            Err(error) => CallResult::failed(&format!("{error:?}")),
        };
        self.report(&WorkerEvent::Result(result));
        done.ok()
    }

    fn do_call(
        &mut self,
        id: u64,
        call: StoreCall,
        known: &str,
        work: impl FnOnce(&Sessions, &Key) -> Result<()>,
    ) -> bool {
        let work = |client: &ReportingClient, key: &Key| work(&client.store, key);
        self.call(id, call, known, work, |()| CallResult::Done).is_some()
    }

    pub fn begin(&mut self, id: u64) -> Option<HeldLock> {
        let work = |client: &ReportingClient, key: &Key| {
            let begun = client.store.begin(key, WAIT)?;
            let id = client.sessions.number(begun.lease.key()).unwrap_or(id);
            let seen = SeenRecord::from_record(begun.record.as_ref());
            Ok(HeldLock { lease: begun.lease, id, seen })
        };
        self.call(id, StoreCall::Begin, "lock-timeout", work, |held| CallResult::Granted {
            id: held.id,
            fence: held.lease.fence(),
            seen: held.seen,
        })
    }

    /// Stores under the lease; without a token an empty payload.
    pub fn commit(&mut self, held: HeldLock, token: Option<u64>, bytes: usize, ttl_ms: u64) {
        let (session, counter) = (held.id, held.next_counter());
        let seal = |token| Seal { session, token, counter }.payload(bytes);
        let payload = token.map_or_else(Vec::new, seal);
        let call = StoreCall::Commit { token, ttl_ms };
        let commit = |_: &Sessions, _: &Key| held.lease.commit(&payload, ttl(ms(ttl_ms)));
        self.do_call(session, call, "destroyed|stale|gone", commit);
    }

    pub fn release(&mut self, held: HeldLock, silently: bool) {
        self.do_call(held.id, StoreCall::Release, "", |_, _| {
            if !silently {
                return held.lease.release();
            }
            drop(held.lease);
            Ok(())
        });
    }

    pub fn peek(&mut self, id: u64) {
        let work = |client: &ReportingClient, key: &Key| {
            client.store.peek(key).map(|record| SeenRecord::from_record(record.as_ref()))
        };
        self.call(id, StoreCall::Peek, "", work, |seen| CallResult::Found(*seen));
    }

    /// Locks and stores for this long in a session of its own, without a report in between. Returns
    /// the last token. To find anything else than what it left is a failure.
    pub fn run(
        &mut self,
        id: u64,
        tokens: RangeInclusive<u64>,
        mut left: Option<u64>,
        during: Duration,
    ) -> Option<u64> {
        let call = StoreCall::Run { first: *tokens.start() };
        let work = |client: &ReportingClient, key: &Key| {
            let start = Instant::now();
            for token in tokens {
                let begun = client.store.begin(key, WAIT)?;
                let seen = SeenRecord::from_record(begun.record.as_ref());
                if seen.token() != left {
                    let found = seen.token();
                    let why = format!("a run found {found:?} where it had left {left:?}");
                    return Err(Error::new(ErrorKind::Corrupt, why));
                }
                let seal = Seal { session: id, token, counter: seen.version + 1 };
                let payload = seal.payload(100 + (token % 64) as usize * 40);
                begun.lease.commit(&payload, ttl(ms(HOUR_MS)))?;
                left = Some(token);
                if start.elapsed() >= during {
                    break;
                }
            }
            Ok(left.unwrap_or(0))
        };
        self.call(id, call, "", work, |last| CallResult::Ran { last: *last })
    }

    pub fn touch(&mut self, id: u64, ttl_ms: u64) {
        let call = StoreCall::Touch { ttl_ms };
        self.do_call(id, call, "gone", |store, key| store.touch(key, ttl(ms(ttl_ms))));
    }

    pub fn destroy(&mut self, id: u64) {
        self.do_call(id, StoreCall::Destroy, "", |store, key| store.destroy(key));
    }

    pub fn create(&mut self, id: u64, token: u64, bytes: usize, ttl_ms: u64) {
        let payload = Seal { session: id, token, counter: 1 }.payload(bytes);
        self.do_call(id, StoreCall::Create { token, ttl_ms }, "exists", |store, key| {
            store.create(key, &payload, ttl(ms(ttl_ms)))
        });
    }

    pub fn regenerate(&mut self, held: &mut HeldLock, new: u64, grace_ms: u64) -> bool {
        self.sessions.note(&self.store, new);
        let (call, key) = (StoreCall::Regenerate { new, grace_ms }, self.sessions.key(new));
        let moved = self.do_call(held.id, call, "exists|destroyed|stale|gone", |_, _| {
            held.lease.regenerate(&key, ms(grace_ms))
        });
        if moved {
            held.id = new;
        }
        moved
    }
}

impl HeldLock {
    fn next_counter(&self) -> u64 {
        match self.seen.payload {
            SeenPayload::Sealed(seal) if self.seen.version == 0 => seal.counter + 1,
            _ => self.seen.version + 1,
        }
    }
}
