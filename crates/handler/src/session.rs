//! An opened session: its payload, and the right to change it or the lack of it.

use std::time::Duration;

use sessile_core::{
    Absence, Begun, Error, ErrorKind, Found, Key, Lease, Owner, OwnerChange, Record, Result,
    Sessions, Timestamp,
};

use crate::diverged::Diverged;
use crate::late;
use crate::merge::Removals;
use crate::rules::{Concurrency, OnLockTimeout, Rules};

/// How a request wants its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// With its lock: no other request changes it meanwhile.
    Locked,
    /// With its lock if that is free now, for a caller that must not wait. Otherwise the opening
    /// fails with `LockTimeout`, which is not counted, and the caller opens it where it may wait.
    LockedAtOnce,
    /// Without: the request only reads.
    Unlocked,
}

pub(crate) struct Session {
    pub(crate) key: Key,
    pub(crate) payload: Vec<u8>,
    pub(crate) hold: Hold,
    /// The end of its absolute lifetime.
    pub(crate) end: Option<Timestamp>,
    /// Why it was opened without its lock although that was asked for.
    pub(crate) warning: Option<Error>,
}

pub(crate) enum Hold {
    Locked(Locked),
    /// Read to be merged at the end of the request.
    Snapshot {
        created: Timestamp,
        owner: Option<Owner>,
    },
    Unlocked {
        /// Why there is no record; none if there is one.
        absence: Option<Absence>,
        owner: Option<Owner>,
    },
    /// The id was regenerated: the payload is the one before, if the session still lives.
    Late {
        lives: bool,
        /// Of the session, under its new id.
        owner: Option<Owner>,
    },
}

impl Hold {
    /// What a save does with the owner: an application that sets the owner in each request changes
    /// nothing by the one that it has read.
    pub(crate) fn owner_change(&self, set: OwnerChange) -> OwnerChange {
        let OwnerChange::Set(wanted) = set else { return OwnerChange::Keep };
        let read = match self {
            Hold::Locked(locked) => locked.lease.owner(),
            Hold::Snapshot { owner, .. } | Hold::Unlocked { owner, .. } => *owner,
            // It sees the session as it was, perhaps before a log-in.
            Hold::Late { .. } if wanted.is_none() => None,
            Hold::Late { owner, .. } => *owner,
        };
        if wanted == read { OwnerChange::Keep } else { set }
    }
}

pub(crate) struct Locked {
    pub(crate) lease: Lease,
    /// Whether there is a record; a new session has none.
    pub(crate) stored: bool,
    /// What another request has stored since the session was read.
    pub(crate) diverged: Option<Box<Diverged>>,
}

