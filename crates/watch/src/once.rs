//! A costly question that readers of the page ask: one run at a time, on a thread of its own.
//!
//! Invariant: however many readers ask, one run is under way, and none of them is held for longer
//! than [`HOLD_MAX`]. The thread is not waited for at the end of the server: it changes nothing.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long a reader waits for the result before the page says that the run is under way.
const HOLD_MAX: Duration = Duration::from_secs(2);

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
}

/// What a reader is shown.
#[derive(Debug, PartialEq, Eq)]
pub enum Shown<T> {
    /// The result of a run that has ended since the question.
    Fresh(T),
    /// The run is under way; the result of the one before, if there was one.
    Running(Option<T>),
}

impl<T: Clone + Send + 'static> Once<T> {
    pub fn new() -> Once<T> {
        let state = Mutex::new(State { runs: false, last: None });
        Once { shared: Arc::new(Shared { state, ended: Condvar::new() }) }
    }

    /// Starts a run unless one is under way, and waits for its end for a moment.
    pub fn ask(&self, run: impl FnOnce() -> T + Send + 'static) -> Shown<T> {
        let Shared { state, ended } = &*self.shared;
        let mut now = state.lock().unwrap_or_else(PoisonError::into_inner);
        if !now.runs {
            let shared = Arc::clone(&self.shared);
            let spawned = std::thread::Builder::new().spawn(move || {
                let ends = Ends(&shared);
                let result = run();
                ends.0.state.lock().unwrap_or_else(PoisonError::into_inner).last = Some(result);
            });
            // Without a thread, the next reader tries again.
            now.runs = spawned.is_ok();
        }
        let waited = ended.wait_timeout_while(now, HOLD_MAX, |now| now.runs);
        let (now, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match (now.runs, now.last.clone()) {
            (false, Some(last)) => Shown::Fresh(last),
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
        // Either the first has ended by now, and this is a run of its own, or it is the first's.
        let second = once.ask(|| 1);
        assert_eq!(second, Shown::Fresh(1));
        let (ends, end) = channel::<()>();
        assert_eq!(once.ask(move || end.recv().map_or(0, |()| 2)), Shown::Running(Some(1)));
        assert_eq!(once.ask(|| 3), Shown::Running(Some(1)), "no second run");
        ends.send(()).unwrap();
    }
}
