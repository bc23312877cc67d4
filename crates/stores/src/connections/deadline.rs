//! When an operation has to end, whatever the server does.
//!
//! A deadline is made once, when an operation begins, and goes with its requests. Each read and
//! write of a socket gets what is left of it ([`Stream`](super::stream::Stream)), and retries stop
//! at it ([`retry`](super::retry::retry)).

use std::time::{Duration, Instant};

#[derive(Clone, Copy)]
pub struct Deadline {
    end: Instant,
    response: Duration,
}

impl Deadline {
    /// For an operation that begins now and may wait this long for a lock, on a server that may
    /// take `response` for an answer.
    pub fn new(wait: Duration, response: Duration) -> Deadline {
        Deadline { end: Instant::now() + wait + response, response }
    }

    /// The end of an answer that is asked for now, and for which the server waits so long.
    pub fn of_answer(&self, wait: Duration) -> Instant {
        self.end.min(Instant::now() + wait + self.response)
    }

    pub fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }
}
