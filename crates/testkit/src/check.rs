//! Small checks that end a case with a sentence instead of a panic.
//!
//! Every error that a case looks at passes [`refused`], which also checks that its text keeps the
//! secrets: all ids and payloads contain [`SECRET`], no message may.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use sessile_core::{Error, Operation, Result as StoreResult};

pub const SECRET: &str = "HuShHuSh";

/// Why something failed, in a sentence without ids and payloads.
#[derive(Debug)]
pub struct Failure(pub String);

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        leak(&error).unwrap_or_else(|| Failure(format!("unexpected error {error:?}")))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure(format!("the suite itself failed: {error}"))
    }
}

pub fn redacted(text: &str) -> String {
    text.replace(SECRET, "[secret]")
}

pub fn ensure(condition: bool, why: impl FnOnce() -> String) -> Result<(), Failure> {
    if condition { Ok(()) } else { Err(Failure(why())) }
}

pub fn equal<T: PartialEq + Debug>(what: &str, got: T, wanted: T) -> Result<(), Failure> {
    ensure(got == wanted, || {
        let text = format!("{what}: got {got:?}, wanted {wanted:?}");
        redacted(&text.chars().take(400).collect::<String>())
    })
}

/// Fails the case unless the operation was refused with one of these kinds of error (`gone|stale`),
/// whose text keeps the secrets.
pub fn refused<T>(what: &str, result: StoreResult<T>, codes: &str) -> Result<Error, Failure> {
    let Err(error) = result else {
        return Err(Failure(format!("{what} succeeded, wanted the error {codes}")));
    };
    leak(&error).map_or(Ok(()), Err)?;
    ensure(codes.split('|').any(|code| code == error.kind().code()), || {
        format!("{what} failed with {error:?}, wanted the error {codes}")
    })?;
    ensure(error.to_string().contains(": cannot "), || {
        format!("{what}: the error does not say what failed on which store: {error:?}")
    })?;
    Ok(error)
}

/// [`refused`] for errors that arise before there is a store to name.
pub fn refused_early<T>(what: &str, result: StoreResult<T>, code: &str) -> Result<Error, Failure> {
    refused(what, result.map_err(|error| error.during(Operation::Open, "none", None)), code)
}

/// The value of an operation that the contract lets a store refuse; `None` when it was refused.
pub fn unless_refused<T>(
    what: &str,
    result: StoreResult<T>,
    codes: &str,
) -> Result<Option<T>, Failure> {
    match result {
        Ok(value) => Ok(Some(value)),
        refusal => refused(what, refusal, codes).map(|_| None),
    }
}

fn leak(error: &Error) -> Option<Failure> {
    let texts = [error.to_string(), format!("{error:#}"), format!("{error:?}")];
    let leaking = texts.iter().find(|text| text.contains(SECRET))?;
    let shown = redacted(leaking);
    Some(Failure(format!("the text of an error contains an id or a payload: {shown}")))
}

pub fn eventually(
    what: &str,
    within: Duration,
    mut ask: impl FnMut() -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let start = Instant::now();
    while !ask()? {
        ensure(start.elapsed() < within, || format!("{what}: still not so after {within:?}"))?;
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Attempts of [`soon`] at most, and at least however long they take.
const ATTEMPTS_MAX: u32 = 10;
const ATTEMPTS_MIN: u32 = 3;
const ATTEMPTS_WITHIN: Duration = Duration::from_secs(10);

/// A bound on time, kept by the best of several attempts, since the machine may be busy. Each
/// attempt must begin with what the bound is about, or a later one would measure nothing.
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
