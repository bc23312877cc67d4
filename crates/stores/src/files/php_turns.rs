//! Leaving a PHP its turn.
//!
//! PHP waits blocked in flock and leaves no mark in the file of waiting processes. A worker of ours that takes
//! the same session again right after giving it back would always win against a PHP that still has to wake up.
//! So a worker that is found doing that looks, before it gives the lock back, whether a PHP is blocked on it,
//! and if so waits a moment before it takes the lock again. Whoever does not loop pays nothing.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::holder;
use super::system::Identity;

/// A begin this soon after a release of the same session is a loop, not another request.
const LOOP_PAUSE_MAX: Duration = Duration::from_millis(5);
/// Enough for the kernel to wake a blocked process and for it to take the lock.
const TURN: Duration = Duration::from_millis(1);

/// The last release of this process.
#[derive(Default)]
pub struct Turns(Mutex<Option<Last>>);

struct Last {
    session: i64,
    at: Instant,
    php_waits: bool,
}

impl Turns {
    /// Waits if a PHP was seen waiting for this session. True if the process is looping on it.
    pub fn step_back(&self, session: i64) -> bool {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let looping = |last: &Last| last.session == session && last.at.elapsed() < LOOP_PAUSE_MAX;
        let Some(last) = last.filter(looping) else { return false };
        if last.php_waits {
            std::thread::sleep(TURN);
        }
        true
    }

    /// To be called before the lock is given back.
    pub fn leaving(&self, session: i64, file: Identity, looping: bool) {
        let php_waits = looping && holder::someone_is_blocked(file);
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(Last { session, at: Instant::now(), php_waits });
    }
}
