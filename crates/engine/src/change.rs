//! What changes a session: commit, create, touch, destroy, release.
//!
//! Each change is one compare-and-swap of the entry's state; everything before prepares it, everything after tidies
//! up. docs/engine.md, "Operations", lists what a crash between any two steps leaves.

use std::time::{Duration, Instant};

use sessile_core::{Error, ErrorKind, Key, Limits, Result, Timestamp, Ttl};

use crate::bins;
use crate::broken::{self, Twin};
use crate::disklog::{self, Says, granted};
use crate::engine::Engine;
use crate::entries::{Place, find_or_take, leave, remove};
use crate::expiry::note_expiry;
use crate::hint;
use crate::index;
use crate::lane::Lane;
use crate::lock::{try_lock, unlock, void};
use crate::maintenance::Maintenance;
use crate::notes;
use crate::plane::{Digest, Entry};
use crate::process::Process;
use crate::record::{HEADER_BYTES, Header, Part, corrupt, settle};
use crate::reserve::For;
use crate::session::{ALIAS_STEPS_MAX, Base, FRESH_STARTS_MAX, Held, LOCKED_TRIES, Meaning, meaning};
use crate::sync::Ordering;
use crate::words::{Kind, Lock, Override, State};
use crate::writing::{Logged, discard, discard_replaced, write};

/// How often room is made for one change as long as that gains something; and how long for a log-out in any case.
const ROOM_TRIES: u32 = 4;
const TOMBSTONE_TIME_MAX: Duration = Duration::from_secs(8);
/// One part in so many is to be free in a segment that is emptied: first as usual, then what else there may be.
const ONE_IN: [u64; 3] = [2, 8, 64];

/// What a session was found to be when the change was to be published.
pub(crate) enum Published {
    Done,
    /// Someone changed it since `from`.
    Refused,
}

impl Engine {
    pub(crate) fn commit_session(&self, held: &Held, payload: &[u8], ttl: Ttl, now: Timestamp) -> Result<()> {
        let me = self.me()?;
        let entry = self.check_lease(me, held)?;
        let base = held.base.unwrap_or(Base { version: 0, created: now, ends: None });
        // Someone without the lock may have set another absolute end meanwhile.
        let stored = Override(entry.ends().load(Ordering::Relaxed)).applies_to(held.state).map_or(base.ends, Some);
        let (expires, ends) = ttl.deadline(now, base.created, stored.filter(|_| held.base.is_some()));
        let header = Header::new(entry.number, held.bin, base.version + 1, base.created, now);
        let header = Header { expires, ends, ..header };
        let published = self.publish(me, entry, held.state, Kind::Live, header, payload);
        unlock(entry.lock(), held.lock);
        match published? {
            Published::Done => Ok(()),
            Published::Refused => Err(destroyed()),
        }
    }

    /// What a record in the log says about itself and what it replaces.
    fn logged(&self, entry: Entry<'_>, present: State, kind: Kind, header: &Header) -> Logged {
        let mut origin = disklog::origin(&self.plane, &entry, present);
        origin.longest = origin.longest.max(granted(header.written, header.expires));
        // Whatever comes after it, also under an entry that is taken anew, counts on from there.
        entry.fence().raise(origin.sequence);
        Logged { says: Says::of_state(kind), origin, purpose: For::Commit }
    }

    /// Writes a record and makes the entry stand for it, if it still has the version of `from`.
    pub(crate) fn publish(
        &self,
        me: &Process,
        entry: Entry<'_>,
        from: State,
        kind: Kind,
        header: Header,
        payload: &[u8],
    ) -> Result<Published> {
        self.with_room(me, For::Commit, || self.try_publish(me, entry, from, kind, header, payload))
    }

    /// Does something again after making room, if the log was full. Each time it may gain a few segments only, and others
    /// may take them, so it is done again as long as it gains any. To write down that a session was destroyed is worth more
    /// work than anything else.
    fn with_room<T>(&self, me: &Process, purpose: For, work: impl Fn() -> Result<T>) -> Result<T> {
        let mut done = work();
        let (Some(log), true) = (&self.plane.log, is_full(&done)) else { return done };
        let (start, mut parts) = (Instant::now(), ONE_IN.into_iter());
        let (mut one_in, mut tries) = (parts.next().unwrap_or(2), 0);
        loop {
            let gained = Maintenance::make_room(&self.plane, me, log, purpose, one_in);
            done = work();
            tries += 1;
            let again = match purpose {
                For::Tombstone => start.elapsed() < TOMBSTONE_TIME_MAX,
                _ => gained && tries < ROOM_TRIES,
            };
            if !is_full(&done) || !again {
                return done;
            }
            if !gained {
                one_in = parts.next().unwrap_or(one_in);
            }
        }
    }

