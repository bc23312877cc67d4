//! Errors as exceptions: `sessile.errors` has a class for each kind, by its code.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use sessile_core::{Error, ErrorKind, Result};

/// The result of a call, for Python.
pub(crate) fn raised<T>(py: Python<'_>, result: Result<T>) -> PyResult<T> {
    result.map_err(|error| match exception(py, &error) {
        Ok(exception) => PyErr::from_value(exception),
        Err(defect) => defect,
    })
}

/// The exception of an error.
pub(crate) fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let classes = CLASSES.get_or_try_init(py, || -> PyResult<_> {
        let classes = py.import("sessile.errors")?.getattr("BY_CODE")?;
        Ok(classes.cast_into::<PyDict>()?.unbind())
    })?;
    let class = classes.bind(py).as_any().get_item(error.kind().code())?;
    let exception = class.call1((format!("{error:#}"),))?;
    match error.kind() {
        ErrorKind::LockTimeout { holder, waited } => {
            exception.setattr("holder_pid", holder.pid)?;
            exception.setattr("holder_host", holder.host.as_deref())?;
            exception.setattr("waited", waited.as_secs_f64())?;
        }
        ErrorKind::TooLarge { size, limit } => {
            exception.setattr("size", *size)?;
            exception.setattr("limit", *limit)?;
        }
        _ => {}
    }
    Ok(exception)
}