impl Session {
    /// Gives the session to `put`, which stores it: a session is large, and would be copied once
    /// more as a result.
    #[inline(always)]
    pub(crate) fn open(
        sessions: &Sessions,
        rules: &Rules,
        key: Key,
        access: Access,
        put: impl FnOnce(Session),
    ) -> Result<()> {
        if access == Access::Unlocked {
            return Session::peek(sessions, key, None).map(put);
        }
        if rules.concurrency != Concurrency::Exclusive {
            let found = sessions.find(&key)?;
            if found.moved_to.is_some() {
                return Session::late(sessions, key, found.record).map(put);
            }
            // A new session is opened with its lock: its id is valid for other requests then.
            if let Some(record) =
                found.record.filter(|record| rules.reads_snapshot(sessions, record))
            {
                put(Session::snapshot(rules, key, record));
                return Ok(());
            }
        }
        let begun = match access {
            Access::LockedAtOnce => sessions.begin_at_once(&key),
            _ => sessions.begin(&key, rules.lock_wait),
        };
        match begun {
            Ok(begun) if !begun.moved => match begun.record {
                // Another request has stored it by now.
                Some(record) if rules.reads_snapshot(sessions, &record) => {
                    put(Session::snapshot(rules, key, record));
                }
                _ => put(Session::locked(rules, key, begun)),
            },
            Ok(begun) => {
                let Begun { lease, record, .. } = begun;
                // A late request must not hold the session that it cannot change.
                drop(lease);
                put(Session::late(sessions, key, record)?);
            }
            Err(error) if access == Access::Locked && may_read_unlocked(rules, &error) => {
                put(Session::peek(sessions, key, Some(error))?);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    #[inline(always)]
    fn locked(rules: &Rules, key: Key, begun: Begun) -> Session {
        let Begun { lease, record, .. } = begun;
        let end = record.as_ref().and_then(|record| rules.end(&record.head));
        let stored = record.is_some();
        let hold = Hold::Locked(Locked { lease, stored, diverged: None });
        let payload = record.map_or(Vec::new(), |record| record.payload);
        Session { key, payload, hold, end, warning: None }
    }

    #[cold]
    fn snapshot(rules: &Rules, key: Key, record: Record) -> Session {
        let Record { head, payload } = record;
        let hold = Hold::Snapshot { created: head.created, owner: head.owner };
        Session { key, payload, hold, end: rules.end(&head), warning: None }
    }

    fn peek(sessions: &Sessions, key: Key, warning: Option<Error>) -> Result<Session> {
        let Found { record, absence, moved_to } = sessions.find(&key)?;
        if moved_to.is_some() {
            return Session::late(sessions, key, record);
        }
        sessions.count_spent_id(absence, &key);
        let owner = record.as_ref().and_then(|record| record.head.owner);
        let hold = Hold::Unlocked { absence: record.is_none().then_some(absence), owner };
        let payload = record.map_or(Vec::new(), |record| record.payload);
        Ok(Session { key, payload, hold, end: None, warning })
    }

    /// Takes the lock of a session that was read as a snapshot. `removals`: those of this request.
    ///
    /// # Errors
    ///
    /// `Unsupported` under an id that was replaced; `Destroyed` for a session that is gone
    /// otherwise, or was created anew since: after a log-out nothing may come back.
    #[cold]
    pub(crate) fn lock(
        &mut self,
        sessions: &Sessions,
        rules: &Rules,
        removals: Removals,
    ) -> Result<()> {
        let Hold::Snapshot { created, .. } = self.hold else { return Ok(()) };
        let Begun { lease, record, absence, moved } = sessions.begin(&self.key, rules.lock_wait)?;
        if moved || absence == Absence::Regenerated {
            return Err(replaced(sessions, &self.key));
        }
        let Some(record) = record.filter(|record| record.head.created == created) else {
            return Err(sessions.refuse_save(&self.key, ErrorKind::Destroyed.into()));
        };
        let mut diverged = None;
        if record.payload != self.payload {
            let (base, theirs) = (std::mem::take(&mut self.payload), record.payload);
            diverged = Some(Box::new(Diverged { base, theirs, removals }));
        }
        self.hold = Hold::Locked(Locked { lease, stored: true, diverged });
        Ok(())
    }

    /// Under an id that was regenerated, with the record of the session now. After a log-out it
    /// shows nothing.
    fn late(sessions: &Sessions, key: Key, record: Option<Record>) -> Result<Session> {
        let (lives, owner) = (record.is_some(), record.and_then(|record| record.head.owner));
        let before = if lives { late::payload(sessions, &key)? } else { None };
        let payload = before.unwrap_or_default();
        Ok(Session { key, payload, hold: Hold::Late { lives, owner }, end: None, warning: None })
    }

    /// Whether strict mode takes its id: it is stored, or another request holds it and is about to
    /// store it.
    pub(crate) fn is_known(&self, sessions: &Sessions) -> bool {
        match &self.hold {
            Hold::Locked(locked) => locked.stored,
            Hold::Unlocked { absence: None, .. } => true,
            // It is counted, and a look for its holder would count it again.
            Hold::Unlocked { absence: Some(Absence::Regenerated), .. } => false,
            Hold::Unlocked { absence: Some(_), .. } => is_held(sessions, &self.key),
            Hold::Late { lives, .. } => *lives,
            Hold::Snapshot { .. } => true,
        }
    }
}

pub(crate) fn replaced(sessions: &Sessions, key: &Key) -> Error {
    let why = "this id was replaced by a new one, and late requests only read the session: \
               nothing is saved";
    sessions.refuse_save(key, Error::new(ErrorKind::Unsupported, why))
}

pub(crate) fn of_parent(sessions: &Sessions, key: &Key) -> Error {
    let why = "the session is that of the parent process: nothing is saved";
    sessions.refuse_save(key, Error::new(ErrorKind::Unsupported, why))
}

pub(crate) fn unlocked(sessions: &Sessions, key: &Key, so: &str) -> Error {
    let why = format!("the session was read without its lock: {so}");
    sessions.refuse_save(key, Error::new(ErrorKind::Unsupported, why))
}

fn may_read_unlocked(rules: &Rules, error: &Error) -> bool {
    rules.on_lock_timeout == OnLockTimeout::ReadUnlocked
        && matches!(error.kind(), ErrorKind::LockTimeout { .. })
}

/// Whether somebody holds the lock, or has stored a record by now.
#[cold]
fn is_held(sessions: &Sessions, key: &Key) -> bool {
    sessions.begin(key, Duration::ZERO).map_or(true, |begun| begun.record.is_some())
}
