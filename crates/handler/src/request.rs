//! The session of one request, as a state machine. Its saves and new ids are files of their own.

mod regenerate;
mod reopen;
mod revoke;
mod save;

pub use self::save::{Save, Saved};

use std::collections::HashMap;
use std::time::Duration;

use sessile_core::{Clock, Error, ErrorKind, Key, Owner, OwnerChange, Result, Sessions};

use self::save::touch_unlocked;
use crate::late;
use crate::rules::Rules;
use crate::session::{Access, Hold, Session};

/// The session of one request; it may serve one request after the other.
pub struct Request {
    clock: Clock,
    rules: Rules,
    process: fn() -> u32,
    /// The process that opened the session.
    opened_by: u32,
    state: State,
    /// The last id that was made for this visitor, whose cookie is in this response.
    made: Option<Key>,
    /// The session that this request has stored first, under the id that it has now.
    created: Option<Key>,
    /// How long sessions live that this request has given a time of their own, by their ids.
    idle: HashMap<String, Duration>,
    /// A lock was not free in time; see [`Rules::best_effort`].
    waited: bool,
    /// What the next save does with the owner of its session.
    owner: OwnerChange,
    /// What a save that failed was to do with it, and under which id, for [`Request::reopen`].
    unsaved_owner: Option<(String, OwnerChange)>,
}

#[derive(Default)]
#[allow(clippy::large_enum_variant, reason = "a request has one, and it is not moved about")]
enum State {
    #[default]
    Closed,
    Failed(Error),
    // One variant, so that a session is not copied from phase to phase.
    Active(Session, Phase),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Validated,
    Loading,
    Open,
    /// A close that belongs to this is `paused`, once.
    Leaving {
        keeps: bool,
        paused: bool,
    },
}

/// An opened session.
#[derive(Debug)]
pub struct Opened<'r> {
    /// The stored payload; empty for a new session.
    pub payload: &'r [u8],
    /// Why it was opened without its lock although that was asked for.
    pub warning: Option<Error>,
}

/// An opened session that the application has.
#[derive(Debug)]
pub struct Loaded {
    /// The stored payload; empty for a new session.
    pub payload: Vec<u8>,
    /// Why it was opened without its lock although that was asked for.
    pub warning: Option<Error>,
}

/// The result of a close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Nothing is left to do.
    Done,
    /// The session is new and was only read: its cookie is to be withdrawn.
    WithdrawCookie,
}

impl Closed {
    /// The word of `spec/requests.toml`.
    pub const fn name(self) -> &'static str {
        match self {
            Closed::Done => "done",
            Closed::WithdrawCookie => "withdraw-cookie",
        }
    }
}

impl Request {
    /// A request on a clock. `process` answers with another number in each forked child, which
    /// must not save the session of its parent.
    pub fn new(clock: Clock, process: fn() -> u32, rules: Rules) -> Request {
        Request {
            clock,
            rules,
            process,
            opened_by: process(),
            state: State::Closed,
            made: None,
            created: None,
            idle: HashMap::new(),
            waited: false,
            owner: OwnerChange::Keep,
            unsaved_owner: None,
        }
    }

    /// Makes the next save set the owner of its session, or take it away, also if the payload is as
    /// it was. A request that ends before, gives its session up, or opens another one, sets none.
    ///
    /// # Errors
    ///
    /// `Unsupported` where sessions cannot have owners.
    pub fn set_owner(&mut self, sessions: &Sessions, owner: Option<Owner>) -> Result<()> {
        sessions.check_owners()?;
        self.owner = OwnerChange::Set(owner);
        Ok(())
    }

    /// Changes the rules, for this session and the next ones.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Changes how long this session lives, also if this request has made it, and if it opens it
    /// once more.
    pub fn set_idle(&mut self, idle: Duration) {
        (self.rules.idle, self.rules.first_lifetime) = (idle, None);
        if let State::Active(session, _) = &self.state {
            self.idle.insert(session.key.id().to_owned(), idle);
        }
    }

