//! `?seal=FILE`: payloads are encrypted before the store sees them, so that a stolen dump, backup
//! or disk tells nothing. The manual is `SECURITY.md`, "Encrypted sessions"; why the key does not
//! depend on the id is `docs/decisions/0041-encrypted-payloads.md`.
//!
//! Invariants: what this store writes is encrypted with the first key of the file; what it reads
//! may be encrypted with any of them, or not at all (a site that turned the option on keeps its
//! sessions). Keys, locks, expiry and versions are those of the store beneath. Ids are not hidden:
//! `ids=hashed` does that.

mod envelope;
mod key_file;

use std::time::Duration;

use sessile_core::{
    Begun, Budget, Capabilities, Cursor, Detail, Details, Filter, Found, HeldLock, Key, Lease,
    Limits, Listed, Owner, OwnerChange, Page, Record, Result, Sessions, SharedCounts, Stat, Store,
    Swept, Ttl, Verified,
};

use self::envelope::Envelope;
use crate::store_url::{StoreUrl, invalid};

/// The option, which every store takes.
pub const OPTION: &str = "seal";

/// Reads the keys of a URL, before its store is opened: a wrong one creates nothing.
///
/// # Errors
///
/// `InvalidUrl` for a key file that cannot be used.
pub fn envelope(url: &StoreUrl) -> Result<Option<Envelope>> {
    url.text(OPTION).map(|path| key_file::read(path).map(Envelope::new)).transpose()
}

/// The limit of a store in which payloads of up to so many bytes are encrypted.
pub fn widened(payload_bytes_max: u64) -> u64 {
    payload_bytes_max.saturating_add(envelope::OVERHEAD_BYTES)
}

/// Puts the encryption before an opened store.
///
/// # Errors
///
/// `InvalidUrl` for a store whose records other programs read and write.
pub fn encrypt(sessions: Sessions, envelope: Envelope) -> Result<Sessions> {
    if sessions.capabilities().foreign_writers {
        return Err(invalid("seal= encrypts payloads that another program reads here")
            .advice("leave it out, or use a store that only sessile reads"));
    }
    let (label, limits) = (sessions.label().to_owned(), sessions.limits());
    let payload_bytes_max = limits.payload_bytes_max.saturating_sub(envelope::OVERHEAD_BYTES);
    let store = Encrypted { inner: sessions, envelope };
    Ok(Sessions::new(label, store, Limits { payload_bytes_max, ..limits }))
}

struct Encrypted {
    inner: Sessions,
    envelope: Envelope,
}

impl Encrypted {
    fn decrypt(&self, key: &Key, record: Option<Record>) -> Result<Option<Record>> {
        let Some(Record { payload, head }) = record else { return Ok(None) };
        let payload = self.envelope.open(key.bin(), payload)?;
        Ok(Some(Record { payload, head }))
    }
}

impl Store for Encrypted {
    type Held = Lease;

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    /// A record that cannot be decrypted is an error, and its lease ends here.
    fn begin(&self, key: &Key, wait_max: Duration) -> Result<(Lease, u64, Found)> {
        let Begun { lease, record, absence, moved } = self.inner.begin(key, wait_max)?;
        let record = self.decrypt(key, record)?;
        let (fence, moved_to) = (lease.fence(), moved.then(|| lease.key().clone()));
        Ok((lease, fence, Found { record, moved_to, absence }))
    }

    fn begin_leaves_placeholder(&self, key: &Key) -> Result<bool> {
        self.inner.begin_leaves_placeholder(key)
    }

    fn peek(&self, key: &Key) -> Result<Found> {
        let found = self.inner.find(key)?;
        Ok(Found { record: self.decrypt(key, found.record)?, ..found })
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        self.inner.create(key, &self.envelope.seal(key.bin(), payload)?, ttl)
    }

    fn commit(&self, mut lease: Lease, payload: &[u8], ttl: Ttl, owner: OwnerChange) -> Result<()> {
        let sealed = self.envelope.seal(lease.key().bin(), payload)?;
        lease.change_owner(owner)?;
        lease.commit(&sealed, ttl)
    }

    fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
        self.inner.touch(key, ttl)
    }

    fn touch_held(&self, lease: &mut Lease, ttl: Ttl) -> Result<()> {
        lease.touch(ttl)
    }

    fn release(&self, lease: Lease) -> Result<()> {
        lease.release()
    }

    fn destroy(&self, key: &Key) -> Result<()> {
        self.inner.destroy(key)
    }

    fn destroy_owned(&self, key: &Key, owner: Owner) -> Result<bool> {
        self.inner.destroy_owned(key, owner)
    }

    /// The store moves the record without reading it, which is why the id is no part of the key.
    fn regenerate(&self, lease: &mut Lease, new: &Key, grace: Duration) -> Result<()> {
        lease.regenerate(new, grace)
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        self.inner.sweep(budget)
    }

    fn stored_key(&self, key: &Key) -> Key {
        self.inner.listed_key(key)
    }

    fn listed_keys(&self, key: &Key) -> Vec<Key> {
        self.inner.listed_keys(key)
    }

    fn locks(&self, limit: usize) -> Result<Vec<HeldLock>> {
        self.inner.locks(limit)
    }

    /// The store beneath counts.
    fn shared_counts(&self) -> Option<SharedCounts> {
        self.inner.shared_counts()
    }

    fn count_failed_save(&self) {
        self.inner.count_failed_save();
    }

    /// Sizes as if all payloads were encrypted: which are is not known without reading them.
    fn stat(&self) -> Result<Stat> {
        let stat = self.inner.stat()?;
        let added = stat.sessions.saturating_mul(envelope::OVERHEAD_BYTES);
        Ok(Stat { payload_bytes: stat.payload_bytes.saturating_sub(added), ..stat })
    }

    /// Sizes of payloads as if all were encrypted.
    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let payload_bytes_min = match filter.payload_bytes_min {
            0 => 0,
            bytes => bytes.saturating_add(envelope::OVERHEAD_BYTES),
        };
        let page = self.inner.list(cursor, &Filter { payload_bytes_min, ..filter.clone() })?;
        let entries = page.entries.into_iter().map(|entry| Listed {
            payload_bytes: entry.payload_bytes.saturating_sub(envelope::OVERHEAD_BYTES),
            ..entry
        });
        Ok(Page { entries: entries.collect(), ..page })
    }

    fn details(&self) -> Result<Details> {
        let mut details = self.inner.details()?;
        details.push(("encryption_keys", Detail::Count(self.envelope.keys() as u64)));
        Ok(details)
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
        self.inner.verify(progress)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }
}

#[cfg(test)]
mod tests;
