//! The servers that a URL names, of which one at a time takes changes: a primary and its standbys.
//!
//! Invariant: connections lead to the server that took changes last, for as long as it does; then
//! to the first after it, in the order of the URL, that does. Where several take changes at a time,
//! the caller goes back to the first one of the URL ([`Hosts::look_back`]).

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::breaker;
use super::pool::{AttemptFailure, FAILOVER_MAX};

/// For a look whether the first server of the URL is back: a log-in and more, some ten round trips.
const LOOK_FOR: Duration = Duration::from_millis(250);
/// Between two looks. Doubled by each that fails.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
const LOOK_DOUBLINGS_MAX: u32 = 5;

pub struct Hosts<T> {
    all: Vec<T>,
    last: AtomicUsize,
    looks_back: AtomicBool,
    failed_looks: AtomicU32,
    /// In milliseconds since `made`.
    last_look: AtomicU64,
    made: Instant,
    /// Since when no server takes changes, in milliseconds since `made`, plus one; 0: one does.
    none_since: AtomicU64,
}

impl<T> Hosts<T> {
    pub fn new(all: Vec<T>) -> Hosts<T> {
        Hosts {
            all,
            last: AtomicUsize::new(0),
            looks_back: AtomicBool::new(false),
            failed_looks: AtomicU32::new(0),
            last_look: AtomicU64::new(0),
            made: Instant::now(),
            none_since: AtomicU64::new(0),
        }
    }

    /// For how long another server may take over, if there is another.
    pub fn failover(&self) -> Option<Duration> {
        (self.all.len() > 1).then_some(FAILOVER_MAX)
    }

    /// Tries one after the other; `open` fails with a demotion on a server that takes no changes.
    /// The outage of which the breaker then knows is the time without one that does.
    ///
    /// # Errors
    ///
    /// The failure of a server that is out of order, before one of a standby: that server is
    /// probably the primary. `None`: there is no server.
    pub fn connect<C, F: AttemptFailure>(
        &self,
        deadline: Instant,
        mut open: impl FnMut(&T, Instant) -> Result<C, F>,
    ) -> Result<C, Option<F>> {
        // Relaxed: hints, which each connection checks.
        let known = self.last.load(Ordering::Relaxed);
        let looks_back = self.looks_back.load(Ordering::Relaxed) && self.takes_look();
        let first = if looks_back { 0 } else { known };
        let turns = self.all.iter().enumerate().cycle().skip(first).take(self.all.len());
        let mut failure = None::<F>;
        for ((number, host), left) in turns.zip((1..=self.all.len() as u32).rev()) {
            // A silent server leaves time for the others.
            let now = Instant::now();
            let mut end = now + deadline.saturating_duration_since(now) / left;
            if looks_back && number < known {
                end = end.min(now + LOOK_FOR);
            }
            match open(host, end) {
                Ok(connection) => {
                    self.last.store(number, Ordering::Relaxed);
                    self.count_look(looks_back, number == 0);
                    self.none_since.store(0, Ordering::Relaxed);
                    return Ok(connection);
                }
                Err(next) if failure.as_ref().is_none_or(F::is_demotion) => failure = Some(next),
                Err(_) => {}
            }
        }
        if self.all.len() > 1 {
            breaker::set_outage_of_all(vec![Some(self.time_without())]);
        }
        Err(failure)
    }

    /// Whether this is the server that the URL names first.
    pub fn is_first(&self, host: &T) -> bool {
        self.all.first().is_some_and(|first| std::ptr::eq(first, host))
    }

    /// From now on a connection tries the first server of the URL first, for a moment and now and
    /// then. So do all processes, whenever they have started: they agree on one server.
    pub fn look_back(&self) {
        // Relaxed: hints, as in `connect`.
        if !self.looks_back.swap(true, Ordering::Relaxed) {
            self.last_look.store(self.age_ms(), Ordering::Relaxed);
        }
    }

