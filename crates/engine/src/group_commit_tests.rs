//! Tests of the durability tier `commit`: what was acknowledged survives a power cut at any moment,
//! those who wait share a sync, and a leader that stands still stops nobody.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use sessile_core::{Clock, ErrorKind, OwnerChange, Result, Store, Ttl};

use crate::power_tests::{START, key, opened_on, rebuilt, recorded, remove_control, ttl, value};
use crate::tests::disk::Disk;
use crate::{Engine, SyncMode};

struct Site {
    engine: Engine,
    disk: Arc<Mutex<Disk>>,
    clock: Clock,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Site {
        let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
        let (path, clock) = (folder.path().join("store"), Clock::manual(START));
        let (mut engine, disk) = recorded(&path, &clock);
        engine.plane.log.as_mut().unwrap().sync = SyncMode::EachChange;
        Site { engine, disk, clock, path, _folder: folder }
    }

    /// The store as another process has it.
    fn another(&self) -> Engine {
        let mut engine = opened_on(&self.disk, &self.path, &self.clock);
        engine.plane.log.as_mut().unwrap().sync = SyncMode::EachChange;
        engine
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap()
    }

    /// What a power cut in this moment leaves.
    fn after_cut<T>(&self, random: &mut fastrand::Rng, look: impl FnOnce(&Engine) -> T) -> T {
        let image = self.disk().cut(random);
        let (copy, engine) = rebuilt(&self.path, &image, &self.clock);
        let seen = look(&engine);
        drop(engine);
        remove_control(copy.path());
        seen
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        remove_control(&self.path);
    }
}

fn commit(engine: &Engine, number: usize, payload: &[u8]) -> Result<()> {
    let (held, ..) = engine.begin(&key(number), Duration::from_secs(60))?;
    engine.commit(held, payload, ttl(), OwnerChange::Keep)
}

/// The payloads that a session may have.
type Sessions = HashMap<usize, Vec<Option<Vec<u8>>>>;

/// One acknowledged or refused change of a session.
fn change(engine: &Engine, random: &mut fastrand::Rng, sessions: &mut Sessions, fresh: usize) {
    let number = random.usize(0..20);
    let now = value(engine, number);
    let bytes = if random.u8(0..30) == 0 { 150_000 } else { random.usize(1..5_000) };
    let payload = vec![random.u8(..); bytes];
    let (done, after) = match random.u8(0..10) {
        0 => (engine.destroy(&key(number)), None),
        1 if now.is_none() => (engine.create(&key(number), &payload, ttl()), Some(payload)),
        // A log-out that was refused before is done now, or refused once more.
        2 if now.is_some() => match engine.begin(&key(number), Duration::ZERO) {
            Err(error) => (Err(error), None),
            Ok((mut held, _, found)) => {
                let now = found.record.map(|record| record.payload);
                let done = engine.regenerate(&mut held, &key(fresh), Duration::ZERO);
                engine.release(held).unwrap();
                let copies = if done.is_ok() { vec![now.clone()] } else { vec![None, now.clone()] };
                sessions.insert(fresh, copies);
                (done, None)
            }
        },
        _ => (commit(engine, number, &payload), Some(payload)),
    };
    let may_be = match done {
        // A log-out without a session writes nothing: what was refused before may be on the disk
        // (DESIGN.md, "Known weaknesses").
        Ok(()) if now.is_none() && after.is_none() => {
            let mut may_be = sessions.remove(&number).unwrap_or_default();
            may_be.push(None);
            may_be
        }
        Ok(()) => vec![after],
        Err(error) => {
            assert_eq!(*error.kind(), ErrorKind::Io, "{error:#}");
            assert_eq!(value(engine, number), now, "a refused change was made");
            // Until the next change that is made, an earlier refused one may count as well.
            let mut may_be = sessions.remove(&number).unwrap_or_else(|| vec![None]);
            may_be.push(after);
            may_be
        }
    };
    sessions.insert(number, may_be);
}

