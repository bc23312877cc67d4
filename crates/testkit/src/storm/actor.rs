//! Makes calls on a store and reports each before and after.
//!
//! Invariant: the report of a call is out before the store is asked, the report of its answer only after the
//! store has answered. It judges nothing; errors that the contract knows for a call are answers.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use sessile_core::{Error, ErrorKind, Key, Lease, Result, Sessions, Ttl};

use super::event::{Answer, Call, Event, now_ns};
use super::names::Names;
use super::payload::{Content, content, seal};
use crate::check::SECRET;

/// Longest wait for a lock. Longer than any stop of a holder, so that a timeout means trouble.
pub const WAIT: Duration = Duration::from_secs(3);

/// Someone who works on the store.
pub struct Actor {
    store: Sessions,
    /// Part of every id, so that a run never meets the sessions of another.
    nonce: u64,
    names: Names,
    say: Box<dyn FnMut(u64, Event) + Send>,
}

/// A granted lock.
pub struct Held {
    lease: Lease,
    /// The session that is really locked.
    pub id: u64,
    pub content: Content,
    pub version: u64,
}

/// The key of a session of a run.
pub fn key(nonce: u64, id: u64) -> Result<Key> {
    Key::session(&format!("{SECRET}{nonce:016x}{id:016x}"))
}

fn ttl(ms: u64) -> Result<Ttl> {
    Ttl::sliding(Duration::from_millis(ms))
}

impl Actor {
    /// Reports through `say`, which must not lose what it is given if this process is killed afterwards.
    pub fn new(store: Sessions, nonce: u64, say: Box<dyn FnMut(u64, Event) + Send>) -> Actor {
        Actor { store, nonce, names: Names::of_run(nonce), say }
    }

    /// Makes one call. `known` are the errors that the contract has for it.
    fn make<T>(
        &mut self,
        call: Call,
        known: &[&str],
        work: impl FnOnce(&Sessions, u64) -> Result<T>,
        told: impl FnOnce(&T) -> Answer,
    ) -> Option<T> {
        (self.say)(now_ns(), Event::Call(call));
        let done = work(&self.store, self.nonce);
        let answer = match &done {
            Ok(value) => told(value),
            Err(error) => refusal(error, known),
        };
        (self.say)(now_ns(), Event::Answer(answer));
        done.ok()
    }

    /// Takes a lock.
    pub fn begin(&mut self, id: u64) -> Option<Held> {
        let names = self.names.clone();
        let work = |store: &Sessions, nonce| store.begin(&key(nonce, id)?, WAIT);
        let mut held = None;
        let begun = self.make(Call::Begin { id }, &["lock-timeout"], work, |begun| {
            let version = begun.record.as_ref().map_or(0, |record| record.version);
            let content = content(begun.record.as_ref());
            let id = names.number(begun.lease.key()).unwrap_or(id);
            held = Some((id, content, version));
            Answer::Granted { id, fence: begun.lease.fence(), content, version }
        })?;
        held.map(|(id, content, version)| Held { lease: begun.lease, id, content, version })
    }

    /// Stores under the lease; without a token an empty payload.
    pub fn commit(&mut self, held: Held, token: Option<u64>, bytes: usize, ttl_ms: u64) {
        let (id, counter) = (held.id, held.next_counter());
        let payload = token.map_or_else(Vec::new, |token| seal(id, token, counter, bytes));
        let work = |_: &Sessions, _| held.lease.commit(&payload, ttl(ttl_ms)?);
        self.make(Call::Commit { id, token, ttl_ms }, &["destroyed", "stale", "gone"], work, |()| Answer::Done);
    }

    /// Gives the lease up; `drop` without a word.
    pub fn release(&mut self, held: Held, silently: bool) {
        let work = |_: &Sessions, _| {
            if !silently {
                return held.lease.release();
            }
            drop(held.lease);
            Ok(())
        };
        self.make(Call::Release { id: held.id }, &[], work, |()| Answer::Done);
    }

