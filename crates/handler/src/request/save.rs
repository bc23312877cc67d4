//! The save at the end of a request.

use sessile_core::{Absence, Error, ErrorKind, Key, Owner, OwnerChange, Result, Sessions, Ttl};

use super::{Phase, Request, State};
use crate::diverged::Diverged;
use crate::merge::Removals;
use crate::rules::Rules;
use crate::session::{Hold, Locked, Session, of_parent, replaced, unlocked};

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
    /// The session has reached the end of its absolute lifetime: nothing is stored. Changes that
    /// are lost by that are logged.
    Ended,
}

impl Saved {
    /// The word of `spec/requests.toml`.
    pub const fn name(&self) -> &'static str {
        match self {
            Saved::Stored => "stored",
            Saved::Touched => "touched",
            Saved::Nothing => "nothing",
            Saved::WithdrawCookie => "withdraw-cookie",
            Saved::LoggedOut(_) => "logged-out",
            Saved::Replaced(_) => "replaced",
            Saved::Ended => "ended",
        }
    }
}

impl Request {
    /// Saves a session. A session that has expired meanwhile, or was lost with its server, is
    /// stored anew; one that was destroyed stays destroyed.
    ///
    /// # Errors
    ///
    /// Those of [`sessile_core::Lease::commit`]; `Unsupported` for changes to a session that was
    /// read without its lock; `InvalidArgument` for one that cannot be serialised; `Exists` for an
    /// id that was not opened and is taken.
    pub fn save(&mut self, sessions: &Sessions, id: &str, save: Save<'_>) -> Result<Saved> {
        let saved = self.save_session(sessions, id, save);
        // The next session of the request may be that of another user.
        match saved {
            Ok(Saved::Nothing | Saved::WithdrawCookie) => {}
            Ok(_) => {
                self.owner = OwnerChange::Keep;
                self.unsaved_owner.take_if(|(of, _)| of == id);
            }
            Err(_) => {
                let unsaved = std::mem::replace(&mut self.owner, OwnerChange::Keep);
                if unsaved != OwnerChange::Keep {
                    self.unsaved_owner = Some((id.to_owned(), unsaved));
                }
            }
        }
        saved
    }

    /// [`Request::save`] for languages that are told of a session of the parent process. PHP is
    /// not: it saves at the end of each process, also of a child that has changed nothing.
    ///
    /// # Errors
    ///
    /// Those of [`Request::save`]; `Unsupported` for changes in a forked child, whose parent has
    /// the session.
    pub fn save_own(&mut self, sessions: &Sessions, id: &str, save: Save<'_>) -> Result<Saved> {
        let owner = self.owner;
        let set = self.state.opened(id).map_or(owner, |session| session.hold.owner_change(owner));
        if self.is_forked_child() && (save.changed || set != OwnerChange::Keep) {
            return Err(of_parent(sessions, &Key::session(id)?));
        }
        self.save(sessions, id, save)
    }

    #[inline]
    fn save_session(&mut self, sessions: &Sessions, id: &str, save: Save<'_>) -> Result<Saved> {
        if matches!(self.state, State::Active(_, Phase::Loading)) || self.is_forked_child() {
            return Ok(Saved::Nothing);
        }
        let Some(payload) = save.payload else {
            self.let_go();
            let why = "the session cannot be serialised; nothing is saved, and what was stored \
                       before stays";
            let why = Error::new(ErrorKind::InvalidArgument, why);
            return Err(sessions.refuse_save(&Key::session(id)?, why));
        };
        let Some(session) = self.state.opened(id) else {
            if self.state.has(id) {
                // Otherwise the save would wait for the lock of its own request.
                self.let_go();
            }
            return self.save_unopened(sessions, id, payload);
        };
        if session.end.is_some_and(|end| end <= self.clock.now()) {
            if save.changed || session.hold.owner_change(self.owner) != OwnerChange::Keep {
                count_ended(sessions, &session.key);
            }
            self.let_go();
            return Ok(Saved::Ended);
        }
        let (rules, set) = (&self.rules, session.hold.owner_change(self.owner));
        let created = self.created.as_ref() == Some(&session.key);
        if let Some(saved) = lock_snapshot(session, sessions, rules, created, (payload, set))? {
            return Ok(saved);
        }
        let locked = match &mut session.hold {
            Hold::Locked(locked) => locked,
            _ if session.payload == payload && set == OwnerChange::Keep => {
                return Ok(Saved::Nothing);
            }
            Hold::Late { .. } => return Ok(Saved::Replaced(replaced(sessions, &session.key))),
            Hold::Unlocked { .. } if rules.best_effort => return Ok(Saved::Nothing),
            Hold::Unlocked { .. } | Hold::Snapshot { .. } => {
                return Err(unlocked(sessions, &session.key, "nothing is saved"));
            }
        };
        let sets_owner = set != OwnerChange::Keep;
        let (is_new, owner) = (!locked.stored, set.after(locked.lease.owner()));
        let ttl = rules.ttl(is_new || created, owner)?;
        if !locked.stored && save.empty && !sets_owner && rules.lazy_start {
            // The browser keeps a cookie that cannot be withdrawn, so its session is stored.
            match self.made.as_ref().is_some_and(|made| made.id() == id) {
                true if save.headers_open => return Ok(Saved::WithdrawCookie),
                true => {}
                false => return Ok(Saved::Nothing),
            }
        } else if locked.stored && !save.changed && !sets_owner {
            match locked.lease.touch(ttl) {
                Err(error) if *error.kind() == ErrorKind::Gone => {}
                Err(error) => return logged_out(error),
                Ok(()) => return Ok(Saved::Touched),
            }
        }
        let hold =
            std::mem::replace(&mut session.hold, Hold::Unlocked { absence: None, owner: None });
        let Hold::Locked(locked) = hold else { unreachable!("it was matched above") };
        let saved = commit(sessions, rules, &session.key, locked, (payload, set, ttl));
        if is_new && matches!(saved, Ok(Saved::Stored)) {
            self.created = Some(session.key.clone());
        }
        self.let_go();
        saved
    }

