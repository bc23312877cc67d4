//! Fairness to a PHP that waits for a session. PHP blocks in flock and is not in the queue: a
//! worker that takes the session again right after its release would always win against it. So a
//! worker that loops like this checks, before a release, whether a PHP is blocked, and then waits
//! a moment before its next begin. Other workers pay nothing. The check reads `/proc/locks`, for
//! which the kernel stops all locks of the machine, for milliseconds at times.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use sessile_core::Key;

use crate::files::holder;
use crate::files::mode::Held;

/// A begin this soon after a release of the same session is a loop, not another request.
const LOOP_PAUSE_MAX: Duration = Duration::from_millis(5);
/// So many begins in a row are a loop. Two are a move (`migrate:`), or a save in the middle of a
/// request.
const LOOPS_MIN: u32 = 3;
/// Enough for the kernel to wake a process that then takes the lock.
const YIELD: Duration = Duration::from_millis(1);

/// No thread waits for it: in a forked child it may stay locked.
#[derive(Default)]
pub struct PhpFairness(Mutex<Option<LastRelease>>);

struct LastRelease {
    key: Key,
    at: Instant,
    php_waits: bool,
    begins: u32,
}

impl PhpFairness {
    /// Waits if a PHP waited for this session. Returns how often in a row this process has begun it
    /// before.
    pub fn yield_to_php(&self, key: &Key) -> u32 {
        let last = self.0.try_lock().ok().and_then(|mut last| last.take());
        let last = last.filter(|last| last.key == *key && last.at.elapsed() < LOOP_PAUSE_MAX);
        if last.as_ref().is_some_and(|last| last.php_waits) {
            std::thread::sleep(YIELD);
        }
        last.map_or(0, |last| last.begins)
    }

    pub fn before_release(&self, held: &Held) {
        let begins = held.begins_before.saturating_add(1);
        let php_waits = begins >= LOOPS_MIN && holder::has_blocked_waiter(held.identity);
        let (key, at) = (held.key.clone(), Instant::now());
        if let Ok(mut last) = self.0.try_lock() {
            *last = Some(LastRelease { key, at, php_waits, begins });
        }
    }
}
