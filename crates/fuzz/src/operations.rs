//! Sequences of operations on the engine, beside the store in a process's memory.

use std::sync::Mutex;
use std::time::Duration;

use arbitrary::Arbitrary;
use sessile_core::{Budget, Clock, Key, Lease, Sessions, Timestamp, Ttl};
use sessile_stores::{Context, open};

use crate::all_of;

const START: Timestamp = Timestamp::from_ms(1_800_000_000_000);
const OPERATIONS_MAX: usize = 60;

#[derive(Arbitrary, Debug)]
enum Operation {
    Begin(u8),
    Commit { key: u8, bytes: u16, ttl_s: u8 },
    Release(u8),
    Regenerate { key: u8, new: u8, grace_s: u8 },
    Create { key: u8, bytes: u16, ttl_s: u8 },
    Touch { key: u8, ttl_s: u8 },
    Destroy(u8),
    Advance(u8),
    Sweep,
}

struct Side {
    sessions: Sessions,
    leases: Vec<(u8, Lease)>,
    /// The sequences before this one had keys of their own.
    sequence: u64,
}

struct Sides {
    engine: Side,
    model: Side,
    clock: Clock,
    _folder: tempfile::TempDir,
}

impl Sides {
    fn new() -> Sides {
        let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let clock = Clock::manual(START);
        let side = |url: &str| Side {
            sessions: open(url, &Context { clock: clock.clone() }).unwrap(),
            leases: Vec::new(),
            sequence: 0,
        };
        let engine = side(&format!("sessile:{}", folder.path().join("store").display()));
        Sides { engine, model: side("memory:"), clock, _folder: folder }
    }
}

fn ttl(seconds: u8) -> Ttl {
    Ttl::sliding(Duration::from_secs(u64::from(seconds % 8) + 1)).unwrap()
}

fn payload(bytes: u16) -> Vec<u8> {
    (0..bytes).map(|at| (at ^ bytes) as u8).collect()
}

impl Side {
    fn key(&self, number: u8) -> Key {
        Key::session(&format!("session-{}-{}", self.sequence, number % 4)).unwrap()
    }

    fn begin_sequence(&mut self) {
        self.leases.clear();
        (0..4).for_each(|number| self.sessions.destroy(&self.key(number)).unwrap());
        self.sequence += 1;
    }

    fn lease(&mut self, key: u8) -> Option<Lease> {
        let at = self.leases.iter().position(|(of, _)| of % 4 == key % 4)?;
        Some(self.leases.swap_remove(at).1)
    }

    /// What a caller sees of an operation.
    fn carry_out(&mut self, operation: &Operation) -> String {
        let told = |done: sessile_core::Result<()>| match done {
            Ok(()) => "done".to_owned(),
            Err(error) => error.kind().code().to_owned(),
        };
        match *operation {
            Operation::Begin(number) => {
                match self.sessions.begin(&self.key(number), Duration::ZERO) {
                    Ok(begun) => {
                        let seen = begun.record.map(|record| record.payload);
                        self.leases.push((number, begun.lease));
                        format!("{seen:?}")
                    }
                    Err(error) => error.kind().code().to_owned(),
                }
            }
            Operation::Commit { key, bytes, ttl_s } => match self.lease(key) {
                Some(lease) => told(lease.commit(&payload(bytes), ttl(ttl_s))),
                None => String::new(),
            },
            Operation::Release(key) => {
                self.lease(key).map_or(String::new(), |lease| told(lease.release()))
            }
            Operation::Regenerate { key: from, new, grace_s } => {
                let Some(mut lease) = self.lease(from) else { return String::new() };
                let grace = Duration::from_secs(u64::from(grace_s % 4));
                let outcome = told(lease.regenerate(&self.key(new), grace));
                let now = if outcome == "done" { new } else { from };
                self.leases.push((now, lease));
                outcome
            }
            Operation::Create { key: number, bytes, ttl_s } => {
                told(self.sessions.create(&self.key(number), &payload(bytes), ttl(ttl_s)))
            }
            Operation::Touch { key: number, ttl_s } => {
                told(self.sessions.touch(&self.key(number), ttl(ttl_s)))
            }
            Operation::Destroy(number) => told(self.sessions.destroy(&self.key(number))),
            Operation::Advance(_) => String::new(),
            Operation::Sweep => {
                let budget = Budget { records_max: 100, time_max: Duration::from_secs(1) };
                told(self.sessions.sweep(budget).map(drop))
            }
        }
    }

    fn state(&self) -> Vec<Option<Vec<u8>>> {
        let seen =
            |number| self.sessions.peek(&self.key(number)).unwrap().map(|record| record.payload);
        (0..4).map(seen).collect()
    }
}

/// A sequence of operations of one process, with its clock. Both stores tell the same.
pub fn operations(data: &[u8]) {
    static SIDES: Mutex<Option<Sides>> = Mutex::new(None);
    let operations = all_of(data, OPERATIONS_MAX);
    let mut sides = SIDES.lock().unwrap();
    let Sides { engine, model, clock, .. } = sides.get_or_insert_with(Sides::new);
    for operation in &operations {
        if let Operation::Advance(steps) = operation {
            clock.advance(Duration::from_millis(u64::from(*steps) * 50));
        }
        let (found, expected) = (engine.carry_out(operation), model.carry_out(operation));
        assert_eq!(found, expected, "{operation:?} of {operations:?}");
        assert_eq!(engine.state(), model.state(), "after {operation:?} of {operations:?}");
    }
    let verified = engine.sessions.verify(&mut |_| ()).unwrap();
    assert!(verified.problems.is_empty(), "{:?}", verified.problems);
    engine.begin_sequence();
    model.begin_sequence();
}
