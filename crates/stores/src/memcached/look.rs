//! Reading: what an item means, where an id leads, and what a lease remembers of what it read.

use sessile_core::{Found, Key, Result, Timestamp, Trace};

use super::Memcached;
use super::cas::Cas;
use super::failure::{fault, unexpected};
use super::item::{self, Header, Kind, Writer};
use super::reply::{Item, Reply};
use super::request::Batch;
use crate::key_value::{ALIAS_STEPS_MAX, circle, corrupt, sibling};

/// What an item means.
pub(super) enum Meaning {
    Nothing(Trace),
    /// Perhaps expired.
    Live(Header, Vec<u8>),
    LeadsTo(Key),
}

/// The item that was read under a lock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Read {
    pub(super) cas: Cas,
    /// Who wrote it; `None` when there was no item with a header, or an invalidated one.
    pub(super) writer: Option<Writer>,
    /// What the next version goes on from; `None` when there was no live record.
    pub(super) base: Option<Base>,
    /// It has no bytes: a begin made it to have a CAS number.
    pub(super) placeholder: bool,
}

/// What a commit keeps of the record that was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Base {
    pub(super) version: u64,
    pub(super) created: Timestamp,
    pub(super) expires: Timestamp,
    pub(super) ends: Option<Timestamp>,
}

impl Base {
    pub(super) fn of(header: &Header) -> Base {
        let Header { version, created, expires, ends, .. } = *header;
        Base { version, created, expires, ends }
    }
}

impl Memcached {
    pub(super) fn look(&self, asked: &Key) -> Result<Found> {
        let mut key = asked.clone();
        for _ in 0..=ALIAS_STEPS_MAX {
            let meaning = match self.data_of(&key)? {
                Some(item) => self.meaning(&key, item)?,
                None => Meaning::Nothing(Trace::Unknown),
            };
            let found = match meaning {
                Meaning::LeadsTo(next) => {
                    key = next;
                    continue;
                }
                Meaning::Nothing(trace) => Found::traced(trace),
                Meaning::Live(header, _) if header.expires <= self.clock.now() => Found::nothing(),
                Meaning::Live(header, payload) => Found::live(header.record(payload)),
            };
            return Ok(Found { moved_to: (key != *asked).then_some(key), ..found });
        }
        Err(circle())
    }

    /// The data item of a session.
    pub(super) fn data_of(&self, key: &Key) -> Result<Option<Item>> {
        let mut batch = Batch::default();
        batch.get(&self.names.data(key));
        let [reply] = self.servers.call(key, &batch)?;
        looked_up(reply)
    }

    /// What a data item says about its session. Asks a second time for the rare first half of a regeneration.
    ///
    /// # Errors
    ///
    /// `Corrupt` when the bytes are not what was written.
    pub(super) fn meaning(&self, key: &Key, item: Item) -> Result<Meaning> {
        if item.stale {
            return Ok(Meaning::Nothing(Trace::Destroyed));
        }
        if item.value.is_empty() {
            return Ok(Meaning::Nothing(Trace::Unknown));
        }
        let now = self.clock.now();
        let (header, payload) = item::open(item.value)?;
        let remembered = |trace| if header.ends.is_some_and(|forget| forget > now) { trace } else { Trace::Unknown };
        Ok(match header.kind {
            Kind::Live => Meaning::Live(header, payload),
            Kind::Pending => {
                let (old_id, payload) = item::unpend(payload).ok_or_else(corrupt)?;
                let old = sibling(key, old_id.as_bytes()).ok_or_else(corrupt)?;
                if self.leads_to(&old, key)? {
                    Meaning::Live(Header { kind: Kind::Live, ..header }, payload)
                } else {
                    Meaning::Nothing(Trace::Unknown)
                }
            }
            Kind::Alias if header.expires > now => Meaning::LeadsTo(sibling(key, &payload).ok_or_else(corrupt)?),
            Kind::Alias => Meaning::Nothing(remembered(Trace::Regenerated)),
            Kind::Tombstone => Meaning::Nothing(remembered(Trace::Destroyed)),
        })
    }

    /// Whether the item of an old id is an alias to a new one, spent or not.
    fn leads_to(&self, old: &Key, new: &Key) -> Result<bool> {
        let Some(item) = self.data_of(old)?.filter(|item| !item.stale && !item.value.is_empty()) else {
            return Ok(false);
        };
        let (header, payload) = item::open(item.value)?;
        Ok(header.kind == Kind::Alias && payload == new.id().as_bytes())
    }
}

/// What a data item holds, if it has a header that counts.
pub(super) fn kind_of(data: &Item) -> Option<Kind> {
    if data.stale { None } else { item::kind_of(&data.value) }
}

/// Who wrote a data item last, if it has a header that counts.
pub(super) fn writer_of(data: &Item) -> Option<Writer> {
    if data.stale { None } else { item::writer_of(&data.value) }
}

/// The item of an answer to a get.
pub(super) fn looked_up(reply: Reply) -> Result<Option<Item>> {
    match reply {
        Reply::Done(item) => Ok(Some(item)),
        Reply::Missing => Ok(None),
        Reply::Failed(why) => Err(fault(why, 0, 0)),
        Reply::Refused => Err(unexpected()),
    }
}