    fn try_publish(
        &self,
        me: &Process,
        entry: Entry<'_>,
        from: State,
        kind: Kind,
        header: Header,
        payload: &[u8],
    ) -> Result<Published> {
        let plane = &self.plane;
        let Some((mut present, mut old)) = settle(plane, &entry, from) else { return Ok(Published::Refused) };
        // For the hint; the caller may have done much else since the look-up.
        index::ask(plane, entry.digest());
        let lane = Lane::enter(plane, me);
        lane.intend(entry.number, old);
        let logged = plane.log.is_some().then(|| self.logged(entry, present, kind, &header));
        let new = write(&lane, header, payload, logged)?;
        if let Some(old) = old.filter(|_| broken::is(Twin::FreesBeforeState)) {
            discard(&lane, old);
        }
        while !entry.replace_state(present, present.next(kind, new.location)) {
            let Some(settled) = settle(plane, &entry, from) else {
                discard(&lane, new);
                return Ok(Published::Refused);
            };
            // Only moved: the same record is elsewhere now.
            (present, old) = settled;
            lane.replaces(old);
        }
        if broken::is(Twin::StateBeforeRecord) {
            plane.data.write(new.location.offset() + HEADER_BYTES, payload);
        }
        hint::leave(plane, &entry, new.location, payload.len() as u64);
        if let Some(old) = old {
            discard_replaced(plane, &entry, old);
        }
        self.forget_overrides(entry);
        note_expiry(plane, entry, header.ends.map_or(header.expires, |ends| ends.min(header.expires)));
        Ok(Published::Done)
    }

    /// Overrides of earlier versions are taken away, so that the 22 bits that name a version cannot come round.
    fn forget_overrides(&self, entry: Entry<'_>) {
        for word in [entry.touched(), entry.ends()] {
            let seen = word.load(Ordering::Relaxed);
            if seen != 0 && Override(seen).applies_to(entry.state()).is_none() {
                word.cas(seen, 0);
            }
        }
    }

