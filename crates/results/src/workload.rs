//! Workloads: session sizes and what requests do.
//!
//! Without a workload payloads have one size, all sessions are equally popular, and each request is
//! a change. The mixes are assumptions about visitors, not measurements; `bench/EXPERIMENTS.md`
//! explains them. Figures of different workloads are not comparable.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Workload {
    /// Shop visitors, who read more than they buy.
    Shop,
    /// Mostly sessions of robots that never return.
    Bots,
    /// Sizes of a scanned store.
    Profile,
}

/// Shares of requests in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestMix {
    /// Begins, reads, moves the expiry.
    pub touch: u8,
    /// Begins, reads, changes, commits.
    pub change: u8,
    /// Begins and commits a new session that nobody asks for again.
    pub new_session: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    Touch,
    Change,
    NewSession,
}

/// A session of a visitor who did nothing yet.
const BOT_BYTES: usize = 500;
impl Workload {
    pub const ALL: &[Workload] = &[Workload::Shop, Workload::Bots, Workload::Profile];

    pub const fn name(self) -> &'static str {
        match self {
            Workload::Shop => "shop",
            Workload::Bots => "bots",
            Workload::Profile => "profile",
        }
    }

    pub fn from_name(name: &str) -> Option<Workload> {
        Workload::ALL.iter().copied().find(|workload| workload.name() == name)
    }

    pub const fn description(self) -> &'static str {
        match self {
            Workload::Shop => {
                "log-normal sizes (median 1 KiB, up to 1 MiB); 85 % of the requests touch a \
                 session, 15 % change it"
            }
            Workload::Bots => {
                "500 bytes; 22 % of the requests are the only one of a new session (59 % of the \
                 sessions, if each other one has five), 68 % touch a session, 10 % change it"
            }
            Workload::Profile => {
                "sizes as in the store of --profile; each request changes a session"
            }
        }
    }

    pub const fn payload_bytes(self) -> Option<usize> {
        match self {
            Workload::Bots => Some(BOT_BYTES),
            Workload::Shop | Workload::Profile => None,
        }
    }

    pub const fn mix(self) -> RequestMix {
        match self {
            Workload::Shop => RequestMix { touch: 85, change: 15, ..RequestMix::NOTHING },
            Workload::Bots => RequestMix { touch: 68, change: 10, new_session: 22 },
            Workload::Profile => RequestMix { change: 100, ..RequestMix::NOTHING },
        }
    }

    pub const fn creates(self) -> bool {
        self.mix().new_session > 0
    }
}

impl RequestMix {
    const NOTHING: RequestMix = RequestMix { touch: 0, change: 0, new_session: 0 };

    pub const fn kind_at(self, drawn: u8) -> RequestKind {
        if drawn < self.touch {
            RequestKind::Touch
        } else if drawn < self.touch + self.change {
            RequestKind::Change
        } else {
            RequestKind::NewSession
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_does_something_and_as_often_as_the_sentence_says() {
        for workload in Workload::ALL {
            let RequestMix { touch, change, new_session } = workload.mix();
            assert_eq!(
                u32::from(touch) + u32::from(change) + u32::from(new_session),
                100,
                "{workload:?}"
            );
            let deeds: Vec<RequestKind> =
                (0..100).map(|drawn| workload.mix().kind_at(drawn)).collect();
            let count = |kind_at| deeds.iter().filter(|it| **it == kind_at).count();
            let counted =
                [RequestKind::Touch, RequestKind::Change, RequestKind::NewSession].map(count);
            assert_eq!(counted, [touch, change, new_session].map(usize::from), "{workload:?}");
            assert_eq!(Workload::from_name(workload.name()), Some(*workload));
        }
        // 59 % of the sessions have one request if each of the others has five.
        let first = f64::from(Workload::Bots.mix().new_session);
        let others = (100.0 - first) / 5.0;
        assert!((first / (first + others) - 0.59).abs() < 0.005, "{}", first / (first + others));
    }
}
