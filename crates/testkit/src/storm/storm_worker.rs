//! What a process of the storm does until it is killed: random operations on sessions that others
//! want too.
//!
//! Sessions come in three pools. *Lasting* ones live for an hour: whatever is missing there is
//! lost. *Short* ones expire during the storm. *Wandering* ones get new ids. All processes want the
//! first few of each.

use std::time::Duration;

use fastrand::Rng;

use super::client::{HOUR_MS, HeldLock, ReportingClient};
use super::event::SeenPayload;
use crate::sealed::BYTES_MIN;

const BYTES_MAX: usize = 200_000;
const LASTING: (u64, u64) = (0, 24);
const SHORT: (u64, u64) = (1 << 20, 8);
const WANDERING: (u64, u64) = (1 << 21, 8);
pub const ONE_OFF: u64 = 1 << 62;
pub const RUN_MAX: u64 = 1 << 20;
/// Within a run a stop or a kill hits the store at work, not a process that waits.
const RUN: Duration = Duration::from_millis(3);

pub struct StormWorker {
    client: ReportingClient,
    random: Rng,
    worker: u64,
    tokens: u64,
    left: Option<u64>,
}

impl StormWorker {
    pub fn new(client: ReportingClient, worker: u64, seed: u64) -> StormWorker {
        StormWorker { client, random: Rng::with_seed(seed), worker, tokens: 0, left: None }
    }

    pub fn step(&mut self) {
        let id = self.choose_session();
        match self.random.u8(0..100) {
            0..55 => self.request(id),
            55..73 => self.client.peek(id),
            73..83 => {
                let ttl_ms = self.ttl_ms(id);
                self.client.touch(id, ttl_ms);
            }
            83..88 => self.client.destroy(id),
            88..94 => self.run(),
            _ => {
                let (token, bytes, ttl_ms) = (self.token(), self.bytes(), self.ttl_ms(id));
                self.client.create(id, token, bytes, ttl_ms);
            }
        }
        self.pause(1_000);
    }

    fn choose_session(&mut self) -> u64 {
        let (first, count) = match self.random.u8(0..10) {
            0..6 => LASTING,
            6..8 => SHORT,
            _ => WANDERING,
        };
        let among = if self.random.u8(0..3) == 0 { 3 } else { count };
        first + self.random.u64(0..among)
    }

    fn request(&mut self, id: u64) {
        let Some(held) = self.client.begin(id) else { return };
        if self.random.bool() {
            self.pause(3_000);
        }
        if held.id == id && id >= WANDERING.0 && self.random.u8(0..8) == 0 {
            return self.log_in(held);
        }
        match self.random.u8(0..10) {
            0 => self.client.release(held, true),
            1 => self.client.release(held, false),
            2 if held.seen.payload == SeenPayload::Missing => self.client.release(held, false),
            3 if self.random.bool() => {
                self.pause(8_000);
                self.commit(held);
            }
            _ => self.commit(held),
        }
    }

    /// A new id, and then usually a log-out, so that one-off sessions do not pile up.
    fn log_in(&mut self, mut held: HeldLock) {
        let new = ONE_OFF | self.token();
        let grace_ms = if self.random.bool() { 0 } else { self.random.u64(1..60) };
        if !self.client.regenerate(&mut held, new, grace_ms) {
            return self.client.release(held, false);
        }
        self.commit(held);
        self.client.peek(new);
        if self.random.u8(0..20) != 0 {
            self.client.destroy(new);
        }
    }

    fn run(&mut self) {
        let (own, first) = (ONE_OFF | self.worker << 32, self.token());
        let last = self.client.run(own, first..=first + RUN_MAX, self.left, RUN);
        self.tokens += last.map_or(RUN_MAX, |last| last - first);
        self.left = last;
    }

    fn commit(&mut self, held: HeldLock) {
        let empty = self.random.u8(0..50) == 0;
        let token = (!empty).then(|| self.token());
        let (bytes, ttl_ms) = (self.bytes(), self.ttl_ms(held.id));
        self.client.commit(held, token, bytes, ttl_ms);
    }

    fn token(&mut self) -> u64 {
        self.tokens += 1;
        (self.worker << 32) | self.tokens
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
        if (SHORT.0..WANDERING.0).contains(&id) { self.random.u64(30..200) } else { HOUR_MS }
    }

    fn pause(&mut self, most_us: u64) {
        std::thread::sleep(Duration::from_micros(self.random.u64(0..most_us)));
    }
}
