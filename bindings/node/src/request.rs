//! The session of one request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use napi_derive::napi;
use sessile_core::{Clock, Error, Result};
use sessile_handler::{Access, Save};

use crate::calls::{Answer, Callback, lock_wait, perform, text};
use crate::error::Failure;
use crate::rules::{Rules, milliseconds};
use crate::store::{LazyStore, Store, utf8};

/// The session of one request. One call at a time uses it: `lib/sessions.js` sees to that.
#[napi]
pub struct Request {
    channel: Arc<Callback>,
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<LazyStore>,
    rules: sessile_handler::Rules,
    state: Mutex<State>,
}

struct State {
    request: sessile_handler::Request,
    warning: Option<Error>,
    /// How long the next wait has stood in line for its thread.
    queued: Duration,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Request {
    fn perform(
        &self,
        ticket: i32,
        call: impl FnOnce(&Shared, &mut State) -> Result<Answer> + Send + 'static,
    ) -> Answer {
        let shared = Arc::clone(&self.shared);
        perform(&self.channel, ticket, move || {
            let mut state = shared.state();
            let queued = std::mem::take(&mut state.queued);
            let lock_wait = lock_wait(ticket, shared.rules.lock_wait, queued);
            state.request.set_rules(sessile_handler::Rules { lock_wait, ..shared.rules });
            call(&shared, &mut state).map_err(|error| error.after(queued))
        })
    }
}

/// Node does not fork: its child processes are new programs. So all calls are of one process.
pub(crate) fn new_request(rules: sessile_handler::Rules) -> sessile_handler::Request {
    sessile_handler::Request::new(Clock::system(), || 0, rules)
}

#[napi]
impl Request {
    /// A request that has opened nothing yet.
    #[napi(constructor)]
    pub fn new(store: &Store, rules: &Rules) -> Request {
        let request = new_request(rules.0);
        let state = Mutex::new(State { request, warning: None, queued: Duration::ZERO });
        let shared = Shared { store: Arc::clone(&store.lazy), rules: rules.0, state };
        Request { channel: Arc::clone(&store.channel), shared: Arc::new(shared) }
    }

    /// The next call in a thread for waits has stood in line for so long, which is a part of its
    /// wait.
    #[napi]
    pub fn has_queued(&self, ms: f64) {
        self.shared.state().queued = milliseconds(ms).unwrap_or_default();
    }

    /// Opens a session and answers with its payload, which is empty for a new one; null if it is
    /// `strict` and the id is unknown. `access`: `locked`, `at-once` (a lock that is not free is a
    /// `lock-timeout`) or `unlocked`.
    #[napi]
    pub fn open(&self, ticket: i32, id: String, access: String, strict: bool) -> Answer {
        let access = match access.as_str() {
            "unlocked" => Access::Unlocked,
            "at-once" => Access::LockedAtOnce,
            _ => Access::Locked,
        };
        self.perform(ticket, move |shared, State { request, warning, .. }| {
            let sessions = shared.store.get()?;
            if strict && !request.validate(sessions, &id, access) {
                return Ok(None);
            }
            let opened = request.open(sessions, &id, access)?;
            *warning = opened.warning;
            let payload = opened.payload.to_vec();
            request.loaded();
            utf8(payload).map(text)
        })
    }

    /// Why the session was opened without its lock although that was asked for.
    #[napi]
    pub fn warning(&self) -> Option<Failure> {
        self.shared.state().warning.take().as_ref().map(Failure::from)
    }

    /// Saves a session and names the result; `payload` is null if it cannot be serialised.
    /// `idle_ms`: how long it lives, if that is not what the rules say.
    #[napi]
    #[allow(clippy::too_many_arguments, reason = "lib/sessions.js calls it once")]
    pub fn save(
        &self,
        ticket: i32,
        id: String,
        payload: Option<String>,
        changed: bool,
        empty: bool,
        headers_open: bool,
        idle_ms: Option<f64>,
    ) -> Answer {
        self.perform(ticket, move |shared, State { request, .. }| {
            let sessions = shared.store.get()?;
            request.set_idle(idle_ms.map_or(Ok(shared.rules.idle), milliseconds)?);
            let payload = payload.as_deref().map(str::as_bytes);
            let saved =
                request.save(sessions, &id, Save { payload, changed, empty, headers_open })?;
            Ok(text(saved.name()))
        })
    }

    /// Opens a session again that this request has saved; `saved` is the payload of that save.
    #[napi]
    pub fn reopen(&self, ticket: i32, id: String, saved: String) -> Answer {
        self.perform(ticket, move |shared, State { request, .. }| {
            request.reopen(shared.store.get()?, &id, saved.as_bytes()).map(|()| None)
        })
    }

    /// Gives an open session a new id. If it `keeps` the old one, late requests see the session
    /// there as it was, for the grace.
    #[napi]
    pub fn regenerate(&self, ticket: i32, old: String, new: String, keeps: bool) -> Answer {
        self.perform(ticket, move |shared, State { request, .. }| {
            let sessions = shared.store.get()?;
            request.leave_id(sessions, &old, keeps)?;
            request.open(sessions, &new, Access::Locked)?;
            request.loaded();
            Ok(None)
        })
    }

    /// Makes a free id that of the new session of this request.
    #[napi]
    pub fn make_id(&self, ticket: i32, id: String) -> Answer {
        self.perform(ticket, move |shared, State { request, .. }| {
            let taken = request.is_taken(shared.store.get()?, &id, true);
            Ok(text(if taken { "taken" } else { "free" }))
        })
    }

    /// Destroys the session of an id: a log-out.
    #[napi]
    pub fn destroy(&self, ticket: i32, id: String) -> Answer {
        self.perform(ticket, move |shared, State { request, .. }| {
            request.destroy(shared.store.get()?, &id).map(|()| None)
        })
    }

    /// Gives the lock back, saved or not: `done`, or `withdraw-cookie` for a new session that was
    /// only read.
    #[napi]
    pub fn close(&self, ticket: i32, headers_open: bool) -> Answer {
        self.perform(ticket, move |shared, State { request, .. }| {
            Ok(text(request.close(shared.store.get()?, headers_open).name()))
        })
    }

    /// Whether a session is open.
    #[napi]
    pub fn is_open(&self) -> bool {
        !self.shared.state().request.is_closed()
    }

    /// Whether the lock of an open session is held: a save then waits for nobody.
    #[napi]
    pub fn holds_lock(&self) -> bool {
        self.shared.state().request.holds_lock()
    }
}
