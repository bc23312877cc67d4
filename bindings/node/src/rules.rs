//! The settings of an application.

use napi::bindgen_prelude::Either;
use napi_derive::napi;
use sessile_core::Result;
use sessile_handler::{OnLockTimeout, concurrency, seconds};

use crate::error::Failure;

/// The settings of `sessile_handler::Rules` by their names in Node. Times are in milliseconds.
#[napi(object, object_to_js = false)]
pub(crate) struct RulesOptions {
    pub idle_ms: f64,
    pub first_lifetime_ms: Option<f64>,
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
    Failure::or(rules(&options).map(Rules))
}

fn rules(options: &RulesOptions) -> Result<sessile_handler::Rules> {
    let usual = sessile_handler::Rules::default();
    let time = |ms: Option<f64>, usual| ms.map_or(Ok(usual), |ms| seconds(ms / 1e3));
    let end = |ms: Option<f64>| ms.map(|ms| seconds(ms / 1e3)).transpose();
    Ok(sessile_handler::Rules {
        idle: time(Some(options.idle_ms), usual.idle)?,
        first_lifetime: end(options.first_lifetime_ms)?,
        absolute_lifetime: end(options.lifetime_ms)?,
        lock_wait: time(options.lock_wait_ms, usual.lock_wait)?,
        grace: time(options.grace_ms, usual.grace)?,
        lazy_start: options.lazy_start.unwrap_or(usual.lazy_start),
        touch_unlocked: options.touch_unlocked.unwrap_or(usual.touch_unlocked),
        best_effort: options.best_effort.unwrap_or(usual.best_effort),
        on_lock_timeout: match options.read_on_lock_timeout {
            Some(true) => OnLockTimeout::ReadUnlocked,
            _ => OnLockTimeout::Fail,
        },
        concurrency: concurrency(
            options.concurrency.as_deref().unwrap_or("exclusive"),
            options.format.as_deref().or(Some("json")),
            options.on_conflict.as_deref().unwrap_or("last"),
        )?,
    })
}
