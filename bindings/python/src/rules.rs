//! The settings of an application.

use pyo3::prelude::*;
use sessile_handler::{OnLockTimeout, concurrency as concurrency_of, seconds};

use crate::error::raised;

/// How requests of an application treat their sessions. Times are in seconds.
#[pyclass(frozen, module = "sessile._sessile")]
pub(crate) struct Rules(pub(crate) sessile_handler::Rules);

#[pymethods]
impl Rules {
    #[new]
    #[pyo3(signature = (*, idle, first_lifetime=None, lifetime=None, lock_wait=30.0, grace=30.0,
        lazy_start=true, touch_unlocked=false, best_effort=false, read_on_lock_timeout=false,
        concurrency="exclusive", format=None, on_conflict="last"))]
    #[allow(clippy::too_many_arguments, reason = "they have names in Python")]
    fn new(
        py: Python<'_>,
        idle: f64,
        first_lifetime: Option<f64>,
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
                first_lifetime: first_lifetime.map(seconds).transpose()?,
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
