//! Retries while a server restarts.

use std::time::{Duration, Instant};

/// A server restart on the same host takes about this long.
const RETRY_FOR: Duration = Duration::from_millis(1_500);
const FIRST_PAUSE: Duration = Duration::from_millis(25);

/// Repeats an idempotent attempt while its failure is transient, with growing pauses, for a bounded
/// time. Returns the last failure.
pub fn retry<T, E>(
    is_transient: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match attempt() {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if !is_transient(&error) || start.elapsed() + pause > RETRY_FOR {
            return Err(error);
        }
        std::thread::sleep(pause);
        pause *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_transient_failures_are_retried_and_not_for_ever() {
        let mut attempts = 0;
        let third = retry(
            |_: &&str| true,
            || {
                attempts += 1;
                if attempts < 3 { Err("not yet") } else { Ok(attempts) }
            },
        );
        assert_eq!(third, Ok(3));
        let once = retry(
            |_| false,
            || {
                attempts += 1;
                Err::<(), _>("no")
            },
        );
        assert_eq!((once, attempts), (Err("no"), 4));
        let start = Instant::now();
        assert_eq!(retry(|_| true, || Err::<(), _>("never")), Err("never"));
        assert!(
            (RETRY_FOR / 2..RETRY_FOR * 10).contains(&start.elapsed()),
            "{:?}",
            start.elapsed()
        );
    }
}
