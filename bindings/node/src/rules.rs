//! The settings of an application.

use std::time::Duration;

use napi::bindgen_prelude::Either;
use napi_derive::napi;
use sessile_core::{Error, ErrorKind, Result};
use sessile_handler::{Concurrency, Format, OnConflict, OnLockTimeout};

use crate::error::Failure;

/// The settings of `sessile_handler::Rules` by their names in Node. Times are in milliseconds.
#[napi(object, object_to_js = false)]
pub(crate) struct RulesOptions {
    pub idle_ms: f64,
    pub lifetime_ms: Option<f64>,
    pub lock_wait_ms: Option<f64>,
    pub grace_ms: Option<f64>,
    pub lazy_start: Option<bool>,
    pub touch_unlocked: Option<bool>,
    pub best_effort: Option<bool>,
    pub read_on_lock_timeout: Option<bool>,
    pub concurrency: Option<String>,
    pub format: Option<String>,
    pub on_conflict: Option<String>,
}

/// Checked settings.
#[napi]
pub struct Rules(pub(crate) sessile_handler::Rules);

/// Checks settings.
#[napi]
pub(crate) fn make_rules(options: RulesOptions) -> Either<Rules, Failure> {
    match rules(&options) {
        Ok(rules) => Either::A(Rules(rules)),
        Err(error) => Either::B(Failure::from(&error)),
    }
}

fn rules(options: &RulesOptions) -> Result<sessile_handler::Rules> {
    let usual = sessile_handler::Rules::default();
    let time = |given: Option<f64>, usual| given.map_or(Ok(usual), milliseconds);
    Ok(sessile_handler::Rules {
        idle: milliseconds(options.idle_ms)?,
        absolute_lifetime: options.lifetime_ms.map(milliseconds).transpose()?,
        lock_wait: time(options.lock_wait_ms, usual.lock_wait)?,
        grace: time(options.grace_ms, usual.grace)?,
        lazy_start: options.lazy_start.unwrap_or(usual.lazy_start),
        touch_unlocked: options.touch_unlocked.unwrap_or(usual.touch_unlocked),
        best_effort: options.best_effort.unwrap_or(usual.best_effort),
        on_lock_timeout: match options.read_on_lock_timeout {
            Some(true) => OnLockTimeout::ReadUnlocked,
            _ => OnLockTimeout::Fail,
        },
        concurrency: concurrency(options)?,
    })
}

/// Larger times than a clock counts are for ever.
pub(crate) fn milliseconds(number: f64) -> Result<Duration> {
    if number.is_nan() || number < 0.0 {
        return Err(refused("a time is a number of milliseconds, and not less than 0"));
    }
    Ok(Duration::try_from_secs_f64(number / 1e3).unwrap_or(Duration::MAX))
}

fn concurrency(options: &RulesOptions) -> Result<Concurrency> {
    let format = match options.format.as_deref() {
        None | Some("json") => Format::Json,
        Some("php") => Format::Php,
        Some("php_serialize") => Format::PhpSerialize,
        Some(_) => return Err(refused("format is json, php or php_serialize")),
    };
    let on_conflict = match options.on_conflict.as_deref() {
        None | Some("last") => OnConflict::LastWins,
        Some("fail") => OnConflict::Fail,
        Some(_) => return Err(refused("onConflict is last or fail")),
    };
    match options.concurrency.as_deref() {
        None | Some("exclusive") => Ok(Concurrency::Exclusive),
        Some("detect") => Ok(Concurrency::Detect),
        Some("merge") => Ok(Concurrency::Merge { format: Some(format), on_conflict }),
        Some(_) => Err(refused("concurrency is exclusive, merge or detect")),
    }
}

fn refused(why: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, why)
}
