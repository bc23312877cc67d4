//! A log-out everywhere, from within a request.

use sessile_core::{Owner, OwnerChange, Result, Sessions};

use super::{Phase, Request, State};
use crate::session::{Hold, Session};

impl Request {
    /// Ends all sessions of an owner, and returns how many: those of [`Sessions::revoke`], and the
    /// open session if its next save would give it to this owner. That save stores nothing then.
    ///
    /// # Errors
    ///
    /// Those of [`Sessions::destroy`] and of [`Sessions::revoke`].
    pub fn revoke(&mut self, sessions: &Sessions, owner: Owner) -> Result<u64> {
        let set = OwnerChange::Set(Some(owner));
        let mut ended = 0;
        if let State::Active(Session { key, hold, .. }, Phase::Open) = &self.state
            && matches!(hold, Hold::Locked(_) | Hold::Snapshot { .. })
            && hold.owner_change(self.owner) == set
        {
            sessions.destroy(key)?;
            // It is counted once.
            self.owner = OwnerChange::Keep;
            ended = 1;
        }
        Ok(ended + sessions.revoke(owner, None)?)
    }
}
