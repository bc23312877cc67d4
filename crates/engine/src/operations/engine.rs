//! The store itself: one directory, attached by this process.

use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use sessile_core::{
    Budget, Capabilities, Cursor, Details, Durability, Error, ErrorKind, Expiry, Filter, Found,
    HeldLock, Key, Owner, OwnerChange, Page, Result, SessionsBound, SharedCounts, Stat, Store,
    Swept, Timestamp, Ttl, Verified, Waiting,
};

use super::lease::HeldEntry;
use super::maintenance::Maintenance;
use crate::{memory::*, storage::*, table::*};

/// What the engine can do in memory.
pub const CAPABILITIES: Capabilities = Capabilities {
    shared_by_processes: true,
    waiting: Waiting::Event,
    expiry: Expiry::Changes,
    value_bytes_max: PAYLOAD_BYTES_MAX,
    id_bytes_max: 256,
    sessions_bounded_by: SessionsBound::SharedMemory,
    listing: true,
    owners: true,
    ..Capabilities::MINIMAL
};

/// What the engine can do on a disk.
pub const CAPABILITIES_ON_DISK: Capabilities = Capabilities {
    persistent_from: Some(Durability::None),
    sessions_bounded_by: SessionsBound::Disk { inodes: false },
    durability: &[Durability::None, Durability::Second, Durability::Commit],
    ..CAPABILITIES
};

/// The store.
pub struct Engine {
    pub(crate) plane: Plane,
    directory: StoreDirectory,
    mark: ForkMark,
    finish_dead: FinishDead,
    first: Attachment,
    /// The file `format` says that sessions may have owners, as far as this process knows.
    admits_owners: AtomicBool,
}

/// In the word of the fork mark: a thread of this process is attaching it.
const ATTACHING: u64 = u64::MAX;

/// A process on the store. A forked child adds its own as `next`; each process uses the last one.
pub(crate) struct Attachment {
    writer: RecordWriter,
    maintenance: Mutex<Maintenance>,
    next: OnceLock<Box<Attachment>>,
}

impl Attachment {
    fn new(
        plane: &Plane,
        directory: &StoreDirectory,
        finish_dead: FinishDead,
    ) -> Result<Attachment> {
        let attached = directory.attach()?;
        let process =
            AttachedProcess::register(plane, directory.beacons(plane)?, attached, finish_dead)?;
        Ok(Attachment {
            writer: RecordWriter::new(process),
            maintenance: Mutex::default(),
            next: OnceLock::new(),
        })
    }
}

impl Deref for Attachment {
    type Target = RecordWriter;

    fn deref(&self) -> &RecordWriter {
        &self.writer
    }
}

impl Engine {
    pub(crate) fn new(
        plane: Plane,
        directory: StoreDirectory,
        finish_dead: FinishDead,
    ) -> Result<Engine> {
        let first = Attachment::new(&plane, &directory, finish_dead)?;
        let mark = ForkMark::new()?;
        mark.word().store(1, Release);
        let admits_owners = AtomicBool::new(false);
        Ok(Engine { plane, directory, mark, finish_dead, first, admits_owners })
    }

    #[cold]
    fn admit_owners(&self) -> Result<()> {
        if !self.admits_owners.load(Acquire) {
            Format::admit_owners(&self.directory.fd)?;
            self.admits_owners.store(true, Release);
        }
        Ok(())
    }

    /// A forked child gets a slot of its own at its first call.
    #[inline]
    pub(crate) fn me(&self) -> Result<&Attachment> {
        match self.mark.word().load(Acquire) {
            1 => Ok(&self.first),
            0 | ATTACHING => self.attach_child(),
            depth => Ok(self.attachment(depth)),
        }
    }

    fn attachment(&self, depth: u64) -> &Attachment {
        let mut last = &self.first;
        for _ in 1..depth {
            let Some(next) = last.next.get() else { break };
            last = next;
        }
        last
    }

    #[cold]
    fn attach_child(&self) -> Result<&Attachment> {
        let mark = self.mark.word();
        // Of several threads of a fresh child one attaches it.
        while let Err(depth) = mark.compare_exchange(0, ATTACHING, Acquire, Acquire) {
            if depth != ATTACHING {
                return Ok(self.attachment(depth));
            }
            std::thread::yield_now();
        }
        let child = Attachment::new(&self.plane, &self.directory, self.finish_dead)
            .inspect_err(|_| mark.store(0, Release))?;
        let (mut last, mut depth) = (&self.first, 2);
        while let Some(next) = last.next.get() {
            (last, depth) = (next, depth + 1);
        }
        let child = last.next.get_or_init(|| Box::new(child));
        mark.store(depth, Release);
        Ok(child)
    }

    /// Whether the store that this process has open is still there, before it is looked at.
    fn check_in_place(&self) -> Result<()> {
        self.me()?.check_attached(&self.plane, self.plane.now())
    }

