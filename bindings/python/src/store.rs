//! A store, and the operations that need no request.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use sessile_core::{Counter, ErrorKind, Key, Owner, Result, Sessions, Ttl};
use sessile_handler::{look, seconds};
use sessile_stores::{Context, OpenStores, Settings, registry};

use crate::error::raised;

/// An open store. Threads share it, and so do forked children.
#[pyclass(frozen, module = "sessile._sessile")]
pub(crate) struct Store(pub(crate) Sessions);

#[pymethods]
impl Store {
    /// Opens the store of a URL. The settings are those that an option in the URL overrides.
    #[new]
    #[pyo3(signature = (url, *, payload_bytes_max=None, hashed_ids=false, request_time_max=None))]
    fn new(
        py: Python<'_>,
        url: &str,
        payload_bytes_max: Option<u64>,
        hashed_ids: bool,
        request_time_max: Option<f64>,
    ) -> PyResult<Store> {
        let opened = py.detach(|| {
            let request_time_max = request_time_max.map(seconds).transpose()?;
            let settings = Settings { payload_bytes_max, hashed_ids, request_time_max };
            let mut stores = OpenStores::default();
            stores.get(url, &settings, &Context::default(), |sessions| sessions).cloned()
        });
        raised(py, opened.map(Store))
    }

    /// Whether the store of a URL exists already. Creates nothing.
    #[staticmethod]
    fn is_created(py: Python<'_>, url: &str) -> PyResult<bool> {
        let exists = py.detach(|| match registry::check_exists(url) {
            Err(error) if *error.kind() == ErrorKind::Incompatible => Ok(false),
            checked => checked.map(|()| true),
        });
        raised(py, exists)
    }

    /// The URL without secrets.
    #[getter]
    fn label(&self) -> &str {
        self.0.label()
    }

    /// Whether it answers from memory of this host: only a lock is worth a wait.
    #[getter]
    fn in_memory(&self) -> bool {
        self.0.capabilities().in_memory()
    }

    /// The payload of a session, without a lock and without waiting.
    fn peek<'py>(&self, py: Python<'py>, id: &str) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let record = raised(py, py.detach(|| look(&self.0, &Key::session(id)?)))?;
        Ok(record.map(|record| PyBytes::new(py, &record.payload)))
    }

    /// Whether an id is stored.
    fn exists(&self, py: Python<'_>, id: &str) -> PyResult<bool> {
        raised(py, py.detach(|| Ok(look(&self.0, &Key::session(id)?)?.is_some())))
    }

    /// Stores a new session that lives for `idle` seconds.
    fn create(&self, py: Python<'_>, id: &str, payload: &[u8], idle: f64) -> PyResult<()> {
        raised(py, py.detach(|| self.0.create(&Key::session(id)?, payload, ttl(idle)?)))
    }

    /// Lets a session live for `idle` seconds from now.
    fn touch(&self, py: Python<'_>, id: &str, idle: f64) -> PyResult<()> {
        raised(py, py.detach(|| self.0.touch(&Key::session(id)?, ttl(idle)?)))
    }

    /// Destroys a session at once, even a locked one. It stays destroyed.
    fn destroy(&self, py: Python<'_>, id: &str) -> PyResult<()> {
        raised(py, py.detach(|| self.0.destroy(&Key::session(id)?)))
    }

    /// Whether sessions can have owners. A store whose table had no columns for them when it was
    /// opened asks its server again now and then.
    #[getter]
    fn has_owners(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.capabilities().owners)
    }

    /// Ends all sessions of an owner, but for the one with the id `but`. Returns how many.
    #[pyo3(signature = (owner, *, but=None))]
    fn revoke(&self, py: Python<'_>, owner: &str, but: Option<&str>) -> PyResult<u64> {
        let revoke = || {
            let but = but.map(Key::session).transpose()?;
            self.0.revoke(Owner::new(owner.as_bytes())?, but.as_ref())
        };
        raised(py, py.detach(revoke))
    }

    /// Removes expired sessions and returns their number; only a few of them if not `all`.
    #[pyo3(signature = (*, all=true))]
    fn collect(&self, py: Python<'_>, all: bool) -> PyResult<u64> {
        raised(py, py.detach(|| sessile_handler::collect(&self.0, all)))
    }

    /// The counters of this process, by name.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = PyDict::new(py);
        for counter in Counter::ALL {
            counters.set_item(counter.name(), self.0.count(counter))?;
        }
        Ok(counters)
    }

    fn __repr__(&self) -> String {
        format!("Store({:?})", self.0.label())
    }
}

fn ttl(idle: f64) -> Result<Ttl> {
    Ttl::sliding(seconds(idle)?.max(Duration::from_millis(1)))
}