    /// Whether a new id is taken. A free one becomes the id of this request's new session, if it
    /// is `for_this_request`, and its cookie may be withdrawn.
    ///
    /// A store that fails here is not asked again: [`Request::open`] reports the failure.
    pub fn is_taken(&mut self, sessions: &Sessions, id: &str, for_this_request: bool) -> bool {
        let key = Key::session(id);
        let found = key.as_ref().map_or(Ok(None), |key| sessions.peek(key));
        if matches!(found, Ok(Some(_))) {
            return true;
        }
        if for_this_request {
            self.made = key.ok();
            if let Err(error) = found {
                self.state = State::Failed(error);
            }
        }
        false
    }

    /// Whether strict mode takes an id: its session is stored, or another request holds it and is
    /// about to store it.
    ///
    /// The browser gets another cookie for an id that is refused. So a store that fails, or a lock
    /// that is not free in time, refuses no id: [`Request::open`] reports the failure.
    pub fn validate(&mut self, sessions: &Sessions, id: &str, access: Access) -> bool {
        self.reset();
        let opened = Key::session(id).and_then(|key| {
            if sessions.begin_leaves_placeholder(&key)? && sessions.peek(&key)?.is_none() {
                return Ok(());
            }
            self.open_session(sessions, key, access, Phase::Validated)
        });
        match (opened, &self.state) {
            (Ok(()), State::Active(session, _)) if session.is_known(sessions) => true,
            (Err(error), _) if *error.kind() != ErrorKind::InvalidId => {
                self.state = State::Failed(error);
                true
            }
            _ => {
                self.reset();
                false
            }
        }
    }