#[test]
fn what_was_acknowledged_survives_a_power_cut_at_any_moment() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..3 {
        let site = Site::new();
        let mut sessions = Sessions::new();
        for step in 0..400 {
            site.disk().fails = (random.u8(0..20) == 0).then(|| random.u8(0..=100));
            change(&site.engine, &mut random, &mut sessions, 100 + step);
            if random.u8(0..10) > 0 {
                continue;
            }
            site.after_cut(&mut random, |after| {
                for (number, may_be) in &sessions {
                    let found = value(after, *number);
                    assert!(may_be.contains(&found), "seed {seed}: session {number}");
                }
            });
        }
    }
}

#[test]
fn an_expiry_that_was_moved_back_stays_so_after_a_power_cut() {
    let site = Site::new();
    site.engine.create(&key(1), b"payload", ttl()).unwrap();
    site.engine.touch(&key(1), Ttl::sliding(Duration::from_secs(60)).unwrap()).unwrap();
    let image = site.disk().synced.clone();
    let later = Clock::manual(START.plus(Duration::from_secs(120)));
    let (copy, engine) = rebuilt(&site.path, &image, &later);
    assert_eq!(value(&engine, 1), None);
    drop(engine);
    remove_control(copy.path());
}

#[test]
fn a_log_out_that_was_refused_does_not_take_the_next_commit_along() {
    let site = Site::new();
    commit(&site.engine, 1, b"one").unwrap();
    site.disk().fails = Some(100);
    assert_eq!(*site.engine.destroy(&key(1)).unwrap_err().kind(), ErrorKind::Io);
    site.disk().fails = Some(0);
    site.engine.sync().unwrap_err();
    commit(&site.engine, 1, b"two").unwrap();
    let found = site.after_cut(&mut fastrand::Rng::new(), |after| value(after, 1));
    assert_eq!(found.as_deref(), Some(&b"two"[..]));
}

/// Each thread counts in its own session; returns the counts that were acknowledged.
fn count_up<const N: usize>(site: &Site, times: u64, meanwhile: impl Fn(&[AtomicU64; N])) {
    let counts = [const { AtomicU64::new(0) }; N];
    std::thread::scope(|scope| {
        for (number, count) in counts.iter().enumerate() {
            scope.spawn(move || {
                let engine = site.another();
                for next in 1..=times {
                    commit(&engine, number, &next.to_le_bytes()).unwrap();
                    count.store(next, SeqCst);
                }
            });
        }
        meanwhile(&counts);
    });
}

fn counted(engine: &Engine, number: usize) -> u64 {
    value(engine, number)
        .map_or(0, |payload| u64::from_le_bytes(payload.as_slice().try_into().unwrap()))
}

#[test]
fn those_who_share_a_sync_lose_nothing_either() {
    let site = Site::new();
    site.disk().delays = vec![Duration::from_micros(500); 2_000];
    count_up::<4>(&site, 200, |counts| {
        for _ in 0..12 {
            let acknowledged = counts.each_ref().map(|count| count.load(SeqCst));
            site.after_cut(&mut fastrand::Rng::new(), |after| {
                for (number, least) in acknowledged.into_iter().enumerate() {
                    assert!(counted(after, number) >= least, "an acknowledged commit is lost");
                }
            });
        }
    });
}

#[test]
fn four_who_wait_share_their_syncs() {
    let site = Site::new();
    site.disk().delays = vec![Duration::from_millis(5); 200];
    count_up::<4>(&site, 25, |_| ());
    let syncs = site.disk().syncs;
    assert!((25..=75).contains(&syncs), "100 commits took {syncs} syncs");
}

#[test]
fn a_leader_that_stands_still_is_replaced() {
    let site = Site::new();
    let still = Duration::from_secs(3);
    site.disk().delays = vec![still];
    let other = site.another();
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| commit(&site.engine, 0, b"of the one that stands still").unwrap());
        while !site.disk().delays.is_empty() {
            assert!(start.elapsed() < still, "a commit does not wait for a sync");
        }
        commit(&other, 1, b"of another one").unwrap();
        assert!(start.elapsed() < still / 2, "{:?}", start.elapsed());
    });
    assert!(value(&site.engine, 0).is_some() && start.elapsed() >= still);
}