    /// The entry of a lease that is still good.
    pub(crate) fn check_lease(&self, me: &Process, held: &Held) -> Result<Entry<'_>> {
        if !me.owns(held.lock) {
            let why = "the lease belongs to the process that this one was forked from";
            return Err(Error::new(ErrorKind::Stale, why));
        }
        let entry = self.plane.entry(held.entry);
        if Lock(entry.lock().load(Ordering::Relaxed)).bare() != held.lock {
            return Err(destroyed());
        }
        Ok(entry)
    }

    pub(crate) fn create_session(&self, key: &Key, payload: &[u8], ttl: Ttl, now: Timestamp) -> Result<()> {
        let me = self.me()?;
        let digest = self.digest(key);
        let bin = bins::number(&self.plane, me, key.bin())?;
        let (entry, mine, state) = self.vacant(me, digest)?;
        let (expires, ends) = ttl.deadline(now, now, None);
        let header = Header { expires, ends, ..Header::new(entry.number, bin, 1, now, now) };
        let published = self.publish(me, entry, state, Kind::Live, header, payload);
        match published {
            Ok(Published::Done) => {
                unlock(entry.lock(), mine);
                Ok(())
            }
            Ok(Published::Refused) => {
                unlock(entry.lock(), mine);
                Err(taken()) // destroyed in this instant: someone else has business with the id
            }
            Err(error) => {
                self.give_up(me, entry, mine)?;
                Err(error)
            }
        }
    }

    /// The locked entry of a key that is free.
    ///
    /// # Errors
    ///
    /// `Exists` when a live record has the id, when it is within its grace, or when someone holds its lock.
    pub(crate) fn vacant(&self, me: &Process, digest: Digest) -> Result<(Entry<'_>, Lock, State)> {
        let plane = &self.plane;
        for _ in 0..FRESH_STARTS_MAX {
            let entry = match find_or_take(plane, me, digest)? {
                Place::New(entry, mine) => {
                    entry.fence().add(1);
                    return Ok((entry, mine, entry.state()));
                }
                Place::Existing(entry, _) => entry,
            };
            let Some(mine) = try_lock(plane, me, entry.lock()) else {
                if crate::session::belongs(&entry, digest) {
                    return Err(taken());
                }
                continue;
            };
            // Like a holder's: on a disk it tells which of two that died here was the later.
            entry.fence().add(1);
            let met = meaning(plane, &entry, digest, Part::Header, LOCKED_TRIES, plane.now());
            match met {
                Ok(Meaning::Nothing(state, _)) => return Ok((entry, mine, state)),
                Ok(Meaning::Leaving) => leave(plane, entry, mine)?,
                Ok(Meaning::Elsewhere | Meaning::Restless) => unlock(entry.lock(), mine),
                Ok(Meaning::Live(_) | Meaning::LeadsTo(_)) => {
                    unlock(entry.lock(), mine);
                    return Err(taken());
                }
                Err(error) => {
                    unlock(entry.lock(), mine);
                    return Err(error);
                }
            }
        }
        Err(corrupt())
    }

    /// Gives a lock back; an entry that stands for nothing goes with it.
    pub(crate) fn give_up(&self, me: &Process, entry: Entry<'_>, mine: Lock) -> Result<()> {
        let state = entry.state();
        let lock = Lock(entry.lock().load(Ordering::Relaxed));
        if lock.bare() == mine && state.kind() == Kind::Empty {
            let lane = Lane::enter(&self.plane, me);
            if remove(&lane, entry, mine, state)? {
                return Ok(());
            }
        }
        unlock(entry.lock(), mine);
        Ok(())
    }

    pub(crate) fn release_session(&self, held: &Held) -> Result<()> {
        let me = self.me()?;
        if !me.owns(held.lock) {
            return Ok(()); // a forked child: the lock is its parent's
        }
        let entry = self.plane.entry(held.entry);
        if Lock(entry.lock().load(Ordering::Relaxed)).bare() != held.lock {
            return Ok(());
        }
        self.give_up(me, entry, held.lock)
    }

    pub(crate) fn touch_session(&self, key: &Key, ttl: Ttl) -> Result<()> {
        let mut digest = self.digest(key);
        let mut steps = 0;
        for _ in 0..FRESH_STARTS_MAX {
            let Some(number) = index::find(&self.plane, digest) else { return Err(gone()) };
            match self.touch_with_room(self.plane.entry(number), digest, ttl)? {
                Touched::Done => return Ok(()),
                Touched::Again => {}
                Touched::LeadsTo(next) => {
                    digest = next;
                    steps += 1;
                    if steps > ALIAS_STEPS_MAX {
                        break;
                    }
                }
            }
        }
        Err(corrupt())
    }

    pub(crate) fn touch_held_session(&self, held: &Held, ttl: Ttl) -> Result<()> {
        let entry = self.check_lease(self.me()?, held)?;
        loop {
            if entry.state().version() != held.state.version() {
                return Err(destroyed());
            }
            if let Touched::Done = self.touch_with_room(entry, held.digest, ttl)? {
                return Ok(());
            }
        }
    }

    fn touch_with_room(&self, entry: Entry<'_>, digest: Digest, ttl: Ttl) -> Result<Touched> {
        self.with_room(self.me()?, For::Touch, || self.touch_entry(entry, digest, ttl))
    }

    fn touch_entry(&self, entry: Entry<'_>, digest: Digest, ttl: Ttl) -> Result<Touched> {
        let seen = entry.touched().load(Ordering::Acquire);
        let seen_end = entry.ends().load(Ordering::Acquire);
        let now = self.plane.now();
        let snapshot = match meaning(&self.plane, &entry, digest, Part::Header, LOCKED_TRIES, now)? {
            Meaning::Live(snapshot) => snapshot,
            Meaning::LeadsTo(next) => return Ok(Touched::LeadsTo(next)),
            Meaning::Elsewhere | Meaning::Restless => return Ok(Touched::Again),
            Meaning::Nothing(..) | Meaning::Leaving => return Err(gone()),
        };
        let (expires, ends) = ttl.deadline(now, snapshot.header.created, snapshot.ends);
        // Written down first, like a tombstone: whoever comes second, in memory or on the disk, does it again.
        let lane = self.plane.log.is_some().then(|| self.me().map(|me| Lane::enter(&self.plane, me))).transpose()?;
        let noted = match &lane {
            Some(lane) => notes::log_touch(lane, &entry, &notes::Touch { before: &snapshot, expires, ends, now })?,
            None => None,
        };
        let again = || {
            noted.zip(lane.as_ref()).into_iter().for_each(|(note, lane)| discard(lane, note));
            Ok(Touched::Again)
        };
        if ends != snapshot.ends
            && let Some(ends) = ends
            && !entry.ends().cas(seen_end, Override::new(ends, snapshot.state).0)
        {
            return again();
        }
        // Refused when the hand has closed the record, or another touch came first.
        if !entry.touched().cas(seen, Override::new(expires, snapshot.state).0) {
            return again();
        }
        // On a disk the due time remembers the later expiry that a touch has moved back.
        if lane.is_none() || expires >= snapshot.expires {
            note_expiry(&self.plane, entry, expires);
        }
        // The words may have come round to what they were while someone removed or replaced the record.
        if entry.state().moved(snapshot.state.location()) != snapshot.state {
            return Ok(Touched::Again);
        }
        Ok(Touched::Done)
    }

    pub(crate) fn destroy_session(&self, key: &Key) -> Result<()> {
        let me = self.me()?;
        self.with_room(me, For::Tombstone, || self.destroy_at(me, self.digest(key), ALIAS_STEPS_MAX))
    }

    /// Destroys what one digest stands for, and before that what it leads to.
    fn destroy_at(&self, me: &Process, digest: Digest, steps_left: usize) -> Result<()> {
        let plane = &self.plane;
        for _ in 0..FRESH_STARTS_MAX {
            let Some(number) = index::find(plane, digest) else { return Ok(()) };
            let entry = plane.entry(number);
            let owner = Lock(entry.lock().load(Ordering::SeqCst));
            let now = plane.now();
            // What cannot be read leads nowhere, and can be destroyed like anything else.
            let met = meaning(plane, &entry, digest, Part::Header, LOCKED_TRIES, now);
            let state = match met {
                Ok(Meaning::Live(snapshot)) => snapshot.state,
                Ok(Meaning::LeadsTo(next)) => {
                    let state = entry.state();
                    // The session first: as long as the old id leads to it, destroying it again does the rest.
                    if steps_left == 0 {
                        return Err(corrupt());
                    }
                    self.destroy_at(me, next, steps_left - 1)?;
                    state
                }
                Ok(Meaning::Nothing(state, _)) if owner.owner().is_none() && !state.has_record() => return Ok(()),
                Ok(Meaning::Nothing(state, _)) => state,
                Ok(Meaning::Leaving) => return Ok(()),
                Ok(Meaning::Elsewhere | Meaning::Restless) => continue,
                Err(_) => entry.state(),
            };
            if entry.digest() != digest || matches!(state.kind(), Kind::Free | Kind::Leaving) {
                continue;
            }
            let Some((present, old)) = settle(plane, &entry, state) else { continue };
            let lane = Lane::enter(plane, me);
            let until = now.plus(Limits::TOMBSTONE_TTL);
            let until = if plane.log.is_some() { notes::log_destroy(&lane, &entry, present, until)? } else { until };
            lane.intend(entry.number, old);
            if !entry.replace_state(present, present.tombstone(until)) {
                continue;
            }
            // A holder from before the tombstone learns it from the version; the lock need not wait for that.
            void(entry.lock(), owner);
            if let Some(old) = old {
                discard_replaced(plane, &entry, old);
            }
            note_expiry(plane, entry, until);
            return Ok(());
        }
        Err(corrupt())
    }
}

enum Touched {
    Done,
    Again,
    LeadsTo(Digest),
}

fn is_full<T>(done: &Result<T>) -> bool {
    done.as_ref().is_err_and(|error| *error.kind() == ErrorKind::Full)
}

pub(crate) fn destroyed() -> Error {
    Error::new(ErrorKind::Destroyed, "the session was destroyed after it was read")
}

fn gone() -> Error {
    Error::new(ErrorKind::Gone, "there is no record to touch")
}

fn taken() -> Error {
    Error::new(ErrorKind::Exists, "the id is taken")
}
