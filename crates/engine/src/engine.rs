//! The store itself: one directory in shared memory, attached by this process.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sessile_core::{
    Budget, Capabilities, Cursor, Detail, Durability, Error, ErrorKind, Expiry, Filter, Found, Key, Limits, Locked,
    Locking, Ownership, Page, Result, SessionsBound, Stat, Store, Swept, Timestamp, Ttl, Verified, Waiting,
};

use crate::directory::Directory;
use crate::flush;
use crate::maintenance::Maintenance;
use crate::map::ForkMark;
use crate::plane::{Digest, Plane};
use crate::process::{Process, this_run};
use crate::record::PAYLOAD_BYTES_MAX;
use crate::session::{Held, hex};

/// What the hash of digests takes at once.
const DIGEST_BLOCK: usize = 64;

/// What the engine can do.
pub const CAPABILITIES: Capabilities = Capabilities {
    persistent_from: None,
    shared_by_processes: true,
    shared_by_hosts: false,
    server: None,
    locking: Locking::Native,
    waiting: Waiting::Event,
    ownership: Ownership::Process,
    expiry: Expiry::Changes,
    value_bytes_max: PAYLOAD_BYTES_MAX,
    id_bytes_max: 256,
    sessions_bounded_by: SessionsBound::SharedMemory,
    compare_and_set: true,
    listing: true,
    durability: &[Durability::None],
};

/// The same on a disk.
pub const CAPABILITIES_ON_DISK: Capabilities = Capabilities {
    persistent_from: Some(Durability::None),
    sessions_bounded_by: SessionsBound::Disk { inodes: false },
    durability: &[Durability::None, Durability::Second],
    ..CAPABILITIES
};

/// The store.
pub struct Engine {
    pub(crate) plane: Plane,
    directory: Directory,
    mark: ForkMark,
    first: Incarnation,
}

/// This process, and after a fork its child, and so on: each only ever uses the last one.
struct Incarnation {
    process: Process,
    run: (u32, u64),
    next: OnceLock<Box<Incarnation>>,
}

impl Engine {
    /// Puts an attached plane into service.
    pub(crate) fn new(plane: Plane, directory: Directory) -> Result<Engine> {
        let attached = directory.attach()?;
        let process = Process::register(&plane, directory.beacons(&plane)?, attached)?;
        let mark = ForkMark::new()?;
        mark.word().store(1, Ordering::Release);
        Ok(Engine { plane, directory, mark, first: Incarnation { process, run: this_run(), next: OnceLock::new() } })
    }

    /// This process in the table of processes. A forked child gets a slot of its own at its first call.
    #[inline]
    pub(crate) fn me(&self) -> Result<&Process> {
        match self.mark.word().load(Ordering::Acquire) {
            1 => Ok(&self.first.process),
            0 => self.register_child(),
            depth => Ok(self.incarnation(depth)),
        }
    }

    fn incarnation(&self, depth: u64) -> &Process {
        let mut last = &self.first;
        for _ in 1..depth {
            let Some(next) = last.next.get() else { break };
            last = next;
        }
        &last.process
    }

    #[cold]
    fn register_child(&self) -> Result<&Process> {
        let run = this_run();
        let (mut last, mut depth) = (&self.first, 1);
        // Two threads of a fresh child may both come here: whoever comes second finds what the first has made.
        while last.run != run {
            if last.next.get().is_none() {
                let attached: OwnedFd = self.directory.attach()?;
                let process = Process::register(&self.plane, self.directory.beacons(&self.plane)?, attached)?;
                let _ = last.next.set(Box::new(Incarnation { process, run, next: OnceLock::new() }));
            }
            let Some(next) = last.next.get() else { break };
            (last, depth) = (next, depth + 1);
        }
        self.mark.word().store(depth, Ordering::Release);
        Ok(&last.process)
    }

