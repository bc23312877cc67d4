//! The Python module: stores by URL, and the session of a request.
//!
//! It converts arguments, lets other threads of Python run during each call into a store, and
//! raises errors as exceptions. What a session does is decided in `sessile-handler`.

#![deny(unsafe_code)]
// The attributes of PyO3 write code that uses full paths.
#![allow(unused_qualifications)]

mod error;
mod json;
mod logging;
mod request;
mod rules;
mod store;

use pyo3::prelude::*;

/// The compiled part of `sessile`.
#[pymodule(gil_used = false)]
fn _sessile(module: &Bound<'_, PyModule>) -> PyResult<()> {
    logging::install();
    module.add_function(wrap_pyfunction!(json::dumps_json, module)?)?;
    module.add_function(wrap_pyfunction!(json::loads_json, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<store::Store>()?;
    module.add_class::<rules::Rules>()?;
    module.add_class::<request::Request>()
}
