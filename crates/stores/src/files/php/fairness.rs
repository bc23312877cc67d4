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
/// So many begins in a row are a loop. Two are a move (`migrate:`), or one save in the middle of a
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
        self.note(&held.key, held.begins_before, || holder::has_blocked_waiter(held.identity));
    }

    fn note(&self, key: &Key, begins_before: u32, is_blocked: impl FnOnce() -> bool) {
        let begins = begins_before.saturating_add(1);
        let php_waits = begins >= LOOPS_MIN && is_blocked();
        let (key, at) = (key.clone(), Instant::now());
        if let Ok(mut last) = self.0.try_lock() {
            *last = Some(LastRelease { key, at, php_waits, begins });
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A move of `migrate:` was taken for a loop, and read `/proc/locks` in each request.
    #[test]
    fn php_is_looked_for_from_the_third_begin_in_a_row_on() {
        let (fairness, key, other) =
            (PhpFairness::default(), Key::session("a").unwrap(), Key::session("b").unwrap());
        let looks = |key: &Key| {
            let mut looked = false;
            let begins = fairness.yield_to_php(key);
            fairness.note(key, begins, || {
                looked = true;
                false
            });
            looked
        };
        assert_eq!(
            [looks(&key), looks(&key), looks(&key), looks(&key)],
            [false, false, true, true]
        );
        assert_eq!([looks(&other), looks(&key)], [false, false], "not in a row");
        std::thread::sleep(LOOP_PAUSE_MAX);
        assert_eq!([looks(&key), looks(&key)], [false, false], "another request");
    }
}
