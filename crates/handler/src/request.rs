//! The session of one request, as a state machine.

use std::time::Duration;

use sessile_core::{Absence, Clock, Error, ErrorKind, Key, Limits, Result, Sessions};

use crate::late;
use crate::merge::Removals;
use crate::rules::Rules;
use crate::session::{Access, Hold, Locked, Session, replaced};

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
    /// A lock was not free in time; see [`Rules::best_effort`].
    waited: bool,
}

#[derive(Default)]
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

/// What an application ends a request with.
#[derive(Clone, Copy, Debug)]
pub struct Save<'a> {
    /// The payload; none if the session cannot be serialised.
    pub payload: Option<&'a [u8]>,
    /// Whether it differs from the one that was opened.
    pub changed: bool,
    /// Whether the application has put nothing into the session.
    pub empty: bool,
    /// Whether a cookie of this response can still be withdrawn.
    pub headers_open: bool,
}

/// The result of a save.
#[derive(Debug)]
pub enum Saved {
    /// The payload is stored.
    Stored,
    /// The payload is as stored, and lives longer now.
    Touched,
    /// There was nothing to save.
    Nothing,
    /// The session is new and empty, and was not stored: its cookie is to be withdrawn.
    WithdrawCookie,
    /// Another request has logged out meanwhile: nothing is stored.
    LoggedOut(Error),
    /// The id was replaced by a new one meanwhile: nothing is stored. It is logged.
    Replaced(Error),
    /// The session has reached the end of its absolute lifetime: nothing is stored.
    Ended,
}

