//! The servers that a URL names, of which one at a time takes changes: a primary and its standbys.
//!
//! Invariant: connections lead to the server that took changes last, for as long as it does; then
//! to the first after it, in the order of the URL, that does. Where several take changes at a time,
//! the caller goes back to the first one of the URL ([`Hosts::start_over`]).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::breaker;
use super::pool::{AttemptFailure, FAILOVER_MAX};

pub struct Hosts<T> {
    all: Vec<T>,
    last: AtomicUsize,
    made: Instant,
    /// Since when no server takes changes, in milliseconds since `made`, plus one; 0: one does.
    none_since: AtomicU64,
}

impl<T> Hosts<T> {
    pub fn new(all: Vec<T>) -> Hosts<T> {
        let (last, none_since) = (AtomicUsize::new(0), AtomicU64::new(0));
        Hosts { all, last, made: Instant::now(), none_since }
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
        // Relaxed: a hint, which each connection checks.
        let first = self.last.load(Ordering::Relaxed);
        let turns = self.all.iter().enumerate().cycle().skip(first).take(self.all.len());
        let mut failure = None::<F>;
        for ((number, host), left) in turns.zip((1..=self.all.len() as u32).rev()) {
            // A silent server leaves time for the others.
            let now = Instant::now();
            let end = now + deadline.saturating_duration_since(now) / left;
            match open(host, end) {
                Ok(connection) => {
                    self.last.store(number, Ordering::Relaxed);
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

    /// The next connection tries the first server of the URL first, whichever was the last. So do
    /// all processes, whenever they have started: they agree on one server.
    pub fn start_over(&self) {
        self.last.store(0, Ordering::Relaxed); // a hint, as in `connect`
    }

    /// For how long no server has taken changes, by the failures that this process has seen.
    fn time_without(&self) -> Duration {
        let now = u64::try_from(self.made.elapsed().as_millis()).unwrap_or(u64::MAX);
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

    #[test]
    fn the_first_server_of_the_url_is_asked_again_after_a_start_over() {
        let hosts = Hosts::new(vec!['a', 'b']);
        let connect = |down: char| {
            let open = |host: &char, _| {
                if *host == down { Err(Failure::Dead) } else { Ok((*host, hosts.is_first(host))) }
            };
            hosts.connect(deadline(), open).unwrap()
        };
        assert_eq!(connect('a'), ('b', false));
        assert_eq!(connect('-'), ('b', false), "it took changes last");
        hosts.start_over();
        assert_eq!(connect('-'), ('a', true));
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
