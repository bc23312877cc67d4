//! What a worker reports: each call before it is made, each result after it was given, with the
//! time.
//!
//! One report is one line and one `write` of less than `PIPE_BUF` bytes: a kill leaves whole lines,
//! also in a pipe that all workers share. A call whose line is missing was never made; a call
//! without a result may have had its effect. Times are `CLOCK_MONOTONIC` in nanoseconds, which all
//! processes of the host share. Sessions appear as numbers; their ids stay with the worker.

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use sessile_core::Record;

use crate::sealed::Seal;

/// Characters of a message that JSON may escape with six bytes each, below the 4,096 of `PIPE_BUF`.
const TEXT_CHARS_MAX: usize = 600;

pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec() * 1_000_000_000 + time.tv_nsec());
    u64::try_from(time).unwrap_or(0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SeenPayload {
    Missing,
    /// A record with an empty payload, which cannot say whose it is.
    Empty,
    Sealed(Seal),
    /// Bytes that nobody wrote.
    Torn {
        bytes: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenRecord {
    pub payload: SeenPayload,
    pub version: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreCall {
    Begin,
    /// Store under the lease; no token stands for an empty payload.
    Commit {
        token: Option<u64>,
        ttl_ms: u64,
    },
    Release,
    Peek,
    Touch {
        ttl_ms: u64,
    },
    Destroy,
    Create {
        token: u64,
        ttl_ms: u64,
    },
    /// Lock and store again and again for a moment, with this token and those after it.
    Run {
        first: u64,
    },
    Regenerate {
        new: u64,
        grace_ms: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallResult {
    /// The lock of this session, which may be another than was asked for within a grace.
    Granted {
        id: u64,
        fence: u64,
        seen: SeenRecord,
    },
    Found(SeenRecord),
    Done,
    Ran {
        last: u64,
    },
    /// An error of the contract: `lock-timeout`, `gone`, `destroyed`, `stale`, `exists`.
    Refused(String),
    /// Anything else: a violation by itself.
    Failed(String),
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerEvent {
    Call(u64, StoreCall),
    Result(CallResult),
}

impl SeenRecord {
    pub fn from_record(record: Option<&Record>) -> SeenRecord {
        let payload = match record.map(|record| record.payload.as_slice()) {
            None => SeenPayload::Missing,
            Some([]) => SeenPayload::Empty,
            Some(bytes) => Seal::open(bytes).map_or_else(
                || SeenPayload::Torn { bytes: bytes.len() as u64 },
                SeenPayload::Sealed,
            ),
        };
        SeenRecord { payload, version: record.map_or(0, |record| record.head.version) }
    }

    /// The token of the write that was found: none without a record, 0 for what no write left.
    pub fn token(&self) -> Option<u64> {
        match self.payload {
            SeenPayload::Missing => None,
            SeenPayload::Sealed(seal) => Some(seal.token),
            SeenPayload::Empty | SeenPayload::Torn { .. } => Some(0),
        }
    }
}

impl CallResult {
    /// A violation; a long message is cut.
    pub fn failed(text: &str) -> CallResult {
        CallResult::Failed(text.chars().take(TEXT_CHARS_MAX).collect())
    }
}

impl WorkerEvent {
    pub fn line(&self, worker: usize, at_ns: u64) -> String {
        // Fails for no value of these types.
        serde_json::to_string(&(worker, at_ns, self)).unwrap_or_default() + "\n"
    }

    pub fn parse(line: &str) -> Option<(usize, u64, WorkerEvent)> {
        serde_json::from_str(line).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_comes_back_from_its_line() {
        let payload = SeenPayload::Sealed(Seal { session: 7, token: u64::MAX, counter: 3 });
        let missing = SeenRecord { payload: SeenPayload::Missing, version: 0 };
        let events = [
            WorkerEvent::Call(1, StoreCall::Begin),
            WorkerEvent::Call(1, StoreCall::Commit { token: None, ttl_ms: 5 }),
            WorkerEvent::Call(1, StoreCall::Commit { token: Some(2), ttl_ms: 5 }),
            WorkerEvent::Call(1, StoreCall::Regenerate { new: 2, grace_ms: 3 }),
            WorkerEvent::Result(CallResult::Granted {
                id: 1,
                fence: 2,
                seen: SeenRecord { payload, version: 3 },
            }),
            WorkerEvent::Result(CallResult::Found(missing)),
            WorkerEvent::Result(CallResult::Done),
            WorkerEvent::Result(CallResult::Ran { last: 5 }),
            WorkerEvent::Result(CallResult::Refused("gone".into())),
            WorkerEvent::Result(CallResult::failed("the disk\nis full")),
        ];
        for event in events {
            let line = event.line(4, 17);
            assert_eq!(line.matches('\n').count(), 1);
            assert_eq!(WorkerEvent::parse(line.trim_end()), Some((4, 17, event)));
        }
        for longest in ["x", "\u{1}", "\u{1f980}"] {
            let long = WorkerEvent::Result(CallResult::failed(&longest.repeat(9_000)));
            assert!(long.line(usize::MAX, u64::MAX).len() < 4_096);
        }
        assert_eq!(WorkerEvent::parse("[1,1,\"fly\"]"), None);
    }
}
