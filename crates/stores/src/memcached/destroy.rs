//! Destroying a session.
//!
//! The lock is deleted and the item invalidated in one write: an invalidated item has a new CAS number, so no lease that
//! began before can replace it, and it reads as destroyed from then on. Nothing has to be read before, so nothing can
//! come in between. That the payload makes room for a tombstone comes after and may fail.

use sessile_core::{Key, Result};

use super::cas::Cas;
use super::failure::{fault, unexpected};
use super::item::{self, Header, Kind};
use super::look::looked_up;
use super::reply::Reply;
use super::request::Batch;
use super::{Memcached, writer};
use crate::key_value::{ALIAS_STEPS_MAX, circle, sibling};
use crate::owner::new_token;

impl Memcached {
    /// Destroys what an id leads to as well. An alias stays readable for who destroys it again, should this be cut short.
    pub(super) fn bury(&self, asked: &Key) -> Result<()> {
        let mut key = asked.clone();
        for _ in 0..=ALIAS_STEPS_MAX {
            match self.bury_one(&key)? {
                Some(next) => key = next,
                None => return Ok(()),
            }
        }
        Err(circle())
    }

    fn bury_one(&self, key: &Key) -> Result<Option<Key>> {
        let name = self.names.data(key);
        let mut batch = Batch::default();
        // The lock first: one that is taken in between is that of a lease which this destroys, not of its successor.
        batch.delete_any(&self.names.lock(key));
        batch.invalidate(&name, self.life_of_nothing());
        batch.head(&name);
        let [_, invalidated, head] = self.servers.call(key, &batch)?;
        match invalidated {
            Reply::Done(_) => {}
            Reply::Failed(why) => return Err(fault(why, 0, 0)),
            // Whoever has begun this session has an item; without one, no lease can commit.
            Reply::Missing => return Ok(None),
            Reply::Refused => return Err(unexpected()),
        }
        match looked_up(head)?.filter(|item| item.stale) {
            Some(item) if item.flags == u32::from(Kind::Alias.byte()) => self.target_of(key),
            Some(item) => {
                self.tidy(key, item.cas)?;
                Ok(None)
            }
            None => Ok(None), // begun anew already, or pushed out
        }
    }

    /// Where an invalidated alias has led to.
    fn target_of(&self, key: &Key) -> Result<Option<Key>> {
        let Some(item) = self.data_of(key)?.filter(|item| item.stale) else { return Ok(None) };
        // Whatever the bytes are, the id is destroyed.
        let Ok((header, target)) = item::open(item.value) else { return Ok(None) };
        let leads = header.kind == Kind::Alias && header.expires > self.clock.now();
        Ok(if leads { sibling(key, &target) } else { None })
    }

    /// Replaces an invalidated item by a tombstone, which is small and tells nothing of the visitor.
    fn tidy(&self, key: &Key, cas: Cas) -> Result<()> {
        let forget = self.clock.now().plus(self.remembered());
        let mark = writer(&new_token()?);
        let tombstone =
            Header { version: cas.number, expires: forget, ends: Some(forget), ..Header::new(Kind::Tombstone, mark) };
        let mut batch = Batch::default();
        let life = self.life_of_nothing();
        batch.cas(&self.names.data(key), Kind::Tombstone.byte(), life, &tombstone.encode(b""), cas);
        // Refused: somebody has begun anew. Failed: no room even for this; the invalidated item does as well.
        let [_] = self.servers.call(key, &batch)?;
        Ok(())
    }
}
