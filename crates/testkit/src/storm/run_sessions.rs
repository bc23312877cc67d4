//! The ids of one run, by number, also where the store keeps digests instead of ids.
//!
//! A lease that followed a regenerated id names the key as the store has it. Where the store keeps
//! ids, the number stands in it. Where it keeps digests, the worker that makes an id leaves a file
//! with the digest as its name before the store can know it. Invariant: a digest that a store hands
//! out has its file.

use std::path::PathBuf;

use sessile_core::{Key, Sessions};

use crate::check::SECRET;

#[derive(Clone)]
pub struct RunSessions {
    prefix: String,
    folder: PathBuf,
}

impl RunSessions {
    /// The nonce is part of every id, so that a run never meets the sessions of another.
    pub fn new(nonce: u64) -> RunSessions {
        let folder = std::env::temp_dir().join(format!("sessile-storm-names-{nonce:016x}"));
        RunSessions { prefix: format!("{SECRET}{nonce:016x}"), folder }
    }

    pub fn key(&self, number: u64) -> Key {
        Key::session(&format!("{}{number:016x}", self.prefix))
            .unwrap_or_else(|_| unreachable!("the id is well-formed"))
    }

    pub fn note(&self, store: &Sessions, number: u64) {
        let key = self.key(number);
        let listed = store.listed_key(&key);
        if listed == key {
            return;
        }
        // A key that cannot be noted shows as an unknown session, which fails the storm.
        let _ = std::fs::create_dir_all(&self.folder);
        let _ = std::fs::write(self.folder.join(listed.id()), number.to_string());
    }

    pub fn number(&self, key: &Key) -> Option<u64> {
        match key.id().strip_prefix(&self.prefix) {
            Some(rest) => u64::from_str_radix(rest, 16).ok(),
            None => std::fs::read_to_string(self.folder.join(key.id())).ok()?.parse().ok(),
        }
    }

    pub fn forget(&self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
