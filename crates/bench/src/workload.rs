//! Workloads: session sizes, which sessions requests ask for, and what requests do.
//!
//! Without a workload payloads have one size, all sessions are equally popular, and each request is
//! a change. The mixes are assumptions about visitors, not measurements; `docs/benchmark.md`
//! explains them. Figures of different workloads are not comparable.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, Zipf};
use serde::{Deserialize, Serialize};

use crate::payload_spread::PayloadSpread;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Workload {
    /// Workload A of the Yahoo! Cloud Serving Benchmark.
    YcsbA,
    /// Shop visitors, who read more than they buy.
    Shop,
    /// Mostly sessions of robots that never return.
    Bots,
    /// A few large sessions of site editors.
    BigAdmin,
    /// Sizes of a scanned store.
    Profile,
}

/// Shares of requests in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestMix {
    /// Reads without a lock.
    pub read: u8,
    /// Begins, reads, moves the expiry.
    pub touch: u8,
    /// Begins, reads, changes, commits.
    pub change: u8,
    /// Begins and commits a new session that nobody asks for again.
    pub new_session: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Read,
    Touch,
    Change,
    NewSession,
}

/// Zipf exponent of YCSB.
const ZIPF: f64 = 0.99;
/// Ten fields of a hundred bytes.
const YCSB_BYTES: usize = 1_000;
/// A session of a visitor who did nothing yet.
const BOT_BYTES: usize = 500;
/// A prime, so that multiples modulo the number of sessions permute the ranks.
const SCATTER: usize = 2_654_435_761;

impl Workload {
    pub const ALL: &[Workload] =
        &[Workload::YcsbA, Workload::Shop, Workload::Bots, Workload::BigAdmin, Workload::Profile];

    pub const fn name(self) -> &'static str {
        match self {
            Workload::YcsbA => "ycsb-a",
            Workload::Shop => "shop",
            Workload::Bots => "bots",
            Workload::BigAdmin => "big-admin",
            Workload::Profile => "profile",
        }
    }

    pub fn from_name(name: &str) -> Option<Workload> {
        Workload::ALL.iter().copied().find(|workload| workload.name() == name)
    }

    pub const fn description(self) -> &'static str {
        match self {
            Workload::YcsbA => {
                "1,000 bytes; half of the requests change a session, half read one without its \
                 lock; the most popular of 10,000 sessions has a tenth of them (Zipf, 0.99)"
            }
            Workload::Shop => {
                "log-normal sizes (median 1 KiB, up to 1 MiB); 85 % of the requests touch a \
                 session, 15 % change it"
            }
            Workload::Bots => {
                "500 bytes; 22 % of the requests are the only one of a new session (59 % of the \
                 sessions, if each other one has five), 68 % touch a session, 10 % change it"
            }
            Workload::BigAdmin => {
                "4 KiB to 256 KiB, each doubling as often as any other; half of the requests touch \
                 a session, half change it; 1,000 sessions"
            }
            Workload::Profile => {
                "sizes as in the store of --profile; each request changes a session"
            }
        }
    }

    /// The spread of sizes; `profile` uses the given one.
    pub(crate) fn spread(self, profile: Option<&PayloadSpread>) -> PayloadSpread {
        match self {
            Workload::YcsbA | Workload::Bots => PayloadSpread::Fixed,
            Workload::Shop => PayloadSpread::LogNormal,
            Workload::BigAdmin => PayloadSpread::LogUniform,
            Workload::Profile => profile.cloned().unwrap_or_default(),
        }
    }

    pub(crate) const fn payload_bytes(self) -> Option<usize> {
        match self {
            Workload::YcsbA => Some(YCSB_BYTES),
            Workload::Bots => Some(BOT_BYTES),
            Workload::Shop | Workload::BigAdmin | Workload::Profile => None,
        }
    }

    /// Default number of sessions. More large ones would not fit into a machine for all contenders.
    pub(crate) const fn sessions(self) -> Option<usize> {
        match self {
            Workload::BigAdmin => Some(1_000),
            Workload::YcsbA | Workload::Shop | Workload::Bots | Workload::Profile => None,
        }
    }

    pub(crate) const fn mix(self) -> RequestMix {
        match self {
            Workload::YcsbA => RequestMix { read: 50, change: 50, ..RequestMix::NOTHING },
            Workload::Shop => RequestMix { touch: 85, change: 15, ..RequestMix::NOTHING },
            Workload::Bots => {
                RequestMix { touch: 68, change: 10, new_session: 22, ..RequestMix::NOTHING }
            }
            Workload::BigAdmin => RequestMix { touch: 50, change: 50, ..RequestMix::NOTHING },
            Workload::Profile => RequestMix { change: 100, ..RequestMix::NOTHING },
        }
    }

    pub(crate) const fn creates(self) -> bool {
        self.mix().new_session > 0
    }

    /// How sessions are drawn; `None`: uniformly.
    pub(crate) fn popularity(self, sessions: usize, seed: u64) -> Option<Popularity> {
        if self != Workload::YcsbA {
            return None;
        }
        let zipf = Zipf::new(sessions.max(1) as f64, ZIPF).ok()?;
        Some(Popularity {
            zipf,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            sessions: sessions.max(1),
        })
    }
}

