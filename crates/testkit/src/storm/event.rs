//! What a worker reports: each call before it is made, each answer after it was given, with the time.
//!
//! One event is one line and one `write` of less than `PIPE_BUF` bytes, so that a kill leaves whole lines only:
//! a call whose line is missing was never made, a call without an answer may or may not have had its effect.
//! Times are `CLOCK_MONOTONIC` in nanoseconds, which all processes of the host share. Sessions appear as
//! numbers; their ids stay with the worker.

use std::fmt::Write as _;

use nix::time::{ClockId, clock_gettime};

use super::payload::Content;

/// Characters of up to four bytes each, below the 4,096 of `PIPE_BUF`.
const LINE_CHARS_MAX: usize = 1_000;

/// Nanoseconds of the clock that all processes share.
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| time.tv_sec() * 1_000_000_000 + time.tv_nsec());
    u64::try_from(time).unwrap_or(0)
}

/// Something that a worker is about to do with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Take the lock.
    Begin { id: u64 },
    /// Store under the lease; no token stands for an empty payload.
    Commit { id: u64, token: Option<u64>, ttl_ms: u64 },
    /// Give the lease up.
    Release { id: u64 },
    /// Read without a lock.
    Peek { id: u64 },
    /// Move the expiry.
    Touch { id: u64, ttl_ms: u64 },
    /// Remove.
    Destroy { id: u64 },
    /// Store what must not exist.
    Create { id: u64, token: u64, ttl_ms: u64 },
    /// Lock and store again and again for a moment, with this token and those after it.
    Run { id: u64, first: u64 },
    /// Move the leased record to a new id.
    Regenerate { id: u64, new: u64, grace_ms: u64 },
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The lock of this session, which may be another than was asked for within a grace.
    Granted { id: u64, fence: u64, content: Content, version: u64 },
    /// What was read.
    Found { content: Content, version: u64 },
    /// It was done.
    Done,
    /// The run ended with this token.
    Ran { last: u64 },
    /// An answer of the contract: `lock-timeout`, `gone`, `destroyed`, `stale`, `exists`.
    Refused(String),
    /// Anything else: a violation by itself.
    Failed(String),
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Before.
    Call(Call),
    /// After.
    Answer(Answer),
}

impl Event {
    /// As a line, with its line feed.
    pub fn line(&self, at_ns: u64) -> String {
        let mut line = match self {
            Event::Call(call) => format!("+ {at_ns} {}", call.words()),
            Event::Answer(answer) => format!("- {at_ns} {}", answer.words()),
        };
        // A store's message may be long, and a line must stay below PIPE_BUF.
        line = line.chars().filter(|c| *c != '\n').take(LINE_CHARS_MAX).collect();
        line.push('\n');
        line
    }

    /// From a line without its line feed.
    pub fn parse(line: &str) -> Option<(u64, Event)> {
        let mut parts = line.splitn(3, ' ');
        let (mark, at, rest) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
        match mark {
            "+" => Some((at, Event::Call(Call::parse(rest)?))),
            "-" => Some((at, Event::Answer(Answer::parse(rest)?))),
            _ => None,
        }
    }
}

impl Call {
    /// The session that it is about.
    pub fn id(&self) -> u64 {
        match *self {
            Call::Begin { id } | Call::Commit { id, .. } | Call::Release { id } | Call::Peek { id } => id,
            Call::Touch { id, .. }
            | Call::Destroy { id }
            | Call::Run { id, .. }
            | Call::Create { id, .. }
            | Call::Regenerate { id, .. } => id,
        }
    }

    fn words(&self) -> String {
        match *self {
            Call::Begin { id } => format!("begin {id}"),
            Call::Commit { id, token, ttl_ms } => format!("commit {id} {} {ttl_ms}", token.unwrap_or(0)),
            Call::Release { id } => format!("release {id}"),
            Call::Peek { id } => format!("peek {id}"),
            Call::Touch { id, ttl_ms } => format!("touch {id} {ttl_ms}"),
            Call::Destroy { id } => format!("destroy {id}"),
            Call::Create { id, token, ttl_ms } => format!("create {id} {token} {ttl_ms}"),
            Call::Run { id, first } => format!("run {id} {first}"),
            Call::Regenerate { id, new, grace_ms } => format!("regenerate {id} {new} {grace_ms}"),
        }
    }

