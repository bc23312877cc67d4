//! The life of a record.
//!
//! A ttl slides: each commit or touch starts it anew. An absolute lifetime from the record's
//! creation caps it. All stores share this rule.

use std::time::Duration;

use crate::clock::{Timestamp, whole_ms};
use crate::{Error, ErrorKind, Head, Limits, Result};

/// Time to live of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    idle_ms: u64,
    absolute_ms: Option<u64>,
    /// Of a record that was created in another store.
    created: Option<Timestamp>,
}

impl Ttl {
    /// Of a record that ends at once ([`crate::Lease::end`]).
    pub(crate) const ENDED: Ttl = Ttl { idle_ms: 0, absolute_ms: None, created: None };

    /// A record that expires when it was neither committed nor touched for `idle`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` below 1 ms or above [`Limits::TTL_MAX`].
    #[inline]
    pub fn sliding(idle: Duration) -> Result<Ttl> {
        Ok(Ttl { idle_ms: checked_ms(idle, "time to live")?, absolute_ms: None, created: None })
    }

    /// The rest of the life of a record, for a copy of it in another store: the copy counts as
    /// created when the record was, and expires and ends with it. `None` if the record has expired.
    pub fn rest_of(head: &Head, now: Timestamp) -> Option<Ttl> {
        let left = |later: Timestamp, earlier: Timestamp| {
            let ms = later.as_ms().saturating_sub(earlier.as_ms());
            Some(ms.min(whole_ms(Limits::TTL_MAX))).filter(|ms| *ms > 0)
        };
        // The clock of another host may be ahead.
        let created = head.created.min(now);
        Some(Ttl {
            idle_ms: left(head.expires, now)?,
            absolute_ms: head.ends.and_then(|ends| left(ends, created)),
            created: Some(created),
        })
    }

    /// Adds an absolute lifetime, counted from the record's creation.
    ///
    /// # Errors
    ///
    /// As [`Ttl::sliding`].
    #[inline]
    pub fn within(self, lifetime: Duration) -> Result<Ttl> {
        Ok(Ttl { absolute_ms: Some(checked_ms(lifetime, "absolute lifetime")?), ..self })
    }

    /// The idle time, in milliseconds: 0 where [`crate::Lease::end`] touches.
    pub const fn idle_ms(self) -> u64 {
        self.idle_ms
    }

    /// The absolute lifetime in milliseconds, for stores that apply [`Ttl::deadline`] on a server.
    pub const fn absolute_ms(self) -> Option<u64> {
        self.absolute_ms
    }

    /// When a new record that is written at `now` counts as created.
    pub fn created(self, now: Timestamp) -> Timestamp {
        self.created.unwrap_or(now)
    }

    /// When a record written at `now` expires, and its absolute end.
    ///
    /// `created` is the creation of the record ([`Ttl::created`] of a new one). `stored_end` is the
    /// absolute end that the record already has; a ttl without a lifetime of its own keeps it.
    #[inline]
    pub fn deadline(
        self,
        now: Timestamp,
        created: Timestamp,
        stored_end: Option<Timestamp>,
    ) -> (Timestamp, Option<Timestamp>) {
        let end = match self.absolute_ms {
            Some(ms) => Some(created.plus(Duration::from_millis(ms))),
            None => stored_end,
        };
        let sliding = now.plus(Duration::from_millis(self.idle_ms));
        (end.map_or(sliding, |end| end.min(sliding)), end)
    }
}

#[inline]
fn checked_ms(duration: Duration, what: &str) -> Result<u64> {
    if duration < Duration::from_millis(1) || duration > Limits::TTL_MAX {
        return Err(out_of_range(what));
    }
    Ok(whole_ms(duration))
}

#[cold]
fn out_of_range(what: &str) -> Error {
    let days = Limits::TTL_MAX.as_secs() / 86_400;
    let why = format!("a {what} must lie between 1 ms and {days} days");
    Error::new(ErrorKind::InvalidArgument, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_lifetime_caps_the_sliding_one() {
        let ttl = Ttl::sliding(Duration::from_millis(100)).unwrap();
        let capped = ttl.within(Duration::from_millis(150)).unwrap();
        let created = Timestamp::from_ms(1_000);
        let (expires, end) = capped.deadline(Timestamp::from_ms(1_100), created, None);
        assert_eq!((expires.as_ms(), end.map(Timestamp::as_ms)), (1_150, Some(1_150)));
        let (expires, end) = ttl.deadline(Timestamp::from_ms(1_100), created, end);
        assert_eq!((expires.as_ms(), end.map(Timestamp::as_ms)), (1_150, Some(1_150)));
    }

    #[test]
    fn the_rest_of_a_life_begins_and_ends_with_the_whole() {
        let ttl = Ttl::sliding(Duration::from_millis(100)).unwrap();
        let whole = ttl.within(Duration::from_millis(150)).unwrap();
        let old = Head::next(None, whole, Timestamp::from_ms(1_000));
        let rest = Ttl::rest_of(&old, Timestamp::from_ms(1_040)).unwrap();
        let moved = Head::next(None, rest, Timestamp::from_ms(1_045));
        assert_eq!((moved.created, moved.ends), (old.created, old.ends));
        assert_eq!(moved.expires.as_ms(), 1_105, "counted from the move");
        assert_eq!(Ttl::rest_of(&old, old.expires), None);
    }

    #[test]
    fn a_ttl_of_zero_or_a_thousand_years_is_refused() {
        assert!(Ttl::sliding(Duration::ZERO).is_err());
        assert!(Ttl::sliding(Duration::from_secs(1_000 * 365 * 86_400)).is_err());
    }
}
