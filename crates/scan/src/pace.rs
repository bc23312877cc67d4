//! The pace and the end of a scan: pages, with pauses that are at least as long as the page took.
//! So the store has half of the time for other requests, however slow it is.

use std::time::{Duration, Instant};

use sessile_core::{Error, Result};
use sessile_stores::layouts::Walk;

use crate::{Pause, ScanSummary};

/// Sleeps are cut into pieces of this length, to react to an interrupt.
const NAP: Duration = Duration::from_millis(50);

/// The pace of a scan.
#[derive(Clone, Copy, Debug)]
pub struct ScanPace {
    /// Entries per page.
    pub page: usize,
    /// The pause between pages.
    pub pause: Pause,
    /// Time limit of the scan.
    pub time_max: Option<Duration>,
}

/// The reason why a scan ended.
#[derive(Debug)]
pub enum ScanEnd {
    /// All entries were seen.
    Complete,
    /// The time limit was reached.
    TimeUp,
    /// The caller asked for the end.
    Interrupted,
    /// The store failed after the first page.
    Failed(Error),
}

/// The course of a scan.
#[derive(Debug)]
pub struct ScanPass {
    /// The reason why it ended.
    pub ended: ScanEnd,
    /// Number of pages.
    pub pages: u64,
    /// Duration, with pauses.
    pub took: Duration,
    /// Duration without pauses.
    pub worked: Duration,
}

impl ScanPace {
    /// Walks to the end or the limit. `go_on` is asked between pages and in pauses.
    ///
    /// # Errors
    ///
    /// If the first page fails. A later failure ends the scan and keeps the summary.
    pub fn scan(
        self,
        walk: &mut dyn Walk,
        summary: &mut ScanSummary,
        go_on: &mut dyn FnMut(&ScanSummary) -> bool,
    ) -> Result<ScanPass> {
        let start = Instant::now();
        let mut pass = ScanPass {
            ended: ScanEnd::Complete,
            pages: 0,
            took: Duration::ZERO,
            worked: Duration::ZERO,
        };
        loop {
            let page_start = Instant::now();
            let more = walk.page(self.page, &mut |seen| summary.add(seen));
            let worked = page_start.elapsed();
            pass.worked += worked;
            match more {
                Err(error) if pass.pages == 0 => return Err(error),
                Err(error) => {
                    pass.ended = ScanEnd::Failed(error);
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

    /// Sleeps, unless the scan must end.
    fn rest(
        self,
        start: Instant,
        worked: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<ScanEnd> {
        let pause = self.pause.after(worked);
        let resting = Instant::now();
        loop {
            if !go_on() {
                return Some(ScanEnd::Interrupted);
            }
            if self.time_max.is_some_and(|most| start.elapsed() >= most) {
                return Some(ScanEnd::TimeUp);
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
    use sessile_stores::layouts::{EntryName, ScannedEntry};

    /// A walk with a fixed number of entries, then the end or a failure.
    struct Numbers {
        next: u64,
        end: u64,
        fails: bool,
        page_takes: Duration,
        asked_for: usize,
    }

    impl Walk for Numbers {
        fn page(&mut self, entries_max: usize, show: &mut dyn FnMut(ScannedEntry)) -> Result<bool> {
            self.asked_for = self.asked_for.max(entries_max);
            std::thread::sleep(self.page_takes);
            for _ in 0..entries_max {
                if self.next == self.end {
                    let error = Error::new(ErrorKind::Unreachable, "the server does not answer");
                    return if self.fails { Err(error) } else { Ok(false) };
                }
                let name = EntryName::Secret(self.next.to_le_bytes().to_vec());
                let bytes = self.next;
                show(ScannedEntry {
                    bin: "session".into(),
                    name,
                    bytes,
                    created: None,
                    used: None,
                    expires: None,
                });
                self.next += 1;
            }
            Ok(true)
        }
    }

    fn numbers(end: u64) -> Numbers {
        Numbers { next: 0, end, fails: false, page_takes: Duration::ZERO, asked_for: 0 }
    }

    fn pace(pause_ms: u64) -> ScanPace {
        ScanPace {
            page: 100,
            pause: Pause::AtLeast(Duration::from_millis(pause_ms)),
            time_max: None,
        }
    }

    fn summary() -> ScanSummary {
        ScanSummary::new(Timestamp::from_ms(0), 10, 0)
    }

    #[test]
    fn a_scan_of_a_hundred_thousand_entries_keeps_only_the_largest() {
        let (mut walk, mut summary) = (numbers(100_000), summary());
        let pass = pace(0).scan(&mut walk, &mut summary, &mut |_| true).unwrap();
        assert!(matches!(pass.ended, ScanEnd::Complete));
        assert_eq!((summary.total.entries, pass.pages), (100_000, 1_001));
        let largest: Vec<u64> = summary.largest.entries().iter().map(|seen| seen.bytes).collect();
        assert_eq!(largest, (99_990..100_000).rev().collect::<Vec<u64>>());
        assert_eq!((walk.asked_for, summary.bins.len()), (100, 1));
    }

    #[test]
    fn the_store_has_at_least_half_of_the_time_for_others() {
        let mut walk = Numbers { page_takes: Duration::from_millis(4), ..numbers(1_000) };
        let pass = pace(1).scan(&mut walk, &mut summary(), &mut |_| true).unwrap();
        assert!(pass.took >= pass.worked * 19 / 10, "{pass:?}");
    }

    #[test]
    fn what_was_seen_stays_when_it_ends_early() {
        let mut asked = 0;
        let mut until_third = |_: &ScanSummary| {
            asked += 1;
            asked < 3
        };
        let mut seen = summary();
        let pass = pace(0).scan(&mut numbers(1_000), &mut seen, &mut until_third).unwrap();
        assert!(matches!(pass.ended, ScanEnd::Interrupted));
        assert_eq!(seen.total.entries, 300);

        let (mut seen, mut broken) = (summary(), Numbers { fails: true, ..numbers(250) });
        let pass = pace(0).scan(&mut broken, &mut seen, &mut |_| true).unwrap();
        assert!(matches!(pass.ended, ScanEnd::Failed(_)));
        assert_eq!((seen.total.entries, pass.pages), (250, 2));
        let mut broken = Numbers { fails: true, ..numbers(0) };
        assert!(pace(0).scan(&mut broken, &mut summary(), &mut |_| true).is_err());

        let short = ScanPace { time_max: Some(Duration::from_millis(20)), ..pace(10_000) };
        let pass = short.scan(&mut numbers(1_000), &mut summary(), &mut |_| true).unwrap();
        assert!(matches!(pass.ended, ScanEnd::TimeUp));
        assert!(pass.took < Duration::from_secs(5), "{pass:?}");
    }
}