    /// Makes a change, then takes a few steps of maintenance.
    fn change<T>(
        &self,
        change: impl FnOnce(&Plane, &Attachment, Timestamp) -> Result<T>,
    ) -> Result<T> {
        let (plane, me, now) = (&self.plane, self.me()?, self.plane.now());
        let changed = me.check_attached(plane, now).and_then(|()| change(plane, me, now));
        // Unless another thread is at it. A forked child has an attachment of its own.
        if let Ok(mut maintenance) = me.maintenance.try_lock() {
            if let Err(error) = maintenance.step(plane, me, now) {
                log::debug!("maintenance was put off: {error:#}");
            }
            drop(maintenance);
            me.appender.background_sync.sync_if_due(plane, me, now);
        }
        changed
    }
}

impl Drop for Engine {
    /// A forked child that never used the store is not in the table: its parent stays.
    fn drop(&mut self) {
        let depth = self.mark.word().load(Acquire);
        if depth > 0 {
            let me = self.attachment(depth);
            me.appender.leave_segments(&self.plane);
            me.leave_table(&self.plane);
        }
    }
}

impl Store for Engine {
    type Held = HeldEntry;

    fn capabilities(&self) -> Capabilities {
        if self.plane.log.is_some() { CAPABILITIES_ON_DISK } else { CAPABILITIES }
    }

    fn begin(&self, key: &Key, wait_max: Duration) -> Result<(HeldEntry, u64, Found)> {
        self.me()?.begin(&self.plane, key, wait_max)
    }

    fn peek(&self, key: &Key) -> Result<Found> {
        self.me()?.peek(&self.plane, key)
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        self.change(|plane, me, now| me.create(plane, key, payload, ttl, now))
    }

    fn commit(&self, held: HeldEntry, payload: &[u8], ttl: Ttl, owner: OwnerChange) -> Result<()> {
        if let OwnerChange::Set(Some(_)) = owner
            && let Err(error) = self.admit_owners()
        {
            self.release(held)?;
            return Err(error);
        }
        self.change(|plane, me, now| {
            me.commit(plane, &held, (payload, ttl), owner, now)?;
            me.count_commit(plane);
            Ok(())
        })
    }

    fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
        self.change(|plane, me, _| me.touch(plane, key, ttl))
    }

    fn touch_held(&self, held: &mut HeldEntry, ttl: Ttl) -> Result<()> {
        let me = self.me()?;
        me.check_attached(&self.plane, self.plane.now())?;
        me.touch_held(&self.plane, held, ttl)
    }

    fn release(&self, held: HeldEntry) -> Result<()> {
        self.change(|plane, me, _| me.release(plane, &held))
    }

    fn destroy(&self, key: &Key) -> Result<()> {
        self.change(|plane, me, _| me.destroy(plane, key))
    }

    fn destroy_owned(&self, key: &Key, owner: Owner) -> Result<bool> {
        self.change(|plane, me, _| me.destroy_owned(plane, key, owner))
    }

    fn regenerate(&self, held: &mut HeldEntry, new: &Key, grace: Duration) -> Result<()> {
        self.change(|plane, me, _| me.regenerate(plane, held, new, grace))
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        let me = self.me()?;
        let mut maintenance = me.maintenance.lock().unwrap_or_else(PoisonError::into_inner);
        maintenance.sweep(&self.plane, me, budget)
    }

    fn stat(&self) -> Result<Stat> {
        self.check_in_place()?;
        Ok(self.plane.stat())
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        self.check_in_place()?;
        match filter.owner {
            Some(owner) => self.plane.list_owned(owner, cursor, filter),
            None => self.plane.list(cursor, filter),
        }
    }

    fn details(&self) -> Result<Details> {
        self.check_in_place()?;
        Ok(self.me()?.details(&self.plane))
    }

    fn locks(&self, limit: usize) -> Result<Vec<HeldLock>> {
        self.check_in_place()?;
        Ok(self.plane.locks_held(limit))
    }

    fn shared_counts(&self) -> Option<SharedCounts> {
        Some(self.plane.shared_counts())
    }

    fn count_failed_save(&self) {
        self.plane.header(header::FAILED_SAVES).add(1);
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
        Ok(self.plane.verify(progress))
    }

    fn sync(&self) -> Result<()> {
        if self.plane.log.is_none() {
            let why = "the store is in memory, which nothing writes to a disk";
            return Err(Error::new(ErrorKind::Unsupported, why)
                .advice("use a directory on a disk for sessions that must survive a restart"));
        }
        self.check_in_place()?;
        self.me()?.sync_log(&self.plane)
    }

    fn stored_key(&self, key: &Key) -> Key {
        shown_key(key.bin().clone(), self.plane.digest_of(key)).unwrap_or_else(|_| key.clone())
    }
}
