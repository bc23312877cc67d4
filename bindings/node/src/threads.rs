//! Threads for calls that may wait, so that the event loop never does.
//!
//! There are two sets: locks are waited for in one of their own. Otherwise all threads could wait
//! for a session whose holder needs a thread to save it. Node's own pool is not used, which has
//! four threads for files, names and ciphers.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that has nothing to do for so long ends.
const REST_MAX: Duration = Duration::from_secs(10);

/// Threads that start when they are needed.
pub(crate) struct Threads {
    name: &'static str,
    count_max: usize,
    state: Mutex<State>,
    arrived: Condvar,
}

struct State {
    jobs: VecDeque<Job>,
    count: usize,
    idle: usize,
}

/// For what waits for no lock.
pub(crate) static CALLS: Threads = Threads::new("sessile-calls", 16);
/// For what may wait for a lock.
pub(crate) static WAITS: Threads = Threads::new("sessile-waits", 64);

impl Threads {
    const fn new(name: &'static str, count_max: usize) -> Threads {
        let state = State { jobs: VecDeque::new(), count: 0, idle: 0 };
        Threads { name, count_max, state: Mutex::new(state), arrived: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a job in a thread, in turn if all are busy. If the system has no thread left and none
    /// runs, the job runs here.
    pub(crate) fn run(&'static self, job: Job) {
        let mut state = self.state();
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() || state.count >= self.count_max {
            self.arrived.notify_one();
            return;
        }
        let thread = std::thread::Builder::new().name(self.name.to_owned());
        match thread.spawn(|| self.work()) {
            Ok(_) => state.count += 1,
            Err(_) if state.count > 0 => {}
            Err(_) => {
                let job = state.jobs.pop_back();
                drop(state);
                job.into_iter().for_each(|job| job());
            }
        }
    }

    fn work(&self) {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.state();
                continue;
            }
            state.idle += 1;
            let rest = |state: &mut State| state.jobs.is_empty();
            let waited = self.arrived.wait_timeout_while(state, REST_MAX, rest);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.idle -= 1;
            if state.jobs.is_empty() {
                state.count -= 1;
                return;
            }
        }
    }
}
