//! The settings of an application.

use std::time::Duration;

use pyo3::prelude::*;
use sessile_core::{Error, ErrorKind, Result};
use sessile_handler::{Concurrency, Format, OnConflict, OnLockTimeout};

use crate::error::raised;

/// How requests of an application treat their sessions. Times are in seconds.
#[pyclass(frozen, module = "sessile._sessile")]
pub(crate) struct Rules(pub(crate) sessile_handler::Rules);

#[pymethods]
impl Rules {
    #[new]
    #[pyo3(signature = (*, idle, lifetime=None, lock_wait=30.0, grace=30.0, lazy_start=true,
        touch_unlocked=false, best_effort=false, read_on_lock_timeout=false,
        concurrency="exclusive", format=None, on_conflict="last"))]
    #[allow(clippy::too_many_arguments, reason = "they have names in Python")]
    fn new(
        py: Python<'_>,
        idle: f64,
        lifetime: Option<f64>,
        lock_wait: f64,
        grace: f64,
        lazy_start: bool,
        touch_unlocked: bool,
        best_effort: bool,
        read_on_lock_timeout: bool,
        concurrency: &str,
        format: Option<&str>,
        on_conflict: &str,
    ) -> PyResult<Rules> {
        let rules = || {
            Ok(Rules(sessile_handler::Rules {
                idle: seconds(idle)?,
                absolute_lifetime: lifetime.map(seconds).transpose()?,
                lock_wait: seconds(lock_wait)?,
                grace: seconds(grace)?,
                lazy_start,
                touch_unlocked,
                best_effort,
                on_lock_timeout: match read_on_lock_timeout {
                    true => OnLockTimeout::ReadUnlocked,
                    false => OnLockTimeout::Fail,
                },
                concurrency: concurrency_of(concurrency, format, on_conflict)?,
            }))
        };
        raised(py, rules())
    }
}

/// A time in seconds. Larger ones than a clock counts are for ever.
pub(crate) fn seconds(number: f64) -> Result<Duration> {
    if number.is_nan() || number < 0.0 {
        return Err(refused("a time is a number of seconds, and not less than 0"));
    }
    Ok(Duration::try_from_secs_f64(number).unwrap_or(Duration::MAX))
}

fn concurrency_of(word: &str, format: Option<&str>, on_conflict: &str) -> Result<Concurrency> {
    let format = match format {
        None => None,
        Some("json") => Some(Format::Json),
        Some("php") => Some(Format::Php),
        Some("php_serialize") => Some(Format::PhpSerialize),
        Some(_) => return Err(refused("format is json, php, php_serialize or None")),
    };
    let on_conflict = match on_conflict {
        "last" => OnConflict::LastWins,
        "fail" => OnConflict::Fail,
        _ => return Err(refused("on_conflict is last or fail")),
    };
    match word {
        "exclusive" => Ok(Concurrency::Exclusive),
        "detect" => Ok(Concurrency::Detect),
        "merge" => Ok(Concurrency::Merge { format, on_conflict }),
        _ => Err(refused("concurrency is exclusive, merge or detect")),
    }
}

fn refused(why: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, why)
}
