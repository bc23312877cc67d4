//! Settings as languages without enums write them: words and numbers.
//!
//! Python and Node convert their arguments here, so that both refuse the same ones in the same
//! words. PHP and C have enums of their own.

use std::time::Duration;

use sessile_core::{Error, ErrorKind, Result};

use crate::rules::{Concurrency, Format, OnConflict};

/// A number of seconds as a time. A longer one than a clock counts is for ever.
///
/// # Errors
///
/// `InvalidArgument` for a negative number, and for none.
pub fn seconds(number: f64) -> Result<Duration> {
    if number.is_nan() || number < 0.0 {
        return Err(refused("a time is a number, and not less than 0"));
    }
    Ok(Duration::try_from_secs_f64(number).unwrap_or(Duration::MAX))
}

/// `exclusive`, `detect` or `merge`. The two other words belong to `merge`: the format of payloads,
/// `json`, `php`, `php_serialize` or none, and `last` or `fail`.
///
/// # Errors
///
/// `InvalidArgument` for another word.
pub fn concurrency(word: &str, format: Option<&str>, on_conflict: &str) -> Result<Concurrency> {
    let format = match format {
        None => None,
        Some("json") => Some(Format::Json),
        Some("php") => Some(Format::Php),
        Some("php_serialize") => Some(Format::PhpSerialize),
        Some(_) => return Err(refused("the format is json, php, php_serialize or none")),
    };
    let on_conflict = match on_conflict {
        "last" => OnConflict::LastWins,
        "fail" => OnConflict::Fail,
        _ => return Err(refused("the word for conflicts is last or fail")),
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