    /// A session that this request has not opened: a new one.
    fn save_unopened(&mut self, sessions: &Sessions, id: &str, payload: &[u8]) -> Result<Saved> {
        let (key, owner) = (Key::session(id)?, self.owner.after(None));
        let with = (payload, self.owner, self.rules.ttl(true, owner)?);
        let saved = store_anew(sessions, &self.rules, &key, with)?;
        if matches!(saved, Saved::Stored) {
            self.created = Some(key);
        }
        Ok(saved)
    }
}

/// Counts and logs changes to a session whose absolute lifetime is over.
#[cold]
fn count_ended(sessions: &Sessions, key: &Key) {
    let why = "the session has reached the end of its absolute lifetime: nothing is saved";
    sessions.refuse_save(key, Error::new(ErrorKind::Gone, why));
}

/// Takes the lock of a snapshot that the application has changed. Otherwise, or if the session is
/// another one now, this is the result of the save.
fn lock_snapshot(
    session: &mut Session,
    sessions: &Sessions,
    rules: &Rules,
    created: bool,
    (payload, set): (&[u8], OwnerChange),
) -> Result<Option<Saved>> {
    let Hold::Snapshot { owner, .. } = session.hold else { return Ok(None) };
    if session.payload == payload && set == OwnerChange::Keep {
        return touch_unlocked(sessions, &session.key, rules.ttl(created, owner)?).map(Some);
    }
    match session.lock(sessions, rules, Removals::Lose) {
        Err(error) if *error.kind() == ErrorKind::Unsupported => Ok(Some(Saved::Replaced(error))),
        Err(error) => logged_out(error).map(Some),
        Ok(()) => Ok(None),
    }
}

/// Lets a session live longer that was read without its lock. If it is gone meanwhile, the request
/// succeeds all the same.
pub(super) fn touch_unlocked(sessions: &Sessions, key: &Key, ttl: Ttl) -> Result<Saved> {
    match sessions.touch(key, ttl) {
        Err(error) if *error.kind() == ErrorKind::Gone => Ok(Saved::Nothing),
        touched => touched.map_or_else(logged_out, |()| Ok(Saved::Touched)),
    }
}

/// Stores a session whose lock is held, and gives the lock back.
fn commit(
    sessions: &Sessions,
    rules: &Rules,
    key: &Key,
    mut locked: Locked,
    (payload, set, ttl): (&[u8], OwnerChange, Ttl),
) -> Result<Saved> {
    let merge = |diverged: &Diverged| diverged.merge(sessions, rules, key, payload);
    let merged = locked.diverged.as_deref().map(merge).transpose()?;
    let payload = merged.as_ref().map_or(payload, |merged| &merged.payload);
    let owner = locked.lease.owner();
    locked.lease.change_owner(set)?;
    match locked.lease.commit(payload, ttl) {
        Err(error) if *error.kind() == ErrorKind::Gone => {
            // The owner went with the record.
            let set = if set == OwnerChange::Keep { kept(owner) } else { set };
            store_anew(sessions, rules, key, (payload, set, ttl))
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
fn store_anew(
    sessions: &Sessions,
    rules: &Rules,
    key: &Key,
    (payload, set, ttl): (&[u8], OwnerChange, Ttl),
) -> Result<Saved> {
    let mut begun = sessions.begin(key, rules.lock_wait)?;
    if begun.moved || begun.absence == Absence::Regenerated {
        return Ok(Saved::Replaced(replaced(sessions, key)));
    }
    if begun.absence == Absence::Destroyed {
        return logged_out(sessions.refuse_save(key, ErrorKind::Destroyed.into()));
    }
    if begun.record.is_some() {
        let why = "another request has stored a session under this id; nothing is saved";
        return Err(sessions.refuse_save(key, Error::new(ErrorKind::Exists, why)));
    }
    begun.lease.change_owner(set)?;
    begun.lease.commit(payload, ttl).map_or_else(logged_out, |()| Ok(Saved::Stored))
}

fn kept(owner: Option<Owner>) -> OwnerChange {
    owner.map_or(OwnerChange::Keep, |owner| OwnerChange::Set(Some(owner)))
}

/// A log-out in between wins.
fn logged_out(error: Error) -> Result<Saved> {
    if *error.kind() == ErrorKind::Destroyed { Ok(Saved::LoggedOut(error)) } else { Err(error) }
}
