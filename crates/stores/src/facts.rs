//! What a server says of itself: its settings, its state and its time.
//!
//! Invariant: facts are read and nothing is changed; a fact that the server does not tell is
//! missing, not guessed. Not a judgement: crates/doctor judges.

use std::collections::BTreeMap;
use std::time::Duration;

use sessile_core::Timestamp;

/// The facts of one server, by the server's own names of its settings.
#[derive(Clone, Debug, Default)]
pub struct ServerFacts {
    values: BTreeMap<String, String>,
    /// The server's time, and how long the question took.
    pub time: Option<(Timestamp, Duration)>,
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

    /// All facts, in the order of their names.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Notes the server's time, in milliseconds since 1970, and how long the question took.
    pub(crate) fn put_time(&mut self, ms: u64, asked_for: Duration) {
        self.time = Some((Timestamp::from_ms(ms), asked_for));
    }
}
