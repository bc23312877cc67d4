//! A costly question that readers of the page ask: one run at a time, on a thread of its own.
//!
//! Invariant: however many readers ask, one run is under way, and none of them is held for longer
//! than [`HOLD_MAX`]. The thread is not waited for at the end of the server: it changes nothing.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a reader waits for the result before the page says that the run is under way.
const HOLD_MAX: Duration = Duration::from_secs(2);
/// A reader whose page asks again comes within this time. Later ones get a run of their own.
const OWED_FOR: Duration = Duration::from_secs(30);

/// The last result of a question.
pub struct Once<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    ended: Condvar,
}

struct State<T> {
    runs: bool,
    last: Option<T>,
    /// When the last run ended, if it ended between two questions: nobody was shown its result.
    owed_since: Option<Instant>,
}

/// What a reader is shown. A result that ended after the readers had gone is shown to the next one.
#[derive(Debug, PartialEq, Eq)]
pub enum Shown<T> {
    /// The result of a run that nobody was shown before.
    Fresh(T),
    /// The run is under way; the result of the one before, if there was one.
    Running(Option<T>),
}

impl<T: Clone + Send + 'static> Once<T> {
    pub fn new() -> Once<T> {
        let state = Mutex::new(State { runs: false, last: None, owed_since: None });
        Once { shared: Arc::new(Shared { state, ended: Condvar::new() }) }
    }

    /// Starts a run unless one is under way, and waits for its end for a moment.
    pub fn ask(&self, run: impl FnOnce() -> T + Send + 'static) -> Shown<T> {
        let Shared { state, ended } = &*self.shared;
        let mut now = state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_owed = now.owed_since.is_some_and(|ended| ended.elapsed() < OWED_FOR);
        if !now.runs && !is_owed {
            let shared = Arc::clone(&self.shared);
            let spawned = std::thread::Builder::new().spawn(move || {
                let ends = Ends(&shared);
                let result = run();
                let mut state = ends.0.state.lock().unwrap_or_else(PoisonError::into_inner);
                (state.last, state.owed_since) = (Some(result), Some(Instant::now()));
            });
            // Without a thread, the next reader tries again.
            now.runs = spawned.is_ok();
        }
        let waited = ended.wait_timeout_while(now, HOLD_MAX, |now| now.runs);
        let (mut now, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match (now.runs, now.last.clone()) {
            (false, Some(last)) => {
                now.owed_since = None;
                Shown::Fresh(last)
            }
            (_, last) => Shown::Running(last),
        }
    }
}

/// Ends the run, also one that panics.
struct Ends<'a, T>(&'a Shared<T>);

impl<T> Drop for Ends<'_, T> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).runs = false;
        self.0.ended.notify_all();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_second_reader_starts_no_second_run() {
        let once = Once::new();
        let (ends, end) = channel::<()>();
        let first = once.ask(move || {
            end.recv().unwrap();
            1
        });
        assert_eq!(first, Shown::Running(None));
        ends.send(()).unwrap();
        let start = Instant::now();
        while once.shared.state.lock().unwrap().runs {
            assert!(start.elapsed() < Duration::from_secs(60));
            std::thread::yield_now();
        }
        assert_eq!(once.ask(|| 9), Shown::Fresh(1), "the first's, which nobody was shown");
        let (ends, end) = channel::<()>();
        assert_eq!(once.ask(move || end.recv().map_or(0, |()| 2)), Shown::Running(Some(1)));
        assert_eq!(once.ask(|| 3), Shown::Running(Some(1)), "no second run");
        ends.send(()).unwrap();
    }
}
