//! Retries while a server restarts.

use std::time::{Duration, Instant};

use super::deadline::Deadline;

/// A server restart on the same host takes about this long.
pub const RETRY_FOR: Duration = Duration::from_millis(1_500);
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_millis(800);

/// Repeats an idempotent attempt while its failure may pass, with growing pauses, for a bounded
/// time. Returns the last failure.
pub fn retry<T, E>(
    deadline: Deadline,
    longest: Duration,
    mut may_pass: impl FnMut(&E) -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match attempt() {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let over = start.elapsed() + pause > longest || pause >= deadline.left();
        if over || !may_pass(&error) {
            return Err(error);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_transient_failures_are_retried_and_not_for_ever() {
        let long = || Deadline::new(Duration::ZERO, Duration::from_secs(60));
        let mut attempts = 0;
        let third = retry(
            long(),
            RETRY_FOR,
            |_: &&str| true,
            || {
                attempts += 1;
                if attempts < 3 { Err("not yet") } else { Ok(attempts) }
            },
        );
        assert_eq!(third, Ok(3));
        let once = retry(
            long(),
            RETRY_FOR,
            |_| false,
            || {
                attempts += 1;
                Err::<(), _>("no")
            },
        );
        assert_eq!((once, attempts), (Err("no"), 4));
        let never = |deadline| {
            let start = Instant::now();
            assert_eq!(
                retry(deadline, RETRY_FOR, |_| true, || Err::<(), _>("never")),
                Err("never")
            );
            start.elapsed()
        };
        let elapsed = never(long());
        assert!((RETRY_FOR / 2..RETRY_FOR * 10).contains(&elapsed), "{elapsed:?}");
        let elapsed = never(Deadline::new(Duration::ZERO, Duration::from_millis(100)));
        assert!(elapsed < RETRY_FOR / 2, "the deadline is earlier: {elapsed:?}");
    }
}
