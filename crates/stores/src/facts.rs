//! What a server says of itself: its settings, its state and its time.
//!
//! Invariant: facts are read and nothing is changed; a fact that the server does not tell is
//! missing, not guessed. Not a judgement: crates/doctor judges.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sessile_core::Timestamp;

/// The facts of one server, by the server's own names of its settings.
#[derive(Clone, Debug, Default)]
pub struct ServerFacts {
    values: BTreeMap<String, String>,
    /// What the server's clock has said.
    pub time: Option<ServerTime>,
}

/// An answer to the question for the time.
#[derive(Clone, Copy, Debug)]
pub struct ServerTime {
    /// The server's time.
    pub said: Timestamp,
    /// How long the question took.
    pub took: Duration,
    /// When the answer came.
    pub at: Instant,
}

impl ServerFacts {
    /// Adds a fact; the last one of a name stays.
    pub fn put(&mut self, name: &str, value: impl Into<String>) {
        self.values.insert(name.to_owned(), value.into());
    }

    /// The text of a fact.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The number of a fact.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.trim().parse().ok()
    }

    /// Notes the server's time, in milliseconds since 1970, which was asked for at `start`.
    pub(crate) fn put_time(&mut self, ms: u64, start: Instant) {
        let (said, at) = (Timestamp::from_ms(ms), Instant::now());
        self.time = Some(ServerTime { said, took: at - start, at });
    }
}