    /// Opens the session of an id. After [`Request::leave_id`] it moves the session to this id.
    ///
    /// The application gets the payload, and [`Request::loaded`] tells so.
    ///
    /// # Errors
    ///
    /// Those of [`Sessions::begin`] and of [`sessile_core::Lease::regenerate`].
    pub fn open(&mut self, sessions: &Sessions, id: &str, access: Access) -> Result<Opened<'_>> {
        match &mut self.state {
            State::Active(session, phase @ Phase::Validated) if session.key.id() == id => {
                *phase = Phase::Loading;
            }
            State::Failed(_) | State::Active(_, Phase::Leaving { .. }) => {
                self.take_over(sessions, id)?;
            }
            _ => {
                // An owner that was not saved is that of another session. A lock is given back
                // first: it may be the one that is wanted.
                self.reset();
                let key = Key::session(id)?;
                self.open_session(sessions, key, access, Phase::Loading)?;
            }
        }
        self.opened_by = (self.process)();
        if let Some(idle) = self.idle.get(id) {
            (self.rules.idle, self.rules.first_lifetime) = (*idle, None);
        }
        match &mut self.state {
            State::Active(session, _) => {
                Ok(Opened { warning: session.warning.take(), payload: &session.payload })
            }
            _ => unreachable!("it was set above"),
        }
    }

    /// [`Request::open`] and [`Request::loaded`] at once, for languages in which nothing comes
    /// between them. None if it is `strict` and [`Request::validate`] refuses the id.
    ///
    /// # Errors
    ///
    /// Those of [`Request::open`].
    pub fn load(
        &mut self,
        sessions: &Sessions,
        id: &str,
        access: Access,
        strict: bool,
    ) -> Result<Option<Loaded>> {
        if strict && !self.validate(sessions, id, access) {
            return Ok(None);
        }
        let opened = self.open(sessions, id, access)?;
        // A session with its lock gives its buffer away; another one compares with it later.
        let loaded = Loaded { payload: opened.payload.to_vec(), warning: opened.warning };
        self.loaded();
        Ok(Some(loaded))
    }

    #[inline(always)] // as `Session::open`
    fn open_session(
        &mut self,
        sessions: &Sessions,
        key: Key,
        access: Access,
        phase: Phase,
    ) -> Result<()> {
        let patient = self.rules.best_effort.then(|| self.rules.patient(self.waited));
        let rules = patient.as_ref().unwrap_or(&self.rules);
        let put = |session| self.state = State::Active(session, phase);
        Session::open(sessions, rules, key, access, put)?;
        if patient.is_some()
            && let State::Active(session, _) = &mut self.state
            && session.warning.is_some()
            && std::mem::replace(&mut self.waited, true)
        {
            session.warning = None;
        }
        Ok(())
    }

    /// The application has the payload. A request that ends before saves nothing.
    ///
    /// Returns the buffer of the payload for another use, unless the session was read without its
    /// lock: then a save compares with it.
    pub fn loaded(&mut self) -> Vec<u8> {
        let State::Active(session, phase @ Phase::Loading) = &mut self.state else {
            return Vec::new();
        };
        *phase = Phase::Open;
        match session.hold {
            Hold::Locked(_) => std::mem::take(&mut session.payload),
            _ => Vec::new(),
        }
    }

    /// Destroys the session of an id: a log-out. A late request destroys only what it sees.
    ///
    /// # Errors
    ///
    /// Those of [`Sessions::destroy`].
    pub fn destroy(&mut self, sessions: &Sessions, id: &str) -> Result<()> {
        let destroyed = match self.state.opened(id) {
            Some(Session { key, hold: Hold::Late { .. }, .. }) => late::forget(sessions, key),
            _ => sessions.destroy(&Key::session(id)?),
        };
        if self.state.opened(id).is_some() {
            self.reset();
        }
        self.idle.remove(id);
        destroyed
    }

    /// Ends the use of the session, saved or not, and gives its lock back.
    pub fn close(&mut self, sessions: &Sessions, headers_open: bool) -> Closed {
        let (rules, made, created) = (&self.rules, self.made.as_ref(), self.created.as_ref());
        let closed = match &self.state {
            State::Active(
                Session { key, hold: Hold::Unlocked { absence, owner }, .. },
                Phase::Open,
            ) => {
                if absence.is_none() && rules.touch_unlocked {
                    let ttl = rules.ttl(created == Some(key), *owner);
                    let _ = ttl.and_then(|ttl| touch_unlocked(sessions, key, ttl));
                }
                let withdraw =
                    rules.lazy_start && absence.is_some() && made == Some(key) && headers_open;
                if withdraw { Closed::WithdrawCookie } else { Closed::Done }
            }
            _ => Closed::Done,
        };
        self.reset();
        closed
    }

    /// Whether there is no session, and nothing that [`Request::open`] would report.
    #[inline]
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Whether a session is open that has another id.
    pub fn has_another_open(&self, id: &str) -> bool {
        matches!(&self.state, State::Active(session, Phase::Open) if session.key.id() != id)
    }

    /// Whether it has the lock of an open session: a save then waits for nobody.
    pub fn holds_lock(&self) -> bool {
        let State::Active(session, Phase::Open) = &self.state else { return false };
        matches!(session.hold, Hold::Locked(_))
    }

    /// Forgets the session, and an owner that was not saved, and gives its lock back.
    pub fn reset(&mut self) {
        self.let_go();
        (self.owner, self.unsaved_owner) = (OwnerChange::Keep, None);
    }

    fn let_go(&mut self) {
        // If the release fails, the lock ends with its time or its process.
        self.state = State::Closed;
    }

    /// Forgets the request, too.
    pub fn end(&mut self) {
        self.reset();
        (self.made, self.created) = (None, None);
        self.idle.clear();
        self.waited = false;
    }

    fn is_forked_child(&self) -> bool {
        !self.is_closed() && self.opened_by != (self.process)()
    }
}

impl State {
    /// Whether the session of this id is here, in any phase.
    fn has(&self, id: &str) -> bool {
        matches!(self, State::Active(session, _) if session.key.id() == id)
    }

    fn opened(&mut self, id: &str) -> Option<&mut Session> {
        match self {
            State::Active(session, Phase::Open) if session.key.id() == id => Some(session),
            _ => None,
        }
    }
}