/// The result of a close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Nothing is left to do.
    Done,
    /// The session is new and was only read: its cookie is to be withdrawn.
    WithdrawCookie,
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
            waited: false,
        }
    }

    /// Changes the rules, for this session and the next ones.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
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
            if sessions.begin_leaves_placeholder(&key)? && sessions.find(&key)?.record.is_none() {
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
                // Its lock is given back first: it may be the one that is wanted.
                self.reset();
                let key = Key::session(id)?;
                self.open_session(sessions, key, access, Phase::Loading)?;
            }
        }
        self.opened_by = (self.process)();
        match &mut self.state {
            State::Active(session, _) => {
                Ok(Opened { warning: session.warning.take(), payload: &session.payload })
            }
            _ => unreachable!("it was set above"),
        }
    }

    /// The failure of a validation, or a session that moves to another id.
    #[cold]
    fn take_over(&mut self, sessions: &Sessions, id: &str) -> Result<()> {
        let (session, keeps) = match std::mem::take(&mut self.state) {
            State::Failed(error) => return Err(error),
            State::Active(session, Phase::Leaving { keeps, .. }) => (session, keeps),
            _ => unreachable!("the caller has seen it"),
        };
        let (old, new) = (session.key.clone(), Key::session(id)?);
        let moved = move_to(sessions, &self.rules, session, keeps, new.clone())?;
        if self.made.as_ref() == Some(&old) {
            self.made = Some(new);
        }
        self.state = State::Active(moved, Phase::Loading);
        Ok(())
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

    /// Saves a session. A session that has expired meanwhile, or was lost with its server, is
    /// stored anew; one that was destroyed stays destroyed.
    ///
    /// # Errors
    ///
    /// Those of [`sessile_core::Lease::commit`]; `Unsupported` for changes to a session that was
    /// read without its lock; `InvalidArgument` for one that cannot be serialised; `Exists` for an
    /// id that was not opened and is taken.
    pub fn save(&mut self, sessions: &Sessions, id: &str, save: Save<'_>) -> Result<Saved> {
        if matches!(self.state, State::Active(_, Phase::Loading)) || self.is_forked_child() {
            return Ok(Saved::Nothing);
        }
        let Some(payload) = save.payload else {
            self.reset();
            let why = "the session cannot be serialised; nothing is saved, and what was stored \
                       before stays";
            let why = Error::new(ErrorKind::InvalidArgument, why);
            return Err(sessions.refuse_save(&Key::session(id)?, why));
        };
        let Some(session) = self.state.opened(id) else {
            if self.state.has(id) {
                // Otherwise the save would wait for the lock of its own request.
                self.reset();
            }
            return store_anew(sessions, &self.rules, Key::session(id)?, payload);
        };
        if session.end.is_some_and(|end| end <= self.clock.now()) {
            self.reset();
            return Ok(Saved::Ended);
        }
        let rules = &self.rules;
        if let Some(saved) = lock_snapshot(session, sessions, rules, payload)? {
            return Ok(saved);
        }
        let locked = match &mut session.hold {
            Hold::Locked(locked) => locked,
            _ if session.payload == payload => return Ok(Saved::Nothing),
            Hold::Late { .. } => return Ok(Saved::Replaced(replaced(sessions, &session.key))),
            Hold::Unlocked { .. } if rules.best_effort => return Ok(Saved::Nothing),
            Hold::Unlocked { .. } | Hold::Snapshot { .. } => {
                return Err(unlocked(sessions, &session.key, "nothing is saved"));
            }
        };
        if !locked.stored && save.empty && rules.lazy_start {
            // The browser keeps a cookie that cannot be withdrawn, so its session is stored.
            match self.made.as_ref().is_some_and(|made| made.id() == id) {
                true if save.headers_open => return Ok(Saved::WithdrawCookie),
                true => {}
                false => return Ok(Saved::Nothing),
            }
        } else if locked.stored && !save.changed {
            match locked.lease.touch(rules.ttl()?) {
                Err(error) if *error.kind() == ErrorKind::Gone => {}
                Err(error) => return logged_out(error),
                Ok(()) => return Ok(Saved::Touched),
            }
        }
        let hold = std::mem::replace(&mut session.hold, Hold::Unlocked { found: true });
        let Hold::Locked(locked) = hold else { unreachable!("it was matched above") };
        let saved = commit(sessions, rules, &session.key, locked, payload);
        self.reset();
        saved
    }

    /// The application asks for a new id, and [`Request::open`] will name it. If the application
    /// `keeps` the old id, late requests see the session there as it was before, for the grace;
    /// otherwise the old id shows nothing. Returns false for an id that is not open.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a session that was read without its lock: it keeps its id. With
    /// `Concurrency::Merge` those of a save that takes the lock.
    pub fn leave_id(&mut self, sessions: &Sessions, id: &str, keeps: bool) -> Result<bool> {
        if self.is_forked_child() {
            return Ok(false);
        }
        let State::Active(session, phase) = &mut self.state else { return Ok(false) };
        if session.key.id() != id {
            return Ok(false);
        }
        if *phase == Phase::Open {
            session.lock(sessions, &self.rules, Removals::Win)?;
        }
        match (*phase, &session.hold) {
            (Phase::Open, Hold::Locked(_)) => {
                *phase = Phase::Leaving { keeps, paused: false };
                Ok(true)
            }
            // A late request could make a session of its own otherwise, which a log-out of the new
            // one would not end.
            (Phase::Open, _) => Err(unlocked(sessions, &session.key, "it keeps its id")),
            (phase, _) => Ok(matches!(phase, Phase::Leaving { .. })),
        }
    }

    /// Whether a session waits for its new id.
    pub fn is_leaving(&self) -> bool {
        matches!(self.state, State::Active(_, Phase::Leaving { .. }))
    }

    /// Keeps the lock of a session that waits for its new id over one close, for languages that
    /// close a session and open it again to give it another id. Returns whether it does.
    pub fn pause(&mut self) -> bool {
        match &mut self.state {
            State::Active(_, Phase::Leaving { paused, .. }) => !std::mem::replace(paused, true),
            _ => false,
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
        destroyed
    }

    /// Ends the use of the session, saved or not, and gives its lock back.
    pub fn close(&mut self, sessions: &Sessions, headers_open: bool) -> Closed {
        let (rules, made) = (&self.rules, self.made.as_ref());
        let closed = match &self.state {
            State::Active(Session { key, hold: Hold::Unlocked { found }, .. }, Phase::Open) => {
                if *found && rules.touch_unlocked {
                    let _ = touch_unlocked(sessions, rules, key);
                }
                let withdraw = rules.lazy_start && !found && made == Some(key) && headers_open;
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

    /// Forgets the session and gives its lock back.
    pub fn reset(&mut self) {
        // If the release fails, the lock ends with its time or its process.
        self.state = State::Closed;
    }

    /// Forgets the request, too.
    pub fn end(&mut self) {
        self.reset();
        self.made = None;
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

/// Gives a locked session its new id.
fn move_to(
    sessions: &Sessions,
    rules: &Rules,
    session: Session,
    keeps: bool,
    new: Key,
) -> Result<Session> {
    let Hold::Locked(mut locked) = session.hold else {
        return Err(unlocked(sessions, &session.key, "it keeps its id"));
    };
    let grace = rules.grace.min(Limits::GRACE_MAX);
    // A failure is logged by the store. Late requests see nothing then, and the log-in succeeds.
    let kept = keeps
        && locked.stored
        && !grace.is_zero()
        && late::keep(sessions, locked.lease.key(), grace).unwrap_or(false);
    locked.lease.regenerate(&new, if kept { grace } else { Duration::ZERO })?;
    Ok(Session { key: new, payload: Vec::new(), hold: Hold::Locked(locked), ..session })
}

/// Takes the lock of a snapshot that the application has changed. Otherwise, or if the session is
/// another one now, this is the result of the save.
fn lock_snapshot(
    session: &mut Session,
    sessions: &Sessions,
    rules: &Rules,
    payload: &[u8],
) -> Result<Option<Saved>> {
    if !matches!(session.hold, Hold::Snapshot { .. }) {
        return Ok(None);
    }
    if session.payload == payload {
        return touch_unlocked(sessions, rules, &session.key).map(Some);
    }
    match session.lock(sessions, rules, Removals::Lose) {
        Err(error) if *error.kind() == ErrorKind::Unsupported => Ok(Some(Saved::Replaced(error))),
        Err(error) => logged_out(error).map(Some),
        Ok(()) => Ok(None),
    }
}

/// Lets a session live longer that was read without its lock. If it is gone meanwhile, the request
/// succeeds all the same.
fn touch_unlocked(sessions: &Sessions, rules: &Rules, key: &Key) -> Result<Saved> {
    match sessions.touch(key, rules.ttl()?) {
        Err(error) if *error.kind() == ErrorKind::Gone => Ok(Saved::Nothing),
        touched => touched.map_or_else(logged_out, |()| Ok(Saved::Touched)),
    }
}

/// Stores a session whose lock is held, and gives the lock back.
fn commit(
    sessions: &Sessions,
    rules: &Rules,
    key: &Key,
    locked: Locked,
    payload: &[u8],
) -> Result<Saved> {
    let merged = match &locked.diverged {
        Some(diverged) => Some(diverged.merge(sessions, rules, key, payload)?),
        None => None,
    };
    let payload = merged.as_ref().map_or(payload, |merged| &merged.payload);
    match locked.lease.commit(payload, rules.ttl()?) {
        Err(error) if *error.kind() == ErrorKind::Gone => {
            store_anew(sessions, rules, key.clone(), payload)
        }
        Err(error) => logged_out(error),
        Ok(()) => {
            if let Some(merged) = merged {
                merged.stored(sessions, key);
            }
            Ok(Saved::Stored)
        }
    }
}

/// Stores a session whose lock is not held.
fn store_anew(sessions: &Sessions, rules: &Rules, key: Key, payload: &[u8]) -> Result<Saved> {
    let begun = sessions.begin(&key, rules.lock_wait)?;
    if begun.moved || begun.absence == Absence::Regenerated {
        return Ok(Saved::Replaced(replaced(sessions, &key)));
    }
    if begun.absence == Absence::Destroyed {
        return logged_out(sessions.refuse_save(&key, ErrorKind::Destroyed.into()));
    }
    if begun.record.is_some() {
        let why = "another request has stored a session under this id; nothing is saved";
        return Err(sessions.refuse_save(&key, Error::new(ErrorKind::Exists, why)));
    }
    begun.lease.commit(payload, rules.ttl()?).map_or_else(logged_out, |()| Ok(Saved::Stored))
}

/// A log-out in between wins.
fn logged_out(error: Error) -> Result<Saved> {
    if *error.kind() == ErrorKind::Destroyed { Ok(Saved::LoggedOut(error)) } else { Err(error) }
}

fn unlocked(sessions: &Sessions, key: &Key, so: &str) -> Error {
    let why = format!("the session was read without its lock: {so}");
    sessions.refuse_save(key, Error::new(ErrorKind::Unsupported, why))
}
