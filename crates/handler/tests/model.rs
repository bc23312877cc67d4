//! Random requests of several visitors on one store, against a model that has no state machine.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::HashMap;
use std::time::Duration;

use sessile_core::{Clock, ErrorKind, Sessions};
use sessile_handler::{Access, Closed, Request, Rules, Save, Saved};
use sessile_stores::Context;

const IDS: usize = 6;
const REQUESTS: usize = 3;

fn process() -> u32 {
    1
}

/// What the store should hold, and what each request should know.
#[derive(Default)]
struct Model {
    records: HashMap<usize, String>,
    /// By old id: the new one, and the payload before.
    replaced: HashMap<usize, (usize, Option<String>)>,
    requests: [Option<Opened>; REQUESTS],
}

#[derive(Clone)]
struct Opened {
    id: usize,
    read: String,
    hold: Hold,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Hold {
    Locked {
        stored: bool,
    },
    /// Another request has logged out.
    Void,
    Unlocked,
    Late,
}

impl Model {
    /// The session that an id leads to.
    fn leads_to(&self, id: usize) -> usize {
        self.replaced.get(&id).map_or(id, |(new, _)| self.leads_to(*new))
    }

    fn is_held(&self, id: usize, but: usize) -> bool {
        self.requests.iter().enumerate().any(|(number, request)| {
            number != but
                && request.as_ref().is_some_and(|request| {
                    request.id == id && matches!(request.hold, Hold::Locked { .. })
                })
        })
    }

    /// None: the lock is not free.
    fn open(&self, by: usize, id: usize, access: Access) -> Option<Opened> {
        let end = self.leads_to(id);
        if access == Access::Locked && self.is_held(end, by) {
            return None;
        }
        let record = self.records.get(&end).cloned();
        let (read, hold) = match self.replaced.get(&id) {
            Some((_, before)) => (record.and(before.clone()).unwrap_or_default(), Hold::Late),
            None if access == Access::Unlocked => (record.unwrap_or_default(), Hold::Unlocked),
            None => {
                let stored = record.is_some();
                (record.unwrap_or_default(), Hold::Locked { stored })
            }
        };
        Some(Opened { id, read, hold })
    }

