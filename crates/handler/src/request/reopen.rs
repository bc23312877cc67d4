//! A second save of one request.

use sessile_core::{Absence, Begun, ErrorKind, Key, OwnerChange, Result, Sessions};

use super::{Phase, Request, Save, Saved, State};
use crate::diverged::Diverged;
use crate::merge::Removals;
use crate::session::{Access, Hold, Locked, Session, of_parent, replaced};

impl Request {
    /// Opens a session again that this request has saved, to save it once more: a save gives the
    /// lock back. `saved` is the payload of that save. The application keeps what it has, and
    /// there is no payload to load.
    ///
    /// If another request has changed the session in between, the next save merges, or fails with
    /// `Stale`.
    ///
    /// # Errors
    ///
    /// Those of [`Sessions::begin`]; `Destroyed` after a log-out; `Unsupported` under an id that
    /// was replaced, and in a forked child, whose parent has the session.
    pub fn reopen(&mut self, sessions: &Sessions, id: &str, saved: &[u8]) -> Result<()> {
        self.let_go();
        let key = Key::session(id)?;
        if self.opened_by != (self.process)() {
            return Err(of_parent(sessions, &key));
        }
        let Begun { lease, record, absence, moved } = sessions.begin(&key, self.rules.lock_wait)?;
        if moved || absence == Absence::Regenerated {
            return Err(replaced(sessions, &key));
        }
        if absence == Absence::Destroyed {
            return Err(sessions.refuse_save(&key, ErrorKind::Destroyed.into()));
        }
        let end = record.as_ref().and_then(|record| self.rules.end(&record.head));
        let stored = record.is_some();
        let changed = record.filter(|record| record.payload != saved);
        let diverged = changed.map(|record| {
            let (base, theirs) = (saved.to_vec(), record.payload);
            Box::new(Diverged { base, theirs, removals: Removals::Lose })
        });
        let hold = Hold::Locked(Locked { lease, stored, diverged });
        let session = Session { key, payload: Vec::new(), hold, end, warning: None };
        self.state = State::Active(session, Phase::Open);
        let unsaved = self.unsaved_owner.take_if(|(of, _)| of == id);
        // One that was set since is the newer one.
        if let Some((_, unsaved)) = unsaved.filter(|_| self.owner == OwnerChange::Keep) {
            self.owner = unsaved;
        }
        Ok(())
    }

    /// Stores a session for frameworks that read and store without a request. `base` is what it was
    /// read as; without one it is a new session, or replaces what is stored.
    ///
    /// If another request has changed it since, this merges, or fails with `Stale`.
    ///
    /// # Errors
    ///
    /// Those of [`Request::reopen`] or of [`Request::open`], and of [`Request::save`].
    pub fn store(
        &mut self,
        sessions: &Sessions,
        id: &str,
        base: Option<&[u8]>,
        access: Access,
        payload: &[u8],
    ) -> Result<Saved> {
        match base {
            Some(base) => self.reopen(sessions, id, base)?,
            None => {
                self.load(sessions, id, access, false)?;
            }
        }
        let payload = Some(payload);
        self.save(sessions, id, Save { payload, changed: true, empty: false, headers_open: false })
    }
}
