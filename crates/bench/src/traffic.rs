//! Workloads: how large sessions are, which of them requests ask for, and what requests do with them.
//!
//! Without one an experiment has payloads of one size, asks for all sessions alike, and changes each that it asks for. Every mix
//! here is an assumption about visitors, none is a measurement; `docs/benchmark.md` tells them. Figures of different workloads
//! are answers to different questions.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, Zipf};
use serde::{Deserialize, Serialize};

use crate::spread::Spread;

/// A workload by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Workload {
    /// Workload A of the Yahoo! Cloud Serving Benchmark.
    YcsbA,
    /// Visitors of a shop look more often than they buy.
    Shop,
    /// Most sessions are those of robots, which never come back.
    Bots,
    /// Few large sessions of people who work on a site.
    BigAdmin,
    /// Sessions as large as those of a store that was scanned.
    Profile,
}

/// What requests do, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mix {
    /// Reads without a lock.
    pub read: u8,
    /// Begins, reads, changes nothing, and moves the expiry.
    pub touch: u8,
    /// Begins, reads, changes, commits.
    pub change: u8,
    /// Begins a session that is not there, and commits it; nobody asks for it again.
    pub first: u8,
}

/// What one request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Read,
    Touch,
    Change,
    First,
}

/// Exponent of the distribution of Zipf, as YCSB has it.
const ZIPF: f64 = 0.99;
/// Ten fields of a hundred bytes.
const YCSB_BYTES: usize = 1_000;
/// What is kept of a visitor who has done nothing yet.
const BOT_BYTES: usize = 500;
/// A prime: ranks times it, modulo the number of sessions, are all sessions in another order.
const SCATTER: usize = 2_654_435_761;

impl Workload {
    /// All of them.
    pub const ALL: &[Workload] =
        &[Workload::YcsbA, Workload::Shop, Workload::Bots, Workload::BigAdmin, Workload::Profile];

    /// The word in `--workload` and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Workload::YcsbA => "ycsb-a",
            Workload::Shop => "shop",
            Workload::Bots => "bots",
            Workload::BigAdmin => "big-admin",
            Workload::Profile => "profile",
        }
    }

    /// The workload of this name.
    pub fn from_name(name: &str) -> Option<Workload> {
        Workload::ALL.iter().copied().find(|workload| workload.name() == name)
    }

    /// What it is, in one sentence.
    pub const fn sentence(self) -> &'static str {
        match self {
            Workload::YcsbA => {
                "1,000 bytes; half of the requests change a session, half read one without its lock; the most popular of 10,000 \
                 sessions has a tenth of them (Zipf, 0.99)"
            }
            Workload::Shop => {
                "log-normal sizes (median 1 KiB, up to 1 MiB); 85 % of the requests touch a session, 15 % change it"
            }
            Workload::Bots => {
                "500 bytes; 22 % of the requests are the only one of a new session (59 % of the sessions, if each other one has \
                 five), 68 % touch a session, 10 % change it"
            }
            Workload::BigAdmin => {
                "4 KiB to 256 KiB, each doubling as often as any other; half of the requests touch a session, half change it; 1,000 \
                 sessions"
            }
            Workload::Profile => "sizes as in the store of --profile; each request changes a session",
        }
    }

    /// Sizes; `profile` are those that were given.
    pub(crate) fn spread(self, profile: Option<&Spread>) -> Spread {
        match self {
            Workload::YcsbA | Workload::Bots => Spread::Fixed,
            Workload::Shop => Spread::LogNormal,
            Workload::BigAdmin => Spread::LogUniform,
            Workload::Profile => profile.cloned().unwrap_or_default(),
        }
    }

    /// The size, where all have one.
    pub(crate) const fn payload_bytes(self) -> Option<usize> {
        match self {
            Workload::YcsbA => Some(YCSB_BYTES),
            Workload::Bots => Some(BOT_BYTES),
            Workload::Shop | Workload::BigAdmin | Workload::Profile => None,
        }
    }

    /// How many, unless `--sessions` says so: with others all contenders together would not fit into a machine.
    pub(crate) const fn sessions(self) -> Option<usize> {
        match self {
            Workload::BigAdmin => Some(1_000),
            Workload::YcsbA | Workload::Shop | Workload::Bots | Workload::Profile => None,
        }
    }

    /// What requests do.
    pub(crate) const fn mix(self) -> Mix {
        match self {
            Workload::YcsbA => Mix { read: 50, change: 50, ..Mix::NOTHING },
            Workload::Shop => Mix { touch: 85, change: 15, ..Mix::NOTHING },
            Workload::Bots => Mix { touch: 68, change: 10, first: 22, ..Mix::NOTHING },
            Workload::BigAdmin => Mix { touch: 50, change: 50, ..Mix::NOTHING },
            Workload::Profile => Mix { change: 100, ..Mix::NOTHING },
        }
    }

    /// Whether requests make sessions.
    pub(crate) const fn creates(self) -> bool {
        self.mix().first > 0
    }

    /// How sessions are chosen among so many; `None` is all alike.
    pub(crate) fn popularity(self, sessions: usize, seed: u64) -> Option<Popularity> {
        if self != Workload::YcsbA {
            return None;
        }
        let zipf = Zipf::new(sessions.max(1) as f64, ZIPF).ok()?;
        Some(Popularity { zipf, random: Xoshiro256PlusPlus::seed_from_u64(seed), sessions: sessions.max(1) })
    }
}

impl Mix {
    const NOTHING: Mix = Mix { read: 0, touch: 0, change: 0, first: 0 };

    /// What a request does that has drawn this percentile, from 0 to 99.
    pub(crate) const fn deed(self, drawn: u8) -> Deed {
        if drawn < self.read {
            Deed::Read
        } else if drawn < self.read + self.touch {
            Deed::Touch
        } else if drawn < self.read + self.touch + self.change {
            Deed::Change
        } else {
            Deed::First
        }
    }
}

/// Sessions of which some are asked for more often than others. Which ones has nothing to do with when they were made.
pub(crate) struct Popularity {
    zipf: Zipf<f64>,
    random: Xoshiro256PlusPlus,
    sessions: usize,
}

impl Popularity {
    /// The next one, from 0.
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
            let Mix { read, touch, change, first } = workload.mix();
            assert_eq!(u32::from(read) + u32::from(touch) + u32::from(change) + u32::from(first), 100, "{workload:?}");
            let deeds: Vec<Deed> = (0..100).map(|drawn| workload.mix().deed(drawn)).collect();
            let count = |deed| deeds.iter().filter(|it| **it == deed).count();
            let counted = [Deed::Read, Deed::Touch, Deed::Change, Deed::First].map(count);
            assert_eq!(counted, [read, touch, change, first].map(usize::from), "{workload:?}");
            assert_eq!(Workload::from_name(workload.name()), Some(*workload));
        }
        // 59 % of the sessions have one request if each of the others has five.
        let first = f64::from(Workload::Bots.mix().first);
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
