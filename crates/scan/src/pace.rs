//! How fast a scan goes, and where it ends: page by page, with a pause between pages that is at least as long as the page
//! took. So a store has at least half of the time for others, however slow it is.

use std::time::{Duration, Instant};

use sessile_core::{Error, Result};
use sessile_stores::foreign::Walk;

use crate::Summary;

/// Sleeps are cut into pieces of this length, between which somebody may ask for the end.
const NAP: Duration = Duration::from_millis(50);

/// How fast a scan goes.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Entries of a page.
    pub page: usize,
    /// Shortest pause between pages; zero for none at all.
    pub pause: Duration,
    /// Longest time of the scan.
    pub time_max: Option<Duration>,
}

/// Why a scan ended.
#[derive(Debug)]
pub enum Ended {
    /// All was seen.
    Complete,
    /// The time was up.
    TimeUp,
    /// Somebody asked for it.
    Interrupted,
    /// The store failed in the middle.
    Failed(Error),
}

/// What a scan did.
#[derive(Debug)]
pub struct Pass {
    /// Why it ended.
    pub ended: Ended,
    /// Pages.
    pub pages: u64,
    /// From begin to end, pauses included.
    pub took: Duration,
    /// Without the pauses.
    pub worked: Duration,
}

impl Pace {
    /// Walks to the end, or as long as it may. `go_on` is asked between pages and in pauses.
    ///
    /// # Errors
    ///
    /// When the first page already fails. A later failure is a reason to end: what was seen stays.
    pub fn pass(
        self,
        walk: &mut dyn Walk,
        summary: &mut Summary,
        go_on: &mut dyn FnMut(&Summary) -> bool,
    ) -> Result<Pass> {
        let start = Instant::now();
        let mut pass = Pass { ended: Ended::Complete, pages: 0, took: Duration::ZERO, worked: Duration::ZERO };
        loop {
            let page_start = Instant::now();
            let more = walk.page(self.page, &mut |seen| summary.add(seen));
            let worked = page_start.elapsed();
            pass.worked += worked;
            match more {
                Err(error) if pass.pages == 0 => return Err(error),
                Err(error) => {
                    pass.ended = Ended::Failed(error);
                    break;
                }
                Ok(more) => {
                    pass.pages += 1;
                    if !more {
                        break;
                    }
                }
            }
            if let Some(ended) = self.rest(start, worked, &mut || go_on(summary)) {
                pass.ended = ended;
                break;
            }
        }
        pass.took = start.elapsed();
        Ok(pass)
    }

    /// Sleeps, unless it is time to end.
    fn rest(self, start: Instant, worked: Duration, go_on: &mut dyn FnMut() -> bool) -> Option<Ended> {
        let pause = if self.pause.is_zero() { Duration::ZERO } else { self.pause.max(worked) };
        let resting = Instant::now();
        loop {
            if !go_on() {
                return Some(Ended::Interrupted);
            }
            if self.time_max.is_some_and(|most| start.elapsed() >= most) {
                return Some(Ended::TimeUp);
            }
            let left = pause.saturating_sub(resting.elapsed());
            if left.is_zero() {
                return None;
            }
            std::thread::sleep(left.min(NAP));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessile_core::{ErrorKind, Timestamp};
    use sessile_stores::foreign::{Name, Seen};

    /// As many entries as it is told, then the end or a failure.
    struct Numbers {
        next: u64,
        end: u64,
        fails: bool,
        page_takes: Duration,
        asked_for: usize,
    }

    impl Walk for Numbers {
        fn page(&mut self, entries_max: usize, show: &mut dyn FnMut(Seen)) -> Result<bool> {
            self.asked_for = self.asked_for.max(entries_max);
            std::thread::sleep(self.page_takes);
            for _ in 0..entries_max {
                if self.next == self.end {
                    let error = Error::new(ErrorKind::Unreachable, "the server does not answer");
                    return if self.fails { Err(error) } else { Ok(false) };
                }
                let name = Name::Secret(self.next.to_le_bytes().to_vec());
                let bytes = self.next;
                show(Seen { bin: "session".into(), name, bytes, created: None, used: None, expires: None });
                self.next += 1;
            }
            Ok(true)
        }
    }

    fn numbers(end: u64) -> Numbers {
        Numbers { next: 0, end, fails: false, page_takes: Duration::ZERO, asked_for: 0 }
    }

    fn pace(pause_ms: u64) -> Pace {
        Pace { page: 100, pause: Duration::from_millis(pause_ms), time_max: None }
    }

    fn summary() -> Summary {
        Summary::new(Timestamp::from_ms(0), 10, 0)
    }

    #[test]
    fn a_scan_of_a_hundred_thousand_entries_keeps_only_the_largest() {
        let (mut walk, mut summary) = (numbers(100_000), summary());
        let pass = pace(0).pass(&mut walk, &mut summary, &mut |_| true).unwrap();
        assert!(matches!(pass.ended, Ended::Complete));
        assert_eq!((summary.total.entries, pass.pages), (100_000, 1_001));
        let largest: Vec<u64> = summary.largest.entries().iter().map(|seen| seen.bytes).collect();
        assert_eq!(largest, (99_990..100_000).rev().collect::<Vec<u64>>());
        assert_eq!((walk.asked_for, summary.bins.len()), (100, 1));
    }

    #[test]
    fn the_store_has_at_least_half_of_the_time_for_others() {
        let mut walk = Numbers { page_takes: Duration::from_millis(4), ..numbers(1_000) };
        let pass = pace(1).pass(&mut walk, &mut summary(), &mut |_| true).unwrap();
        assert!(pass.took >= pass.worked * 19 / 10, "{pass:?}");
    }

    #[test]
    fn what_was_seen_stays_when_it_ends_early() {
        let mut asked = 0;
        let mut until_third = |_: &Summary| {
            asked += 1;
            asked < 3
        };
        let mut seen = summary();
        let pass = pace(0).pass(&mut numbers(1_000), &mut seen, &mut until_third).unwrap();
        assert!(matches!(pass.ended, Ended::Interrupted));
        assert_eq!(seen.total.entries, 300);

        let (mut seen, mut broken) = (summary(), Numbers { fails: true, ..numbers(250) });
        let pass = pace(0).pass(&mut broken, &mut seen, &mut |_| true).unwrap();
        assert!(matches!(pass.ended, Ended::Failed(_)));
        assert_eq!((seen.total.entries, pass.pages), (250, 2));
        let mut broken = Numbers { fails: true, ..numbers(0) };
        assert!(pace(0).pass(&mut broken, &mut summary(), &mut |_| true).is_err());

        let short = Pace { time_max: Some(Duration::from_millis(20)), ..pace(10_000) };
        let pass = short.pass(&mut numbers(1_000), &mut summary(), &mut |_| true).unwrap();
        assert!(matches!(pass.ended, Ended::TimeUp));
        assert!(pass.took < Duration::from_secs(5), "{pass:?}");
    }
}
