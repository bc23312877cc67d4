//! The operations, as far as both modes do the same.

use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use sessile_core::{
    Budget, Capabilities, Cursor, ErrorKind, Filter, Found, HeldLock, Key, Owner, OwnerChange,
    Page, Result, Stat, Store, Swept, Ttl, Verified, destroy_aliases, follow_aliases,
};

use super::lock::{SessionLocks, lock_free, unlock};
use super::locks_held::locks_held;
use super::mode::{Held, Mode};
use super::sweep::{SweptTo, sweep};
use super::system::{Identity, fence, size};
use super::walk::Ahead;
use super::{gate, list};
use crate::file_system;
use crate::locks::check_process;

pub struct Files<M> {
    mode: M,
    locks: SessionLocks,
    capabilities: Capabilities,
    swept_to: SweptTo,
    ahead: Ahead,
}

impl<M: Mode> Files<M> {
    pub fn new(mode: M, capabilities: Capabilities) -> Result<Files<M>> {
        let locks = SessionLocks::open(Arc::clone(mode.side()))?;
        let (swept_to, ahead) = (SweptTo::default(), Ahead::default());
        Ok(Files { mode, locks, capabilities, swept_to, ahead })
    }
}

impl<M: Mode> Store for Files<M> {
    type Held = Held;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn begin(&self, asked: &Key, wait_max: Duration) -> Result<(Held, u64, Found)> {
        let start = Instant::now();
        let ((held, fence, found), moved_to) = follow_aliases(asked, |key| -> Result<_> {
            let begins_before = if wait_max.is_zero() { 0 } else { self.mode.yield_lock(key) };
            let (file, stat) = match self.locks.lock(&self.mode, key, start, wait_max)? {
                Break(locked) => locked,
                Continue(next) => return Ok(Continue(next)),
            };
            let stat = self.mode.repair(key, &file)?.unwrap_or(stat);
            let (stored, payload) = self.mode.read(key, &file, &stat)?;
            Ok(stored.look_up(payload, self.mode.now()).map_break(|found| {
                let held = Held {
                    identity: Identity::of(&stat),
                    key: key.clone(),
                    pid: std::process::id(),
                    read: found.record.as_ref().map(|record| record.head),
                    file_bytes: size(&stat),
                    begins_before,
                    file,
                };
                (held, fence(), found)
            }))
        })?;
        Ok((held, fence, Found { moved_to, ..found }))
    }

    fn begin_leaves_placeholder(&self, key: &Key) -> Result<bool> {
        self.mode.begin_leaves_placeholder(key)
    }

    fn peek(&self, asked: &Key) -> Result<Found> {
        let now = self.mode.now();
        let (found, moved_to) = follow_aliases(asked, |key| -> Result<_> {
            let (stored, payload) = self.mode.peek(key)?;
            Ok(stored.look_up(payload, now))
        })?;
        Ok(Found { moved_to, ..found })
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        self.mode.create(key, payload, ttl)
    }

    fn commit(&self, held: Held, payload: &[u8], ttl: Ttl, owner: OwnerChange) -> Result<()> {
        check_process(held.pid)?;
        let committed = self.mode.commit(&held, (payload, ttl, owner));
        if committed.is_err() {
            gate::release(&held.file);
            // The lease ends, whatever failed. The error of the commit says more.
            let _ = self.release(held);
        }
        committed
    }

    fn touch(&self, asked: &Key, ttl: Ttl) -> Result<()> {
        let touched = follow_aliases(asked, |key| {
            let name = self.mode.file(key)?;
            // Starts over when the name has got another file. Each round is the progress of another
            // request, so the loop ends when they do.
            loop {
                let opened = name.open_checked(OFlags::RDWR)?;
                if let Some(next) = self.mode.leads_to(key, opened.as_ref())? {
                    return Ok(Continue(next));
                }
                let opened = opened.ok_or(ErrorKind::Gone)?;
                // Under the gate, so that a sweep does not remove the file meanwhile.
                if let Some(stat) = name.enter_gate(&opened)? {
                    return self.mode.touch(&opened.0, &stat, ttl).map(Break);
                }
            }
        });
        touched.map(drop)
    }

    fn touch_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        check_process(held.pid)?;
        gate::within(&held.file, || {
            let stat = self.mode.file(&held.key)?.check_lease(held.identity)?;
            self.mode.touch(&held.file, &stat, ttl)
        })
    }

    fn release(&self, held: Held) -> Result<()> {
        if held.pid != std::process::id() {
            return Ok(());
        }
        self.mode.before_release(&held)?;
        unlock(&held.file)
    }

    fn destroy(&self, asked: &Key) -> Result<()> {
        destroy_aliases(asked, |key, visited| {
            let name = self.mode.file(key)?;
            loop {
                let opened = name.open_checked(OFlags::RDWR)?;
                // Unreadable bytes lead nowhere, and can be destroyed too.
                let next = self.mode.leads_to(key, opened.as_ref()).unwrap_or_default();
                if let Some(next) = next.filter(|next| !visited.contains(next)) {
                    return Ok(Some(next));
                }
                if self.mode.destroy(key, opened.as_ref())? {
                    return Ok(None);
                }
            }
        })
    }

    fn destroy_owned(&self, key: &Key, owner: Owner) -> Result<bool> {
        self.mode.destroy_owned(key, owner)
    }

    fn regenerate(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        check_process(held.pid)?;
        if held.read.is_some() {
            return self.mode.move_record(held, new, grace);
        }
        // Without a record only the lock moves, to the file of the new id.
        let name = self.mode.file(&held.key)?;
        gate::within(&held.file, || name.check_lease(held.identity))?;
        let (file, stat) = lock_free(&self.mode, new)?;
        gate::release(&file);
        let (identity, file_bytes) = (Identity::of(&stat), size(&stat));
        let moved = Held { file, identity, key: new.clone(), file_bytes, ..*held };
        self.release(std::mem::replace(held, moved))
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        sweep(&self.mode, &self.swept_to, budget)
    }

    fn stat(&self) -> Result<Stat> {
        list::stat(&self.mode)
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        list::list(&self.mode, &self.ahead, cursor, filter)
    }

    fn locks(&self, limit: usize) -> Result<Vec<HeldLock>> {
        locks_held(&self.mode, limit)
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
        self.mode.verify(progress)
    }

    fn sync(&self) -> Result<()> {
        file_system::sync(&self.mode.root().fd)
    }
}
