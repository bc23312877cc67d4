//! Finding a session: from a key over regenerated ids to the entry, its lock and its record.

use std::time::{Duration, Instant};

use sessile_core::{Error, ErrorKind, Found, Holder, Key, Locked, Record, Result, Timestamp, Trace};

use crate::bins;
use crate::engine::Engine;
use crate::entries::{Place, find_or_take, leave};
use crate::index;
use crate::layout::PROCESSES_MAX;
use crate::lock::{self, lock, unlock};
use crate::plane::{Digest, Entry, Plane};
use crate::process::{Process, slot};
use crate::record::{Look, Part, Snapshot, TRIES, WHOLE, corrupt, look};
use crate::sync::Ordering;
use crate::words::{Kind, Lock, State};

/// Regenerated ids may lead to ids that were regenerated themselves; more steps than this are a loop.
pub const ALIAS_STEPS_MAX: usize = 16;
/// Looks under the lock: only a destroy and a move can disturb them, and neither goes on for ever.
pub const LOCKED_TRIES: usize = 10_000;
/// Fresh starts of one call because an entry went away in between. Each needs a change by someone else at just that
/// moment; so many mean that the index leads to an entry that does not belong there.
pub const FRESH_STARTS_MAX: usize = 10_000;
/// Milliseconds of a fence lie above these bits, so that a fence tells since when its holder holds.
const FENCE_TIME_SHIFT: u32 = 20;
/// How long a reader that was disturbed again and again waits for the lock.
const PIN_WAIT: Duration = Duration::from_secs(60);

/// A lease.
pub struct Held {
    pub(crate) entry: u64,
    pub(crate) lock: Lock,
    pub(crate) digest: Digest,
    pub(crate) bin: u64,
    pub(crate) fence: u64,
    /// The state under which the record was read. A commit is refused when its version has changed.
    pub(crate) state: State,
    /// What a commit carries on; `None` when no live record was found.
    pub(crate) base: Option<Base>,
}

/// What a new payload inherits from the old record.
#[derive(Clone, Copy)]
pub(crate) struct Base {
    pub version: u64,
    pub created: Timestamp,
    pub ends: Option<Timestamp>,
}

/// What lies behind an entry, as the contract sees it.
pub(crate) enum Meaning {
    /// A live record.
    Live(Snapshot),
    /// A regenerated id within its grace.
    LeadsTo(Digest),
    /// Nothing, and what is known about it.
    Nothing(State, Trace),
    /// The entry is of no use any more: find the key's entry again.
    Elsewhere,
    /// It is leaving the index; who wants the key can help.
    Leaving,
    /// It changes too fast to be read without the lock.
    Restless,
}

#[inline(always)]
pub(crate) fn meaning(
    plane: &Plane,
    entry: &Entry<'_>,
    digest: Digest,
    part: Part,
    tries: usize,
    now: Timestamp,
) -> Result<Meaning> {
    Ok(match look(plane, entry, digest, part, tries)? {
        Look::Elsewhere => Meaning::Elsewhere,
        Look::Restless => Meaning::Restless,
        Look::Bare(state) => match state.kind() {
            Kind::Leaving => Meaning::Leaving,
            Kind::Destroyed if state.forgotten_at() > now => Meaning::Nothing(state, Trace::Destroyed),
            _ => Meaning::Nothing(state, Trace::Unknown),
        },
        Look::Record(snapshot) if snapshot.state.kind() == Kind::Live => {
            if snapshot.expires > now {
                Meaning::Live(snapshot)
            } else {
                Meaning::Nothing(snapshot.state, Trace::Unknown)
            }
        }
        Look::Record(snapshot) => {
            let alias = match snapshot {
                snapshot if part.has_payload() => snapshot,
                _ => match look(plane, entry, digest, WHOLE, LOCKED_TRIES)? {
                    Look::Record(alias) if alias.state.kind() == Kind::Regenerated => alias,
                    _ => return Ok(Meaning::Restless), // it became something else in between
                },
            };
            match alias_of(&alias.payload) {
                Some((target, grace_ends)) if grace_ends > now => Meaning::LeadsTo(target),
                Some(_) if alias.expires > now => Meaning::Nothing(alias.state, Trace::Regenerated),
                Some(_) => Meaning::Nothing(alias.state, Trace::Unknown),
                None => return Err(corrupt()),
            }
        }
    })
}