impl RequestMix {
    const NOTHING: RequestMix = RequestMix { read: 0, touch: 0, change: 0, new_session: 0 };

    pub(crate) const fn kind_at(self, drawn: u8) -> RequestKind {
        if drawn < self.read {
            RequestKind::Read
        } else if drawn < self.read + self.touch {
            RequestKind::Touch
        } else if drawn < self.read + self.touch + self.change {
            RequestKind::Change
        } else {
            RequestKind::NewSession
        }
    }
}

/// Draws sessions by popularity, independent of their age.
pub(crate) struct Popularity {
    zipf: Zipf<f64>,
    random: Xoshiro256PlusPlus,
    sessions: usize,
}

impl Popularity {
    pub(crate) fn next(&mut self) -> usize {
        let rank = self.zipf.sample(&mut self.random) as usize;
        rank.clamp(1, self.sessions).wrapping_mul(SCATTER) % self.sessions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_does_something_and_as_often_as_the_sentence_says() {
        for workload in Workload::ALL {
            let RequestMix { read, touch, change, new_session } = workload.mix();
            assert_eq!(
                u32::from(read) + u32::from(touch) + u32::from(change) + u32::from(new_session),
                100,
                "{workload:?}"
            );
            let deeds: Vec<RequestKind> =
                (0..100).map(|drawn| workload.mix().kind_at(drawn)).collect();
            let count = |kind_at| deeds.iter().filter(|it| **it == kind_at).count();
            let counted = [
                RequestKind::Read,
                RequestKind::Touch,
                RequestKind::Change,
                RequestKind::NewSession,
            ]
            .map(count);
            assert_eq!(
                counted,
                [read, touch, change, new_session].map(usize::from),
                "{workload:?}"
            );
            assert_eq!(Workload::from_name(workload.name()), Some(*workload));
        }
        // 59 % of the sessions have one request if each of the others has five.
        let first = f64::from(Workload::Bots.mix().new_session);
        let others = (100.0 - first) / 5.0;
        assert!((first / (first + others) - 0.59).abs() < 0.005, "{}", first / (first + others));
    }

    #[test]
    fn the_popular_have_most_requests_and_every_session_has_its_rank() {
        let mut popularity = Workload::YcsbA.popularity(10_000, 7).unwrap();
        let mut counts = vec![0_u32; 10_000];
        (0..100_000).for_each(|_| counts[popularity.next()] += 1);
        let known = counts.clone();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // The sum over 1/rank^0.99 of 10,000 is 10.2.
        assert!((9_000..11_000).contains(&counts[0]), "{}", counts[0]);
        assert!((4_300..5_700).contains(&counts[1]), "{}", counts[1]);
        assert!(counts.iter().filter(|count| **count > 0).count() > 5_000);
        let neighbours = known.windows(2).filter(|pair| pair[0] > 500 && pair[1] > 500).count();
        assert!(neighbours < 3, "{neighbours} popular ones lie side by side");
        assert!(Workload::Shop.popularity(10, 7).is_none());
        let mut few = Workload::YcsbA.popularity(3, 7).unwrap();
        let seen: std::collections::BTreeSet<usize> = (0..1_000).map(|_| few.next()).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
    }
}