    /// One connection of the process at a time.
    fn takes_look(&self) -> bool {
        let (now, last) = (self.age_ms(), self.last_look.load(Ordering::Relaxed));
        Duration::from_millis(now.wrapping_sub(last)) >= self.pause_before_look()
            && self
                .last_look
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    fn age_ms(&self) -> u64 {
        u64::try_from(self.made.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// For how long a connection to another server than the first one is used.
    pub fn pause_before_look(&self) -> Duration {
        LOOK_PAUSE * (1 << self.failed_looks.load(Ordering::Relaxed).min(LOOK_DOUBLINGS_MAX))
    }

    fn count_look(&self, looks_back: bool, is_back: bool) {
        // Relaxed: figures of their own.
        if is_back {
            self.failed_looks.store(0, Ordering::Relaxed);
            self.looks_back.store(false, Ordering::Relaxed);
        } else if looks_back {
            self.failed_looks.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// For how long no server has taken changes, by the failures that this process has seen.
    fn time_without(&self) -> Duration {
        let now = self.age_ms();
        // Relaxed: a figure of its own.
        let first =
            self.none_since.compare_exchange(0, now + 1, Ordering::Relaxed, Ordering::Relaxed);
        Duration::from_millis(now.saturating_sub(first.err().map_or(now, |since| since - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    enum Failure {
        Dead,
        Standby,
    }

    impl AttemptFailure for Failure {
        fn is_transient(&self) -> bool {
            *self == Failure::Dead
        }

        fn breaks_connection(&self) -> bool {
            true
        }

        fn is_demotion(&self) -> bool {
            *self == Failure::Standby
        }
    }

    fn deadline() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    #[test]
    fn the_server_that_took_changes_last_is_asked_first() {
        let hosts = Hosts::new(vec!['a', 'b', 'c']);
        let mut asked = Vec::new();
        let mut connect = |primary: Option<char>| {
            asked.clear();
            let done = hosts.connect(deadline(), |host, _| {
                asked.push(*host);
                if Some(*host) == primary { Ok(*host) } else { Err(Failure::Standby) }
            });
            (done, asked.iter().collect::<String>())
        };
        assert_eq!(connect(Some('b')), (Ok('b'), "ab".to_owned()));
        assert_eq!(connect(Some('b')), (Ok('b'), "b".to_owned()));
        assert_eq!(connect(Some('a')), (Ok('a'), "bca".to_owned()));
        assert_eq!(connect(None), (Err(Some(Failure::Standby)), "abc".to_owned()));
    }

    /// A first server that is silent cost each look its whole share of the deadline.
    #[test]
    fn the_first_server_of_the_url_is_looked_at_again_for_a_moment_and_less_often() {
        let hosts = Hosts::new(vec!['a', 'b']);
        let connect = |down: char| {
            let mut longest = Duration::ZERO;
            let open = |host: &char, end: Instant| {
                let time = end.saturating_duration_since(Instant::now());
                longest = longest.max(if *host == 'a' { time } else { Duration::ZERO });
                if *host == down { Err(Failure::Dead) } else { Ok((*host, hosts.is_first(host))) }
            };
            (hosts.connect(deadline(), open).unwrap(), longest)
        };
        assert_eq!(connect('a').0, ('b', false));
        assert_eq!(connect('-').0, ('b', false), "it took changes last");
        assert_eq!(hosts.pause_before_look(), LOOK_PAUSE);
        hosts.look_back();
        assert_eq!(connect('-').0, ('b', false), "it was left just now");
        // As if the pause were over.
        let is_due = || {
            let pause = u64::try_from(hosts.pause_before_look().as_millis()).unwrap();
            hosts.last_look.store(hosts.age_ms().wrapping_sub(pause), Ordering::Relaxed);
        };
        for pauses in [2, 4, 8] {
            is_due();
            let (found, longest) = connect('a');
            assert!(found == ('b', false) && longest <= LOOK_FOR, "{longest:?}");
            assert_eq!(hosts.pause_before_look(), LOOK_PAUSE * pauses);
            assert_eq!(connect('-').0, ('b', false), "one look at a time");
        }
        is_due();
        assert_eq!(connect('-').0, ('a', true));
        assert_eq!(hosts.pause_before_look(), LOOK_PAUSE);
    }

    /// While a standby lived, each request waited for its whole deadline.
    #[test]
    fn the_time_without_a_primary_is_an_outage_until_there_is_one() {
        let hosts = Hosts::new(vec!['a', 'b']);
        let none = || hosts.connect(deadline(), |_, _| Err::<(), _>(Failure::Standby));
        let outage = || {
            assert!(none().is_err());
            breaker::outage().unwrap()
        };
        assert!(outage() < Duration::from_millis(20));
        std::thread::sleep(Duration::from_millis(30));
        assert!(outage() >= Duration::from_millis(30));
        hosts.connect(deadline(), |_, _| Ok::<_, Failure>(())).unwrap();
        assert!(outage() < Duration::from_millis(20));
    }

    #[test]
    fn a_dead_server_is_told_before_a_standby_and_leaves_time_for_it() {
        let hosts = Hosts::new(vec!['a', 'b']);
        for dead in ['a', 'b'] {
            let told = hosts.connect(deadline(), |host, end| {
                let left = end.saturating_duration_since(Instant::now());
                assert!(*host == 'b' || left < Duration::from_secs(6), "{left:?}");
                Err::<(), _>(if *host == dead { Failure::Dead } else { Failure::Standby })
            });
            assert_eq!(told, Err(Some(Failure::Dead)), "{dead}");
        }
        assert_eq!(Hosts::<char>::new(vec!['a']).failover(), None);
        assert!(hosts.failover().is_some());
    }
}
