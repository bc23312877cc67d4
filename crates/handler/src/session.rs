//! An opened session: its payload, and the right to change it or the lack of it.

use std::time::Duration;

use sessile_core::{Begun, Error, ErrorKind, Key, Lease, Result, Sessions, Timestamp};

use crate::late;
use crate::rules::{OnLockTimeout, Rules};

/// How a request wants its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// With its lock: no other request changes it meanwhile.
    Locked,
    /// Without: the request only reads.
    Unlocked,
}

pub(crate) struct Session {
    pub(crate) key: Key,
    pub(crate) payload: Vec<u8>,
    pub(crate) hold: Hold,
    /// Why it was opened without its lock although that was asked for.
    pub(crate) warning: Option<Error>,
}

pub(crate) enum Hold {
    Locked(Locked),
    Unlocked {
        found: bool,
    },
    /// The id was regenerated: the payload is the one before, if the session still lives.
    Late {
        lives: bool,
    },
}

pub(crate) struct Locked {
    pub(crate) lease: Lease,
    /// Whether there is a record; a new session has none.
    pub(crate) stored: bool,
    /// The end of its absolute lifetime.
    pub(crate) end: Option<Timestamp>,
}

impl Session {
    #[inline] // a session is large, and would be copied once more
    pub(crate) fn open(
        sessions: &Sessions,
        rules: &Rules,
        key: Key,
        access: Access,
    ) -> Result<Session> {
        if access == Access::Unlocked {
            return Session::peek(sessions, key, None);
        }
        match sessions.begin(&key, rules.lock_wait) {
            Ok(begun) if *begun.lease.key() == key => Ok(Session::locked(rules, key, begun)),
            Ok(begun) => {
                let lives = begun.record.is_some();
                // A late request must not hold the session that it cannot change.
                drop(begun);
                Session::late(sessions, key, lives)
            }
            Err(error) if may_read_unlocked(rules, &error) => {
                Session::peek(sessions, key, Some(error))
            }
            Err(error) => Err(error),
        }
    }

    #[inline]
    fn locked(rules: &Rules, key: Key, begun: Begun) -> Session {
        let Begun { lease, record, .. } = begun;
        let end = record.as_ref().and_then(|record| rules.end(&record.head));
        let hold = Hold::Locked(Locked { lease, stored: record.is_some(), end });
        let payload = record.map_or(Vec::new(), |record| record.payload);
        Session { key, payload, hold, warning: None }
    }

    fn peek(sessions: &Sessions, key: Key, warning: Option<Error>) -> Result<Session> {
        let found = sessions.find(&key)?;
        if found.moved_to.is_some() {
            return Session::late(sessions, key, found.record.is_some());
        }
        let hold = Hold::Unlocked { found: found.record.is_some() };
        let payload = found.record.map_or(Vec::new(), |record| record.payload);
        Ok(Session { key, payload, hold, warning })
    }

    /// Under an id that was regenerated. After a log-out it shows nothing.
    fn late(sessions: &Sessions, key: Key, lives: bool) -> Result<Session> {
        let before = if lives { late::payload(sessions, &key)? } else { None };
        let payload = before.unwrap_or_default();
        Ok(Session { key, payload, hold: Hold::Late { lives }, warning: None })
    }

    /// Whether strict mode takes its id: it is stored, or another request holds it and is about to
    /// store it.
    pub(crate) fn is_known(&self, sessions: &Sessions) -> bool {
        match &self.hold {
            Hold::Locked(locked) => locked.stored,
            Hold::Unlocked { found } => *found || is_held(sessions, &self.key),
            Hold::Late { lives } => *lives,
        }
    }
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
