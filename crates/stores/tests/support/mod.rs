//! What the programs of tests have in common: sessions, patience, private servers, certificates,
//! children, addresses that move, workers that count.
//!
//! What is particular to one store is in the `setup.rs` beside its tests.

#![allow(dead_code, reason = "no program of tests needs all of it")]

pub mod certificate;
pub mod child;
pub mod counting;
pub mod moving;
pub mod patience;
pub mod server;

use std::time::Duration;

use sessile_core::{Key, Sessions, Ttl};

pub fn key(id: &str) -> Key {
    Key::session(id).unwrap()
}

pub fn ttl() -> Ttl {
    Ttl::sliding(Duration::from_secs(1_440)).unwrap()
}

/// The payload of a session.
pub fn payload_of(store: &Sessions, id: &str) -> Option<Vec<u8>> {
    store.peek(&key(id)).unwrap().map(|record| record.payload)
}
