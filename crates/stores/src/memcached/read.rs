//! Reading: what an item means, and what a lease remembers of it.

use sessile_core::{Head, Key, Result, Stored, Timestamp};

use super::bounded::Bounded;
use super::data::Decoded;
use super::failure::{fault, unexpected};
use super::lock::Lock;
use super::reply::{Cas, Item, Reply};
use super::request::Commands;

/// The item that was read under a lock.
#[derive(Clone, Copy)]
pub struct ReadItem {
    pub cas: Cas,
    /// `None` when there was no item with a header, or an invalidated one.
    pub writer: Option<u64>,
    /// What the next version goes on from; `None` when there was no live record.
    pub head: Option<Head>,
    /// It has no bytes: a begin made it to have a CAS number.
    pub placeholder: bool,
}

impl ReadItem {
    pub fn new(item: &Item, head: Option<Head>) -> ReadItem {
        let placeholder = item.value.is_empty() && !item.stale;
        ReadItem { cas: item.cas, writer: item.writer(), head, placeholder }
    }
}

impl Bounded<'_> {
    pub fn data_of(&self, key: &Key) -> Result<Option<Item>> {
        let [reply] = self.send(key, Commands::default().get(&self.data_name(key)))?;
        reply.item()
    }

    /// What a data item says, and the payload. Asks a second time for the rare first half of a
    /// regeneration, and for an id that leads nowhere any more.
    pub fn decode(&self, key: &Key, item: Item) -> Result<(Stored, Vec<u8>)> {
        if item.stale {
            let forget = Timestamp::from_ms(u64::MAX);
            return Ok((Stored::Tombstone { mark: item.cas.number, forget }, Vec::new()));
        }
        let Some(Decoded { stored, payload, pending_from }) = item.decode(key)? else {
            return Ok((Stored::Nothing, Vec::new()));
        };
        match (pending_from, &stored) {
            (Some(old), _) if !self.is_alias(&old, key)? => Ok((Stored::Nothing, Vec::new())),
            (_, Stored::Alias { target, .. }) if !stored.takes_id(self.clock.now()) => {
                self.complete(target, key)?;
                Ok((stored, payload))
            }
            _ => Ok((stored, payload)),
        }
    }

    /// Whether the item of an old id is an alias to a new one, spent, destroyed or neither.
    fn is_alias(&self, old: &Key, new: &Key) -> Result<bool> {
        let item = Item { stale: false, ..self.data_of(old)?.unwrap_or_default() };
        let stored = item.decode(old)?.map(|decoded| decoded.stored);
        Ok(matches!(stored, Some(Stored::Alias { target, .. }) if target == *new))
    }
}

impl Reply {
    /// The item of an answer to a get.
    pub fn item(self) -> Result<Option<Item>> {
        match self {
            Reply::Done(item) => Ok(Some(item)),
            Reply::Missing => Ok(None),
            Reply::Failed(why) => Err(fault(why, 0, 0)),
            Reply::Refused => Err(unexpected()),
        }
    }

    pub fn lock(self) -> Result<Option<Lock>> {
        Ok(self.item()?.as_ref().map(Lock::of))
    }
}