/// The payload of a regenerated id: where it leads, until when.
pub(crate) fn alias_payload(target: Digest, grace_ends: Timestamp) -> Vec<u8> {
    [target.0, target.1, grace_ends.as_ms()].iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub(crate) fn alias_of(payload: &[u8]) -> Option<(Digest, Timestamp)> {
    let (words, []) = payload.as_chunks::<8>() else { return None };
    let [first, second, grace] = words else { return None };
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    Some((Digest(word(first), word(second)), Timestamp::from_ms(word(grace))))
}

enum Step {
    Locked(Locked<Held>),
    LeadsTo(Digest),
    Again,
}

impl Engine {
    pub(crate) fn begin_session(&self, key: &Key, wait_max: Duration) -> Result<Locked<Held>> {
        let me = self.me()?;
        let asked = self.digest(key);
        let bin = bins::number(&self.plane, me, key.bin())?;
        let mut digest = asked;
        let mut steps = 0;
        // Looked at only when something has to be waited for or done again: a clock costs as much as a lock.
        let mut start = None;
        for _ in 0..FRESH_STARTS_MAX {
            let left = start.map_or(wait_max, |start: Instant| wait_max.saturating_sub(start.elapsed()));
            match self.begin_at(me, digest, bin, left)? {
                Step::Again => {}
                Step::LeadsTo(next) => {
                    digest = next;
                    steps += 1;
                    if steps > ALIAS_STEPS_MAX {
                        break;
                    }
                }
                Step::Locked(mut locked) => {
                    locked.found.moved_to = (digest != asked).then(|| stored_key(key, digest));
                    return Ok(locked);
                }
            }
            start.get_or_insert_with(Instant::now);
        }
        Err(corrupt())
    }

    fn begin_at(&self, me: &Process, digest: Digest, bin: u64, wait_max: Duration) -> Result<Step> {
        let plane = &self.plane;
        let (entry, hint) = match find_or_take(plane, me, digest)? {
            Place::New(entry, mine) => {
                let state = entry.state();
                let held = self.held(entry, mine, digest, bin, state, None, plane.now());
                return Ok(Step::Locked(Locked { held, found: Found::nothing() }));
            }
            Place::Existing(entry, hint) => (entry, hint),
        };
        let mine = match lock(plane, me, entry.lock(), wait_max, || belongs(&entry, digest)) {
            lock::Locked::Ours(mine) => mine,
            lock::Locked::Moved => return Ok(Step::Again),
            lock::Locked::TimedOut(owner) => return Err(self.timed_out(&entry, owner, wait_max)),
        };
        let now = plane.now();
        let found = match meaning(plane, &entry, digest, Part::Whole(hint), LOCKED_TRIES, now) {
            Ok(Meaning::Live(snapshot)) => {
                let Snapshot { state, header, expires, ends, payload } = snapshot;
                let base = Base { version: header.version, created: header.created, ends };
                me.rotations.expect_replacement(plane, state.location(), header.payload_bytes);
                let held = self.held(entry, mine, digest, bin, state, Some(base), now);
                let record = Record {
                    payload,
                    version: header.version,
                    created: header.created,
                    written: header.written,
                    expires,
                    ends,
                };
                return Ok(Step::Locked(Locked { held, found: Found::live(record) }));
            }
            Ok(Meaning::Nothing(state, trace)) => {
                let held = self.held(entry, mine, digest, bin, state, None, now);
                return Ok(Step::Locked(Locked { held, found: Found::traced(trace) }));
            }
            Ok(Meaning::LeadsTo(next)) => Ok(Step::LeadsTo(next)),
            Ok(Meaning::Leaving) => return leave(plane, entry, mine).map(|()| Step::Again),
            Ok(Meaning::Elsewhere | Meaning::Restless) => Ok(Step::Again),
            Err(error) => Err(error),
        };
        unlock(entry.lock(), mine);
        found
    }

    #[allow(clippy::too_many_arguments, reason = "it puts together what only its two callers know")]
    fn held(
        &self,
        entry: Entry<'_>,
        lock: Lock,
        digest: Digest,
        bin: u64,
        state: State,
        base: Option<Base>,
        now: Timestamp,
    ) -> Held {
        // Only the holder writes the fence. Time makes it readable, the comparison makes it grow.
        let time = now.as_ms() << FENCE_TIME_SHIFT;
        // By compare-and-swap, because `destroy` may have voided our lock already and someone else may be here too.
        let fence = loop {
            let last = entry.fence().load(Ordering::Relaxed);
            let next = (last + 1).max(time);
            if entry.fence().cas(last, next) {
                break next;
            }
        };
        Held { entry: entry.number, lock, digest, bin, fence, state, base }
    }

    fn timed_out(&self, entry: &Entry<'_>, owner: Lock, waited: Duration) -> Error {
        let holder = self.holder(entry, owner);
        let kind = ErrorKind::LockTimeout { holder, waited };
        Error::new(kind, "another request holds the session")
            .advice("raise the wait, or look at what that process does")
    }

    pub(crate) fn holder(&self, entry: &Entry<'_>, owner: Lock) -> Holder {
        let word = |slot, word| self.plane.process_word(slot, word).load(Ordering::Relaxed);
        let owner = owner.owner().filter(|(process, _)| *process < PROCESSES_MAX);
        let pid = owner.and_then(|(process, _)| u32::try_from(word(process, slot::PID)).ok());
        let since = Timestamp::from_ms(entry.fence().load(Ordering::Relaxed) >> FENCE_TIME_SHIFT);
        Holder { pid, host: None, since: Some(since) }
    }

    pub(crate) fn peek_session(&self, key: &Key) -> Result<Found> {
        let me = self.me()?;
        let asked = self.digest(key);
        let mut digest = asked;
        let mut steps = 0;
        for _ in 0..FRESH_STARTS_MAX {
            index::ask(&self.plane, digest);
            // The clock is read while the index is on its way from memory.
            let now = self.plane.now();
            let Some((number, hint)) = index::find_to_read(&self.plane, digest) else { return Ok(Found::nothing()) };
            let entry = self.plane.entry(number);
            let mut met = meaning(&self.plane, &entry, digest, Part::Whole(hint), TRIES, now)?;
            if let Meaning::Restless = met {
                met = self.pinned(me, &entry, digest)?;
            }
            match met {
                Meaning::Elsewhere | Meaning::Restless => {}
                Meaning::LeadsTo(next) => {
                    digest = next;
                    steps += 1;
                    if steps > ALIAS_STEPS_MAX {
                        break;
                    }
                }
                Meaning::Leaving => return Ok(Found::nothing()),
                Meaning::Nothing(_, trace) => return Ok(Found::traced(trace)),
                Meaning::Live(Snapshot { header, expires, ends, payload, .. }) => {
                    let (version, created, written) = (header.version, header.created, header.written);
                    let record = Record { payload, version, created, written, expires, ends };
                    let moved_to = (digest != asked).then(|| stored_key(key, digest));
                    return Ok(Found { moved_to, ..Found::live(record) });
                }
            }
        }
        Err(corrupt())
    }

    /// Reads under the lock, so that a long payload under constant change can be read at all.
    fn pinned(&self, me: &Process, entry: &Entry<'_>, digest: Digest) -> Result<Meaning> {
        match lock(&self.plane, me, entry.lock(), PIN_WAIT, || belongs(entry, digest)) {
            lock::Locked::Ours(mine) => {
                let met = meaning(&self.plane, entry, digest, WHOLE, LOCKED_TRIES, self.plane.now());
                unlock(entry.lock(), mine);
                met
            }
            lock::Locked::Moved => Ok(Meaning::Elsewhere),
            lock::Locked::TimedOut(owner) => Err(self.timed_out(entry, owner, PIN_WAIT)),
        }
    }
}

/// Whether an entry still stands for a key.
pub(crate) fn belongs(entry: &Entry<'_>, digest: Digest) -> bool {
    entry.state().kind() != Kind::Free && entry.digest() == digest
}

/// The key that listings and moved leases show: the digest, in the same bin. The id itself is nowhere.
pub(crate) fn stored_key(key: &Key, digest: Digest) -> Key {
    Key::in_bin(key.bin().clone(), &hex(digest)).unwrap_or_else(|_| key.clone())
}

pub(crate) fn hex(digest: Digest) -> String {
    format!("{:016x}{:016x}", digest.0, digest.1)
}
