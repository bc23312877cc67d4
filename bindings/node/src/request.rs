//! The session of one request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napi_derive::napi;
use sessile_core::{Clock, Error, Owner, Result, Sessions};
use sessile_handler::{Access, Save, seconds};

use crate::calls::{Answer, text};
use crate::error::Failure;
use crate::rules::Rules;
use crate::store::{Store, utf8};

/// The session of one request. One call at a time uses it: `lib/sessions.js` sees to that.
#[napi]
pub struct Request {
    store: Store,
    rules: sessile_handler::Rules,
    state: Arc<Mutex<State>>,
}

struct State {
    request: sessile_handler::Request,
    warning: Option<Error>,
}

impl Request {
    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    fn perform(
        &self,
        ticket: i32,
        call: impl FnOnce(&Sessions, &mut State) -> Result<Answer> + Send + 'static,
    ) -> Answer {
        let (state, rules) = (Arc::clone(&self.state), self.rules);
        self.store.perform(ticket, move |sessions, wait| {
            let mut state = locked(&state);
            state.request.set_rules(wait.within(rules));
            call(sessions, &mut state)
        })
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let state = State { request: new_request(rules.0), warning: None };
        let state = Arc::new(Mutex::new(state));
        Request { store: store.clone(), rules: rules.0, state }
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
        self.perform(ticket, move |sessions, State { request, warning }| {
            let Some(loaded) = request.load(sessions, &id, access, strict)? else {
                return Ok(None);
            };
            *warning = loaded.warning;
            utf8(loaded.payload).map(text)
        })
    }

    /// Why the session was opened without its lock although that was asked for.
    #[napi]
    pub fn warning(&self) -> Option<Failure> {
        self.state().warning.take().as_ref().map(Failure::from)
    }

    /// Saves a session and names the result; `payload` is null if it cannot be serialised.
    /// `idle_ms`: how long it lives, if that is not what the rules say. `owner`: whose session it
    /// is from now on; an empty one takes that away.
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
        owner: Option<String>,
    ) -> Answer {
        let idle = idle_ms.map(|ms| seconds(ms / 1e3)).transpose();
        self.perform(ticket, move |sessions, State { request, .. }| {
            if let Some(idle) = idle? {
                request.set_idle(idle);
            }
            if let Some(owner) = owner {
                let named = Some(owner).filter(|owner| !owner.is_empty());
                let owner = named.map(|owner| Owner::new(owner.as_bytes())).transpose()?;
                request.set_owner(sessions, owner)?;
            }
            let payload = payload.as_deref().map(str::as_bytes);
            let save = Save { payload, changed, empty, headers_open };
            Ok(text(request.save(sessions, &id, save)?.name()))
        })
    }

    /// Opens a session again that this request has saved; `saved` is the payload of that save.
    #[napi]
    pub fn reopen(&self, ticket: i32, id: String, saved: String) -> Answer {
        self.perform(ticket, move |sessions, State { request, .. }| {
            request.reopen(sessions, &id, saved.as_bytes()).map(|()| None)
        })
    }

    /// Gives an open session a new id. If it `keeps` the old one, late requests see the session
    /// there as it was, for the grace.
    #[napi]
    pub fn regenerate(&self, ticket: i32, old: String, new: String, keeps: bool) -> Answer {
        self.perform(ticket, move |sessions, State { request, .. }| {
            request.regenerate(sessions, &old, &new, keeps).map(|()| None)
        })
    }

    /// Makes a free id that of the new session of this request.
    #[napi]
    pub fn make_id(&self, ticket: i32, id: String) -> Answer {
        self.perform(ticket, move |sessions, State { request, .. }| {
            Ok(text(if request.is_taken(sessions, &id, true) { "taken" } else { "free" }))
        })
    }

    /// Destroys the session of an id: a log-out.
    #[napi]
    pub fn destroy(&self, ticket: i32, id: String) -> Answer {
        self.perform(ticket, move |sessions, State { request, .. }| {
            request.destroy(sessions, &id).map(|()| None)
        })
    }

    /// Gives the lock back, saved or not: `done`, or `withdraw-cookie` for a new session that was
    /// only read.
    #[napi]
    pub fn close(&self, ticket: i32, headers_open: bool) -> Answer {
        self.perform(ticket, move |sessions, State { request, .. }| {
            Ok(text(request.close(sessions, headers_open).name()))
        })
    }

    /// Whether a session is open.
    #[napi]
    pub fn is_open(&self) -> bool {
        !self.state().request.is_closed()
    }

    /// Whether the lock of an open session is held: a save then waits for nobody.
    #[napi]
    pub fn holds_lock(&self) -> bool {
        self.state().request.holds_lock()
    }
}