    fn destroy(&mut self, id: usize) {
        let end = self.leads_to(id);
        self.records.remove(&end);
        // The ids on the way are destroyed as well; others still lead here, and show nothing.
        let mut at = id;
        while let Some((new, _)) = self.replaced.remove(&at) {
            at = new;
        }
        for request in self.requests.iter_mut().flatten() {
            if request.id == end && matches!(request.hold, Hold::Locked { .. }) {
                request.hold = Hold::Void;
            }
        }
    }
}

fn id_of(generation: u64, number: usize) -> String {
    format!("{generation}-{number}")
}

#[allow(clippy::too_many_lines, reason = "one arm for each call")]
fn run(random: &mut fastrand::Rng, sessions: &Sessions, generation: u64, steps: usize) {
    let rules = Rules { lock_wait: Duration::ZERO, ..Rules::default() };
    let mut model = Model::default();
    let mut requests: Vec<Request> =
        (0..REQUESTS).map(|_| Request::new(Clock::system(), process, rules)).collect();
    for step in 0..steps {
        let by = random.usize(..REQUESTS);
        let request = &mut requests[by];
        let number = random.usize(..IDS);
        let id = id_of(generation, number);
        match random.u8(..12) {
            0..4 => {
                let access = if random.u8(..4) == 0 { Access::Unlocked } else { Access::Locked };
                // Opening another session gives the lock of the present one back.
                if random.bool() {
                    request.reset();
                }
                model.requests[by] = None;
                let expected = model.open(by, number, access);
                match (request.open(sessions, &id, access), &expected) {
                    (Ok(opened), Some(expected)) => {
                        let read = String::from_utf8_lossy(opened.payload);
                        assert_eq!(read, expected.read, "step {step}: {:?}", expected.hold);
                    }
                    (Err(error), None) => {
                        let timeout = matches!(error.kind(), ErrorKind::LockTimeout { .. });
                        assert!(timeout, "step {step}: {error:?}");
                    }
                    (opened, expected) => {
                        panic!("step {step}: {opened:?}, wanted {}", expected.is_some())
                    }
                }
                request.loaded();
                model.requests[by] = expected;
            }
            4..8 => {
                let Some(opened) = model.requests[by].clone() else { continue };
                let changed = random.bool();
                let payload =
                    if changed { format!("{generation}/{step}") } else { opened.read.clone() };
                let empty = !changed && random.bool();
                let save =
                    Save { payload: Some(payload.as_bytes()), changed, empty, headers_open: true };
                let saved = request.save(sessions, &id_of(generation, opened.id), save);
                let known = format!("step {step}: {:?}: {saved:?}", opened.hold);
                match opened.hold {
                    Hold::Locked { stored: false } if empty => {
                        assert!(matches!(saved, Ok(Saved::Nothing)), "{known}");
                    }
                    Hold::Locked { stored: true } if !changed => {
                        assert!(matches!(saved, Ok(Saved::Touched)), "{known}");
                    }
                    Hold::Locked { .. } => {
                        assert!(matches!(saved, Ok(Saved::Stored)), "{known}");
                        model.records.insert(opened.id, payload);
                        model.requests[by] = None;
                    }
                    // Whatever is told, nothing may be stored; the next open checks that.
                    Hold::Void => {
                        assert!(!matches!(saved, Ok(Saved::Stored | Saved::Touched)), "{known}");
                        request.reset();
                        model.requests[by] = None;
                    }
                    Hold::Unlocked => assert_eq!(saved.is_ok(), payload == opened.read, "{known}"),
                    Hold::Late => {
                        let nothing = matches!(saved, Ok(Saved::Nothing));
                        assert_eq!(nothing, payload == opened.read, "{known}");
                        assert!(
                            matches!(saved, Ok(Saved::Nothing | Saved::Replaced(_))),
                            "{known}"
                        );
                    }
                }
            }
            8 => {
                let Some(opened) = model.requests[by].clone() else { continue };
                let keeps = random.bool();
                let old = id_of(generation, opened.id);
                let left = request.leave_id(sessions, &old, keeps);
                let Ok(true) = left else {
                    let only_reads = matches!(opened.hold, Hold::Unlocked | Hold::Late);
                    assert!(only_reads, "step {step}: {left:?}");
                    continue;
                };
                // Ids that were never used and are not replaced: new ones.
                let free = model.leads_to(number) == number
                    && !model.records.contains_key(&number)
                    && !model.is_held(number, by)
                    && !model.replaced.values().any(|(new, _)| *new == number)
                    && number != opened.id;
                if !free {
                    request.reset();
                    model.requests[by] = None;
                    continue;
                }
                let moved = request.open(sessions, &id, Access::Locked).map(drop);
                match (opened.hold, moved) {
                    (Hold::Locked { stored }, Ok(())) => {
                        if let Some(record) = model.records.remove(&opened.id) {
                            model.records.insert(number, record);
                        }
                        if stored && keeps {
                            model.replaced.insert(opened.id, (number, Some(opened.read.clone())));
                        }
                        model.requests[by] = Some(Opened { id: number, ..opened });
                    }
                    (Hold::Void, Err(_)) => {
                        model.requests[by] = None;
                    }
                    (hold, moved) => panic!("step {step}: {hold:?}: {moved:?}"),
                }
                request.loaded();
            }
            9 => {
                request.destroy(sessions, &id).unwrap();
                let opened = model.requests[by].as_ref();
                if opened.is_some_and(|it| it.id == number && it.hold == Hold::Late) {
                    model.replaced.entry(number).and_modify(|(_, before)| *before = None);
                } else {
                    model.destroy(number);
                }
                if model.requests[by].as_ref().is_some_and(|opened| opened.id == number) {
                    model.requests[by] = None;
                }
            }
            _ => {
                assert_eq!(request.close(sessions, true), Closed::Done);
                model.requests[by] = None;
            }
        }
    }
}

#[test]
fn any_order_of_requests_does_what_the_model_does() {
    let sessions = sessile_stores::open("memory:", &Context::default()).unwrap();
    let seed = std::env::var("SEED").map_or_else(|_| fastrand::u64(..), |it| it.parse().unwrap());
    println!("SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for generation in 0..2_000 {
        run(&mut random, &sessions, generation, 60);
    }
}
