//! The settings of an application.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use sessile_core::{Head, Limits, Owner, Record, Result, Sessions, Timestamp, Ttl};

use crate::format::can_split;

/// How requests of an application treat their sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long a request waits for the lock of its session.
    pub lock_wait: Duration,
    /// What follows when the lock is not free by then.
    pub on_lock_timeout: OnLockTimeout,
    /// A session lives for so long after each request.
    pub idle: Duration,
    /// A session without an owner lives for so long, and not longer than `idle`, until a second
    /// request uses it: robots come once.
    pub first_lifetime: Option<Duration>,
    /// A session ends so long after its creation, whatever its requests do.
    pub absolute_lifetime: Option<Duration>,
    /// For so long after a regeneration the old id shows the session as it was before.
    pub grace: Duration,
    /// A new session without data gets neither a record nor a cookie.
    pub lazy_start: bool,
    /// Reading without the lock moves the expiry, too.
    pub touch_unlocked: bool,
    /// What is saved may be lost, such as the progress of an upload: a lock that is not free in
    /// time is waited for once in a request, and while it is not free nothing is saved.
    pub best_effort: bool,
    /// How requests of one session that come at a time share it.
    pub concurrency: Concurrency,
}

/// How requests of one session that come at a time share it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concurrency {
    /// They take turns.
    #[default]
    Exclusive,
    /// They run in parallel. The save of one fails if another has saved a change since it read the
    /// session.
    Detect,
    /// They run in parallel, and each applies its changes at its end. A session that cannot be
    /// split is opened as if this were `Exclusive`.
    Merge {
        /// The format of payloads; none if it is one that cannot be split.
        format: Option<Format>,
        /// What follows when two requests have changed the same value.
        on_conflict: OnConflict,
    },
}

/// A format of payloads that can be split into values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Of `session.serialize_handler = php`.
    Php,
    /// Of `session.serialize_handler = php_serialize`.
    PhpSerialize,
    /// A JSON object.
    Json,
}

/// What follows when two requests have changed the same value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// The value of the last one stands.
    #[default]
    LastWins,
    /// The save of the last one fails.
    Fail,
}

/// What follows when the lock of a session is not free in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLockTimeout {
    /// The request fails.
    #[default]
    Fail,
    /// The request reads the session without its lock and cannot change it.
    ReadUnlocked,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            lock_wait: Duration::from_secs(30),
            on_lock_timeout: OnLockTimeout::Fail,
            idle: Duration::from_secs(1440),
            first_lifetime: None,
            absolute_lifetime: None,
            grace: Duration::from_secs(30),
            lazy_start: true,
            touch_unlocked: false,
            best_effort: false,
            concurrency: Concurrency::Exclusive,
        }
    }
}

impl Rules {
    /// The time to live of a save. Out of range times become the nearest that a store takes:
    /// applications write any large number for "for ever".
    ///
    /// `is_new`: the request that saves has made the session.
    pub(crate) fn ttl(&self, is_new: bool, owner: Option<Owner>) -> Result<Ttl> {
        let clamped = |time: Duration| time.clamp(Duration::from_millis(1), Limits::TTL_MAX);
        let idle = match self.first_lifetime {
            Some(first) if is_new && owner.is_none() => first.min(self.idle),
            _ => self.idle,
        };
        let ttl = Ttl::sliding(clamped(idle))?;
        self.absolute_lifetime.map_or(Ok(ttl), |lifetime| ttl.within(clamped(lifetime)))
    }

    /// The rules of an opening that is no failure if the lock is not free.
    pub(crate) fn patient(&self, waited: bool) -> Rules {
        let lock_wait = if waited { Duration::ZERO } else { self.lock_wait };
        let on_lock_timeout = OnLockTimeout::ReadUnlocked;
        Rules { lock_wait, on_lock_timeout, concurrency: Concurrency::Exclusive, ..*self }
    }

    /// Whether a request reads this record without the lock, and takes it at its end.
    pub(crate) fn reads_snapshot(&self, sessions: &Sessions, record: &Record) -> bool {
        static FOREIGN: AtomicBool = AtomicBool::new(false);
        static UNSPLIT: AtomicBool = AtomicBool::new(false);
        let format = match self.concurrency {
            Concurrency::Exclusive => return false,
            Concurrency::Detect => None,
            Concurrency::Merge { format, .. } => format,
        };
        let (told, why) = if sessions.capabilities().foreign_writers {
            // It trusts the lock, and may be writing what is read without it.
            (&FOREIGN, "another program may write its sessions")
        } else if self.concurrency == Concurrency::Detect
            || format.is_some_and(|format| can_split(format, &record.payload))
        {
            return true;
        } else {
            (&UNSPLIT, "its serialiser writes no format that is split, or values share references")
        };
        // Relaxed: nothing else depends on it.
        if !told.swap(true, Relaxed) {
            log::warn!("{}: requests of a session take turns, because {why}", sessions.label());
        }
        false
    }

    /// The moment after which nothing of a session may be saved.
    pub(crate) fn end(&self, head: &Head) -> Option<Timestamp> {
        self.absolute_lifetime.map(|lifetime| head.created.plus(lifetime))
    }
}