    /// Reads.
    pub fn peek(&mut self, id: u64) {
        let work = |store: &Sessions, nonce| store.peek(&key(nonce, id)?);
        self.make(Call::Peek { id }, &[], work, |record| Answer::Found {
            content: content(record.as_ref()),
            version: record.as_ref().map_or(0, |record| record.version),
        });
    }

    /// Locks and stores in a session of its own, without a word in between, for this long. Returns the last token.
    /// What it finds must be what it left: anything else is a failure.
    pub fn run(&mut self, id: u64, tokens: RangeInclusive<u64>, left: Option<u64>, long: Duration) -> Option<u64> {
        let work = |store: &Sessions, nonce| {
            let (start, key, mut left) = (Instant::now(), key(nonce, id)?, left);
            for token in tokens.clone() {
                let begun = store.begin(&key, WAIT)?;
                let found = match content(begun.record.as_ref()) {
                    Content::Missing => None,
                    Content::Sealed { token, .. } => Some(token),
                    Content::Empty | Content::Torn { .. } => Some(0),
                };
                if found != left {
                    let why = format!("a run found {found:?} where it had left {left:?}");
                    return Err(Error::new(ErrorKind::Corrupt, why));
                }
                let counter = begun.record.map_or(0, |record| record.version) + 1;
                let bytes = 100 + (token % 64) as usize * 40;
                begun.lease.commit(&seal(id, token, counter, bytes), ttl(3_600_000)?)?;
                left = Some(token);
                if start.elapsed() >= long {
                    break;
                }
            }
            Ok(left.unwrap_or(0))
        };
        let first = *tokens.start();
        self.make(Call::Run { id, first }, &[], work, |last| Answer::Ran { last: *last })
    }

    /// Moves the expiry.
    pub fn touch(&mut self, id: u64, ttl_ms: u64) {
        let work = |store: &Sessions, nonce| store.touch(&key(nonce, id)?, ttl(ttl_ms)?);
        self.make(Call::Touch { id, ttl_ms }, &["gone"], work, |()| Answer::Done);
    }

    /// Removes.
    pub fn destroy(&mut self, id: u64) {
        let work = |store: &Sessions, nonce| store.destroy(&key(nonce, id)?);
        self.make(Call::Destroy { id }, &[], work, |()| Answer::Done);
    }

    /// Stores what must not exist.
    pub fn create(&mut self, id: u64, token: u64, bytes: usize, ttl_ms: u64) {
        let payload = seal(id, token, 1, bytes);
        let work = |store: &Sessions, nonce| store.create(&key(nonce, id)?, &payload, ttl(ttl_ms)?);
        self.make(Call::Create { id, token, ttl_ms }, &["exists"], work, |()| Answer::Done);
    }

    /// Moves the leased record.
    pub fn regenerate(&mut self, held: &mut Held, new: u64, grace_ms: u64) -> bool {
        if let Ok(key) = key(self.nonce, new) {
            self.names.note(&self.store, &key, new);
        }
        let lease = &mut held.lease;
        let work =
            |_: &Sessions, nonce| lease.regenerate(&key(nonce, new)?, Duration::from_millis(grace_ms)).map(|()| new);
        let known = ["exists", "destroyed", "stale", "gone"];
        let moved = self.make(Call::Regenerate { id: held.id, new, grace_ms }, &known, work, |_| Answer::Done);
        held.id = moved.unwrap_or(held.id);
        moved.is_some()
    }
}

impl Held {
    /// The counter of the next payload: one more than the version that was found.
    fn next_counter(&self) -> u64 {
        match self.content {
            Content::Sealed { counter, .. } if self.version == 0 => counter + 1,
            _ => self.version + 1,
        }
    }
}

fn refusal(error: &Error, known: &[&str]) -> Answer {
    let code = error.kind().code();
    if known.contains(&code) { Answer::Refused(code.to_owned()) } else { Answer::Failed(format!("{error:?}")) }
}
