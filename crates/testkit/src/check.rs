//! How a case says what it expected: small checks that end in a sentence instead of a panic.
//!
//! Every error of a store that a case looks at passes [`refused`], which also checks that its text keeps
//! the secrets: all ids and payloads of the suite contain [`SECRET`], no message may.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use sessile_core::{Error, Result as StoreResult};

/// Part of every id and payload of the suite.
pub const SECRET: &str = "HuShHuSh";

/// Why a case failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match leak(&error) {
            Some(leak) => leak,
            None => Failure(format!("unexpected error {error:?}")),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure(format!("the suite itself failed: {error}"))
    }
}

/// Fails the case unless the condition holds.
pub fn ensure(condition: bool, why: impl FnOnce() -> String) -> Result<(), Failure> {
    if condition { Ok(()) } else { Err(Failure(why())) }
}

/// Fails the case unless both are equal.
pub fn equal<T: PartialEq + Debug>(what: &str, got: T, wanted: T) -> Result<(), Failure> {
    ensure(got == wanted, || {
        let text = format!("{what}: got {got:?}, wanted {wanted:?}");
        text.chars().take(400).collect::<String>().replace(SECRET, "[secret]")
    })
}

/// Fails the case unless the operation was refused with this kind of error, whose text keeps the secrets.
pub fn refused<T>(what: &str, result: StoreResult<T>, code: &str) -> Result<Error, Failure> {
    refused_with_one_of(what, result, &[code])
}

/// The same where the contract leaves a choice.
pub fn refused_with_one_of<T>(what: &str, result: StoreResult<T>, codes: &[&str]) -> Result<Error, Failure> {
    let Err(error) = result else {
        return Err(Failure(format!("{what} succeeded, wanted the error {}", codes.join(" or "))));
    };
    if let Some(leak) = leak(&error) {
        return Err(leak);
    }
    ensure(codes.contains(&error.kind().code()), || {
        format!("{what} failed with {error:?}, wanted the error {}", codes.join(" or "))
    })?;
    ensure(error.operation().is_some() && error.store().is_some(), || {
        format!("{what}: the error names no operation or no store: {error:?}")
    })?;
    Ok(error)
}

fn leak(error: &Error) -> Option<Failure> {
    let texts = [error.to_string(), format!("{error:#}"), format!("{error:?}")];
    let leaking = texts.iter().find(|text| text.contains(SECRET))?;
    Some(Failure(format!("the text of an error contains an id or a payload: {}", leaking.replace(SECRET, "[secret]"))))
}

/// Asks again and again until the answer is yes; fails after the deadline.
pub fn eventually(what: &str, within: Duration, mut ask: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let start = Instant::now();
    while !ask()? {
        ensure(start.elapsed() < within, || format!("{what}: still not so after {within:?}"))?;
        // Only bounds how often we ask.
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Attempts of [`soon`] at most, and at least however long they take.
const ATTEMPTS_MAX: u32 = 10;
const ATTEMPTS_MIN: u32 = 3;
/// After this long a bound on time is missed, whatever more attempts would bring.
const ATTEMPTS_WITHIN: Duration = Duration::from_secs(10);

/// A bound on time, on a machine that may be busy with something else: the best of several attempts counts. Each must
/// begin with what the bound is about, or a later one would measure nothing.
pub fn soon(
    what: &str,
    bound: Duration,
    mut attempt: impl FnMut() -> Result<Duration, Failure>,
) -> Result<(), Failure> {
    let (start, mut best, mut count) = (Instant::now(), Duration::MAX, 0);
    while count < ATTEMPTS_MIN || count < ATTEMPTS_MAX && start.elapsed() < ATTEMPTS_WITHIN {
        count += 1;
        best = best.min(attempt()?);
        if best <= bound {
            return Ok(());
        }
    }
    Err(Failure(format!("{what} took {best:?} at best of {count}, wanted at most {bound:?}")))
}
