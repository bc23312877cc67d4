//! The session of one request.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sessile_core::{Clock, Error, Owner, Result, Sessions};
use sessile_handler::{Access, Closed, Concurrency, Save, seconds};

use crate::error::{exception, raised};
use crate::rules::Rules;
use crate::store::Store;

/// All of a wait is spent.
const NO_WAIT: Duration = Duration::MAX;

/// The session of one request. It may wait in one thread and be used in another one later.
#[pyclass(frozen, module = "sessile._sessile")]
pub(crate) struct Request {
    sessions: Sessions,
    rules: sessile_handler::Rules,
    state: Mutex<State>,
    /// It was closed while another thread waits for its lock, for example because its task was
    /// cancelled. That thread gives the lock back.
    abandoned: AtomicBool,
}

struct State {
    request: sessile_handler::Request,
    warning: Option<Error>,
    /// How much of its wait for the lock the next call has spent already.
    spent: Duration,
}

impl Request {
    /// Never called by a thread of Python that keeps others from running.
    fn with<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        let result = call(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.give_back_abandoned();
        result
    }

    /// A call into the store, during which other threads of Python run.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut State) -> Result<T> + Send,
    ) -> PyResult<T> {
        let spend = |state: &mut State| {
            let spent = std::mem::take(&mut state.spent);
            let lock_wait = self.rules.lock_wait.saturating_sub(spent);
            state.request.set_rules(sessile_handler::Rules { lock_wait, ..self.rules });
            call(state).map_err(|error| if spent == NO_WAIT { error } else { error.after(spent) })
        };
        raised(py, py.detach(|| self.with(spend)))
    }

    /// None if another thread waits in a call.
    fn with_free<T>(&self, call: impl FnOnce(&mut State) -> T) -> Option<T> {
        let result = match self.state.try_lock() {
            Ok(mut state) => call(&mut state),
            Err(TryLockError::Poisoned(poisoned)) => call(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.give_back_abandoned();
        Some(result)
    }

    /// After each use. Of a use that ends and a close that comes at that moment one sees the other:
    /// each has written (the mutex, the mark) before it reads what the other writes.
    fn give_back_abandoned(&self) {
        fence(Ordering::SeqCst);
        if self.abandoned.swap(false, Ordering::SeqCst)
            && self.with_free(|state| state.request.reset()).is_none()
        {
            self.abandoned.store(true, Ordering::SeqCst);
        }
    }
}

#[pymethods]
impl Request {
    #[new]
    fn new(store: &Store, rules: &Rules) -> Request {
        // The number of the process tells a forked child from its parent, whatever has forked.
        let request = sessile_handler::Request::new(Clock::system(), std::process::id, rules.0);
        Request {
            sessions: store.0.clone(),
            rules: rules.0,
            state: Mutex::new(State { request, warning: None, spent: Duration::ZERO }),
            abandoned: AtomicBool::new(false),
        }
    }

    /// The next call has spent so many seconds of its wait in line. `inf`: it must not wait.
    fn spend_wait(&self, py: Python<'_>, time: f64) -> PyResult<()> {
        let spent = raised(py, seconds(time))?;
        py.detach(|| self.with_free(|state| state.spent = spent));
        Ok(())
    }

    /// Opens a session and returns its payload, which is empty for a new one; None if it is
    /// `strict` and the id is unknown. With `at_once` a lock that is not free raises LockTimeout
    /// instead of a wait.
    #[pyo3(signature = (id, *, locked=true, at_once=false, strict=true))]
    fn open<'py>(
        &self,
        py: Python<'py>,
        id: &str,
        locked: bool,
        at_once: bool,
        strict: bool,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let access = match (locked, at_once) {
            (false, _) => Access::Unlocked,
            (true, false) => Access::Locked,
            (true, true) => Access::LockedAtOnce,
        };
        let payload = self.call(py, |State { request, warning, .. }| {
            let loaded = request.load(&self.sessions, id, access, strict)?;
            Ok(loaded.map(|loaded| {
                *warning = loaded.warning;
                loaded.payload
            }))
        });
        Ok(payload?.map(|payload| PyBytes::new(py, &payload)))
    }

    /// Whether `open` takes the lock: requests of one session take turns.
    #[getter]
    fn takes_turns(&self) -> bool {
        self.rules.concurrency == Concurrency::Exclusive
    }

    /// Why the session was opened without its lock although that was asked for.
    #[getter]
    fn warning<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let warning = py.detach(|| self.with(|state| state.warning.take()));
        warning.as_ref().map(|warning| exception(py, warning)).transpose()
    }

    /// Saves a session and names the result; `payload` is None if it cannot be serialised. `idle`:
    /// how many seconds it lives, if that is not what the rules say.
    #[pyo3(signature = (id, payload, *, changed=true, empty=false, headers_open=true, idle=None))]
    #[allow(clippy::too_many_arguments, reason = "they have names in Python")]
    fn save(
        &self,
        py: Python<'_>,
        id: &str,
        payload: Option<&[u8]>,
        changed: bool,
        empty: bool,
        headers_open: bool,
        idle: Option<f64>,
    ) -> PyResult<&'static str> {
        let save = Save { payload, changed, empty, headers_open };
        let saved = self.call(py, |State { request, .. }| {
            if let Some(idle) = idle {
                request.set_idle(seconds(idle)?);
            }
            request.save_own(&self.sessions, id, save)
        });
        saved.map(|saved| saved.name())
    }

    /// Makes the next save set the owner of its session, or take it away.
    fn set_owner(&self, py: Python<'_>, owner: Option<&str>) -> PyResult<()> {
        let owner = raised(py, owner.map(|name| Owner::new(name.as_bytes())).transpose())?;
        // It waits for no lock, so none of the next call's wait is spent. A store whose table had
        // no columns of owners when it was opened asks its server again now and then.
        let set = || self.with(|state| state.request.set_owner(&self.sessions, owner));
        raised(py, py.detach(set))
    }

    /// Opens a session again that this request has saved; `saved` is the payload of that save.
    fn reopen(&self, py: Python<'_>, id: &str, saved: &[u8]) -> PyResult<()> {
        self.call(py, |state| state.request.reopen(&self.sessions, id, saved))
    }

    /// Gives an open session a new id. If it `keeps` the old one, late requests see the session
    /// there as it was, for the grace.
    #[pyo3(signature = (old, new, *, keeps=false))]
    fn regenerate(&self, py: Python<'_>, old: &str, new: &str, keeps: bool) -> PyResult<()> {
        self.call(py, |state| state.request.regenerate(&self.sessions, old, new, keeps))
    }

    /// Whether a new id is taken. A free one becomes the id of the new session of this request.
    fn is_taken(&self, py: Python<'_>, id: &str) -> bool {
        py.detach(|| self.with(|state| state.request.is_taken(&self.sessions, id, true)))
    }

    /// Destroys the session of an id: a log-out.
    fn destroy(&self, py: Python<'_>, id: &str) -> PyResult<()> {
        self.call(py, |state| state.request.destroy(&self.sessions, id))
    }

    /// Gives the lock back, saved or not: `done`, or `withdraw-cookie` for a new session that was
    /// only read.
    #[pyo3(signature = (*, headers_open=true))]
    fn close(&self, py: Python<'_>, headers_open: bool) -> &'static str {
        let close = |state: &mut State| state.request.close(&self.sessions, headers_open);
        let closed = py.detach(|| self.with_free(close)).unwrap_or_else(|| {
            self.abandoned.store(true, Ordering::SeqCst);
            py.detach(|| self.give_back_abandoned());
            Closed::Done
        });
        closed.name()
    }

    /// Whether a session is open, or another thread is opening it.
    #[getter]
    fn is_open(&self, py: Python<'_>) -> bool {
        !py.detach(|| self.with_free(|state| state.request.is_closed())).unwrap_or(false)
    }

    /// Whether the lock of an open session is held: a save then waits for nobody.
    #[getter]
    fn holds_lock(&self, py: Python<'_>) -> bool {
        py.detach(|| self.with_free(|state| state.request.holds_lock())).unwrap_or(false)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // The lock of a session on a server is given back there.
        Python::try_attach(|py| py.detach(|| self.with(|state| state.request.reset())));
    }
}