    fn parse(words: &str) -> Option<Call> {
        let mut words = words.split(' ');
        let verb = words.next()?;
        let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(match (verb, numbers.as_slice()) {
            ("begin", &[id]) => Call::Begin { id },
            ("commit", &[id, token, ttl_ms]) => {
                Call::Commit { id, token: Some(token).filter(|token| *token != 0), ttl_ms }
            }
            ("release", &[id]) => Call::Release { id },
            ("peek", &[id]) => Call::Peek { id },
            ("touch", &[id, ttl_ms]) => Call::Touch { id, ttl_ms },
            ("destroy", &[id]) => Call::Destroy { id },
            ("create", &[id, token, ttl_ms]) => Call::Create { id, token, ttl_ms },
            ("run", &[id, first]) => Call::Run { id, first },
            ("regenerate", &[id, new, grace_ms]) => Call::Regenerate { id, new, grace_ms },
            _ => return None,
        })
    }
}

impl Answer {
    fn words(&self) -> String {
        let mut words = String::new();
        let _ = match self {
            Answer::Granted { id, fence, content, version } => {
                write!(words, "granted {id} {fence} {version} {}", content.word())
            }
            Answer::Found { content, version } => write!(words, "found {version} {}", content.word()),
            Answer::Done => write!(words, "done"),
            Answer::Ran { last } => write!(words, "ran {last}"),
            Answer::Refused(kind) => write!(words, "refused {kind}"),
            Answer::Failed(text) => write!(words, "failed {text}"),
        };
        words
    }

    fn parse(words: &str) -> Option<Answer> {
        let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
        let parts: Vec<&str> = rest.split(' ').collect();
        Some(match (verb, parts.as_slice()) {
            ("granted", [id, fence, version, content]) => Answer::Granted {
                id: id.parse().ok()?,
                fence: fence.parse().ok()?,
                content: Content::from_word(content)?,
                version: version.parse().ok()?,
            },
            ("found", [version, content]) => {
                Answer::Found { content: Content::from_word(content)?, version: version.parse().ok()? }
            }
            ("done", _) => Answer::Done,
            ("ran", [last]) => Answer::Ran { last: last.parse().ok()? },
            ("refused", _) => Answer::Refused(rest.to_owned()),
            ("failed", _) => Answer::Failed(rest.to_owned()),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_comes_back_from_its_line() {
        let sealed = Content::Sealed { id: 7, token: 9, counter: 3 };
        let events = [
            Event::Call(Call::Begin { id: 1 }),
            Event::Call(Call::Commit { id: 1, token: None, ttl_ms: 5 }),
            Event::Call(Call::Commit { id: 1, token: Some(2), ttl_ms: 5 }),
            Event::Call(Call::Release { id: 1 }),
            Event::Call(Call::Peek { id: 1 }),
            Event::Call(Call::Touch { id: 1, ttl_ms: 3 }),
            Event::Call(Call::Destroy { id: 1 }),
            Event::Call(Call::Create { id: 1, token: 2, ttl_ms: 3 }),
            Event::Call(Call::Run { id: 1, first: 2 }),
            Event::Call(Call::Regenerate { id: 1, new: 2, grace_ms: 3 }),
            Event::Answer(Answer::Granted { id: 1, fence: 2, content: sealed, version: 3 }),
            Event::Answer(Answer::Found { content: Content::Missing, version: 0 }),
            Event::Answer(Answer::Done),
            Event::Answer(Answer::Ran { last: 5 }),
            Event::Answer(Answer::Refused("gone".into())),
            Event::Answer(Answer::Failed("the disk is full".into())),
        ];
        for event in events {
            assert_eq!(Event::parse(event.line(17).trim_end()), Some((17, event)));
        }
        let long = Event::Answer(Answer::Failed("x".repeat(9_000))).line(1);
        assert!(long.len() < 4_096 && long.ends_with('\n'));
        assert_eq!(Event::parse("+ 1 fly 3"), None);
    }
}
