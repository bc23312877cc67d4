//! The change of a session's id within a request.

use std::time::Duration;

use sessile_core::{Key, Limits, Result, Sessions};

use super::{Phase, Request, State};
use crate::late;
use crate::merge::Removals;
use crate::rules::Rules;
use crate::session::{Access, Hold, Locked, Session, unlocked};

impl Request {
    /// The application asks for a new id, and [`Request::open`] will name it. If the application
    /// `keeps` the old id, late requests see the session there as it was before, for the grace;
    /// otherwise the old id shows nothing. Returns false for an id that is not open.
    ///
    /// In a forked child the session stays its parent's, under its id. The child has left it, and
    /// [`Request::open`] gives the child a session of its own.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a session that was read without its lock: it keeps its id. With
    /// `Concurrency::Merge` and `Detect` those of a save that takes the lock. `Stale` if another
    /// request has changed the session since and the save could not merge: after the move its data
    /// would be under an id that no browser knows.
    pub fn leave_id(&mut self, sessions: &Sessions, id: &str, keeps: bool) -> Result<bool> {
        if self.is_forked_child() {
            let was_open = self.state.has(id);
            self.reset();
            return Ok(was_open);
        }
        let State::Active(session, phase) = &mut self.state else { return Ok(false) };
        if session.key.id() != id {
            return Ok(false);
        }
        if *phase == Phase::Open {
            session.lock(sessions, &self.rules, Removals::Win)?;
            if let Hold::Locked(Locked { diverged: Some(diverged), .. }) = &session.hold
                && let Err(error) = diverged.can_merge(sessions, &self.rules, &session.key)
            {
                self.reset();
                return Err(error);
            }
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

    /// Gives an open session a new id at once, for languages that know it beforehand: see
    /// [`Request::leave_id`].
    ///
    /// # Errors
    ///
    /// Those of [`Request::leave_id`] and of [`Request::open`].
    pub fn regenerate(
        &mut self,
        sessions: &Sessions,
        old: &str,
        new: &str,
        keeps: bool,
    ) -> Result<()> {
        self.leave_id(sessions, old, keeps)?;
        self.open(sessions, new, Access::Locked)?;
        self.loaded();
        Ok(())
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

    /// The failure of a validation, or a session that moves to another id.
    #[cold]
    pub(super) fn take_over(&mut self, sessions: &Sessions, id: &str) -> Result<()> {
        let (session, keeps) = match std::mem::take(&mut self.state) {
            State::Failed(error) => return Err(error),
            State::Active(session, Phase::Leaving { keeps, .. }) => (session, keeps),
            _ => unreachable!("the caller has seen it"),
        };
        let (old, new) = (session.key.clone(), Key::session(id)?);
        let moved = move_to(sessions, &self.rules, session, keeps, new.clone())?;
        for known in [&mut self.made, &mut self.created] {
            if known.as_ref() == Some(&old) {
                *known = Some(new.clone());
            }
        }
        if let Some(idle) = self.idle.remove(old.id()) {
            self.idle.insert(id.to_owned(), idle);
        }
        self.state = State::Active(moved, Phase::Loading);
        Ok(())
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
