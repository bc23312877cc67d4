//! A store during one operation, which ends at its deadline.

use std::ops::Deref;
use std::time::Duration;

use super::deadline::Deadline;

pub struct Bounded<'s, S> {
    store: &'s S,
    pub deadline: Deadline,
}

impl<S> Deref for Bounded<'_, S> {
    type Target = S;

    fn deref(&self) -> &S {
        self.store
    }
}

/// A store on servers, whose operations have a deadline.
pub trait BoundedStore: Sized {
    /// Of an operation that begins now, and may wait this long for a lock.
    fn deadline(&self, wait: Duration) -> Deadline;

    /// For an operation that begins now, and may wait this long for a lock.
    fn bounded(&self, wait: Duration) -> Bounded<'_, Self> {
        Bounded { store: self, deadline: self.deadline(wait) }
    }

    /// For an operation that begins now and waits for nothing.
    fn soon(&self) -> Bounded<'_, Self> {
        self.bounded(Duration::ZERO)
    }
}
