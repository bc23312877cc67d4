//! The life of a record.
//!
//! A ttl slides: each commit or touch starts it anew. An absolute lifetime from the record's
//! creation caps it. All stores share this rule.

use std::time::Duration;

use crate::clock::{Timestamp, whole_ms};
use crate::{Error, ErrorKind, Limits, Result};

/// Time to live of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    idle_ms: u64,
    absolute_ms: Option<u64>,
}

impl Ttl {
    /// A record that expires when it was neither committed nor touched for `idle`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` below 1 ms or above [`Limits::TTL_MAX`].
    #[inline]
    pub fn sliding(idle: Duration) -> Result<Ttl> {
        Ok(Ttl { idle_ms: checked_ms(idle, "time to live")?, absolute_ms: None })
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

    /// The idle time, in milliseconds: at least 1.
    pub const fn idle_ms(self) -> u64 {
        self.idle_ms
    }

    /// The absolute lifetime in milliseconds, for stores that apply [`Ttl::deadline`] on a server.
    pub const fn absolute_ms(self) -> Option<u64> {
        self.absolute_ms
    }

    /// When a record written at `now` expires, and its absolute end.
    ///
    /// `created` is the creation of the record (`now` for a new one). `stored_end` is the absolute
    /// end that the record already has; a ttl without an absolute lifetime of its own keeps it.
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
    fn a_ttl_of_zero_or_a_thousand_years_is_refused() {
        assert!(Ttl::sliding(Duration::ZERO).is_err());
        assert!(Ttl::sliding(Duration::from_secs(1_000 * 365 * 86_400)).is_err());
    }
}