    /// The keyed digest of a key. Its first half spreads over the index.
    pub(crate) fn digest(&self, key: &Key) -> Digest {
        // Most keys fit into the first; the second has room for the longest bin and id, so nothing is left out of any.
        let (mut short, mut long);
        let bytes: &mut [u8] = if key.bin().name().len() + 1 + key.id().len() <= DIGEST_BLOCK {
            short = [0; DIGEST_BLOCK];
            &mut short
        } else {
            long = [0; Limits::BIN_BYTES_MAX + 1 + Limits::ID_BYTES_MAX];
            &mut long
        };
        let (bin, id) = (key.bin().name().as_bytes(), key.id().as_bytes());
        let length = bin.len() + 1 + id.len();
        if let Some((to, rest)) = bytes.split_at_mut_checked(bin.len())
            && let Some(to_id) = rest.get_mut(1..=id.len())
        {
            to.copy_from_slice(bin);
            to_id.copy_from_slice(id);
        }
        let hash = blake3::keyed_hash(&self.plane.secret, bytes.get(..length).unwrap_or(bytes));
        let (words, _) = hash.as_bytes().as_chunks::<8>();
        let word = |at: usize| words.get(at).map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Digest(word(0), word(1))
    }

    /// A few steps of what keeps the store small, after a call that has changed something.
    fn maintain(&self, now: Timestamp) {
        if let Ok(me) = self.me() {
            Maintenance::step(&self.plane, me, now);
        }
    }
}

impl Drop for Engine {
    /// Leaves the table of processes. A forked child that never used the store is not in it, and its parent stays.
    fn drop(&mut self) {
        let depth = self.mark.word().load(Ordering::Acquire);
        if depth > 0 {
            self.incarnation(depth).leave(&self.plane);
        }
    }
}

impl Store for Engine {
    type Held = Held;

    fn capabilities(&self) -> Capabilities {
        if self.plane.log.is_some() { CAPABILITIES_ON_DISK } else { CAPABILITIES }
    }

    fn begin(&self, key: &Key, wait_max: Duration) -> Result<Locked<Held>> {
        self.begin_session(key, wait_max)
    }

    fn fence(&self, held: &Held) -> u64 {
        held.fence
    }

    fn peek(&self, key: &Key) -> Result<Found> {
        self.peek_session(key)
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        let now = self.plane.now();
        let created = self.create_session(key, payload, ttl, now);
        self.maintain(now);
        created
    }

    fn commit(&self, held: Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        let now = self.plane.now();
        let committed = self.commit_session(&held, payload, ttl, now);
        self.maintain(now);
        committed
    }

    fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
        let touched = self.touch_session(key, ttl);
        self.maintain(self.plane.now());
        touched
    }

    fn touch_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        self.touch_held_session(held, ttl)
    }

    fn release(&self, held: Held) -> Result<()> {
        let released = self.release_session(&held);
        self.maintain(self.plane.now());
        released
    }

    fn destroy(&self, key: &Key) -> Result<()> {
        let destroyed = self.destroy_session(key);
        self.maintain(self.plane.now());
        destroyed
    }

    fn regenerate(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        let regenerated = self.regenerate_session(held, new, grace);
        self.maintain(self.plane.now());
        regenerated
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        Maintenance::sweep(&self.plane, self.me()?, budget, Instant::now())
    }

    fn stat(&self) -> Result<Stat> {
        self.count()
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        self.list_page(cursor, filter)
    }

    fn details(&self) -> Result<Vec<Detail>> {
        self.inspect()
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
        self.check_all(progress)
    }

    fn sync(&self) -> Result<()> {
        if self.plane.log.is_none() {
            return Err(Error::new(ErrorKind::Unsupported, "the store is in memory, which nothing writes to a disk")
                .advice("use a directory on a disk for sessions that must survive a restart"));
        }
        flush::sync(&self.plane, self.me()?)
    }

    fn stored_key(&self, key: &Key) -> Key {
        Key::in_bin(key.bin().clone(), &hex(self.digest(key))).unwrap_or_else(|_| key.clone())
    }
}
