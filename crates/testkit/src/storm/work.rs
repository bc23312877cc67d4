//! What a process of the storm does until it is killed: random operations on sessions that others want too.
//!
//! Sessions come in three pools. *Lasting* ones live for an hour: whatever is missing there is lost.
//! *Short* ones expire while the storm runs. *Wandering* ones get new ids. The first few of each are wanted by
//! everybody. A process knows nothing of what others did; it only reports.

use std::io::Write;
use std::time::Duration;

use fastrand::Rng;
use sessile_core::{Clock, Result};

use super::actor::{Actor, Held};
use super::event::Event;
use super::payload::{BYTES_MIN, Content};
use crate::opener;

const HOUR_MS: u64 = 3_600_000;
const BYTES_MAX: usize = 200_000;
const SHORT: u64 = 1 << 20;
const WANDERING: u64 = 1 << 21;
/// Ids that only one process knows at first.
pub const ONE_OFF: u64 = 1 << 62;
/// Most writes of one run.
pub const RUN_MAX: u64 = 1 << 20;
/// So long does a run take: a stop or a kill within it hits the store at work, not a process that waits.
const RUN: Duration = Duration::from_millis(3);

/// How many sessions of each pool there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pools {
    pub lasting: u64,
    pub short: u64,
    pub wandering: u64,
}

impl Default for Pools {
    fn default() -> Pools {
        Pools { lasting: 24, short: 8, wandering: 8 }
    }
}

impl Pools {
    /// A session, rather one that others want too.
    fn choose(&self, random: &mut Rng) -> u64 {
        let (base, count) = match random.u8(0..10) {
            0..6 => (0, self.lasting),
            6..8 => (SHORT, self.short),
            _ => (WANDERING, self.wandering),
        };
        let among = if random.u8(0..3) == 0 { count.min(3) } else { count };
        base + random.u64(0..among.max(1))
    }
}

/// What a process is told at its start.
#[derive(Clone, Debug)]
pub struct Orders {
    pub url: String,
    pub nonce: u64,
    /// Unique among all processes of the run: part of every token.
    pub incarnation: u64,
    pub seed: u64,
    pub pools: Pools,
}

/// Works until killed. Returns when the store cannot be opened or nobody listens any more.
pub fn work(orders: &Orders) -> Result<()> {
    let store = opener::open(&orders.url, Clock::system())?;
    let actor = Actor::new(store, orders.nonce, Box::new(tell));
    let mut life =
        Life { actor, random: Rng::with_seed(orders.seed), pools: orders.pools, orders, tokens: 0, left: None };
    loop {
        life.step();
    }
}

/// One `write` a line. A process that nobody hears ends: what it did could not be checked.
fn tell(at_ns: u64, event: Event) {
    let mut out = std::io::stdout().lock();
    if out.write_all(event.line(at_ns).as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

struct Life<'a> {
    actor: Actor,
    random: Rng,
    pools: Pools,
    orders: &'a Orders,
    tokens: u64,
    /// The last write to the session of its own.
    left: Option<u64>,
}

impl Life<'_> {
    fn step(&mut self) {
        let id = self.pools.choose(&mut self.random);
        match self.random.u8(0..100) {
            0..55 => self.request(id),
            55..73 => self.actor.peek(id),
            73..83 => {
                let ttl_ms = self.ttl_ms(id);
                self.actor.touch(id, ttl_ms);
            }
            83..88 => self.actor.destroy(id),
            88..94 => self.run(),
            _ => {
                let (token, bytes, ttl_ms) = (self.token(), self.bytes(), self.ttl_ms(id));
                self.actor.create(id, token, bytes, ttl_ms);
            }
        }
        self.pause(1_000);
    }

    /// What a web request does.
    fn request(&mut self, id: u64) {
        let Some(held) = self.actor.begin(id) else { return };
        if self.random.bool() {
            self.pause(3_000);
        }
        if held.id == id && id >= WANDERING && self.random.u8(0..8) == 0 {
            return self.wander(held);
        }
        match self.random.u8(0..10) {
            0 => self.actor.release(held, true),
            1 => self.actor.release(held, false),
            2 if matches!(held.content, Content::Missing) => self.actor.release(held, false),
            3 if self.random.bool() => {
                // A longer request, so that others queue.
                self.pause(8_000);
                self.commit(held);
            }
            _ => self.commit(held),
        }
    }

    /// A log-in: a new id, and then usually a log-out, so that one-off sessions do not pile up.
    fn wander(&mut self, mut held: Held) {
        let new = ONE_OFF | self.token();
        let grace_ms = if self.random.bool() { 0 } else { self.random.u64(1..60) };
        if !self.actor.regenerate(&mut held, new, grace_ms) {
            return self.actor.release(held, false);
        }
        self.commit(held);
        self.actor.peek(new);
        if self.random.u8(0..20) != 0 {
            self.actor.destroy(new);
        }
    }

    /// As fast as it can, on a session that nobody else knows.
    fn run(&mut self) {
        let (own, first) = (ONE_OFF | self.orders.incarnation << 32, self.token());
        let last = self.actor.run(own, first..=first + RUN_MAX, self.left, RUN);
        self.tokens += last.map_or(RUN_MAX, |last| last - first);
        self.left = last;
    }

    fn commit(&mut self, held: Held) {
        let empty = self.random.u8(0..50) == 0;
        let token = (!empty).then(|| self.token());
        let (bytes, ttl_ms) = (self.bytes(), self.ttl_ms(held.id));
        self.actor.commit(held, token, bytes, ttl_ms);
    }

    fn token(&mut self) -> u64 {
        self.tokens += 1;
        (self.orders.incarnation << 32) | self.tokens
    }

    /// Mostly small; sometimes too large for one page, one segment, one pipe.
    fn bytes(&mut self) -> usize {
        match self.random.u8(0..20) {
            0..14 => self.random.usize(BYTES_MIN..3_000),
            14..19 => self.random.usize(3_000..20_000),
            _ => self.random.usize(20_000..BYTES_MAX),
        }
    }

    fn ttl_ms(&mut self, id: u64) -> u64 {
        if (SHORT..WANDERING).contains(&id) { self.random.u64(30..200) } else { HOUR_MS }
    }

    fn pause(&mut self, most_us: u64) {
        std::thread::sleep(Duration::from_micros(self.random.u64(0..most_us)));
    }
}
