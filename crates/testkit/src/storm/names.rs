//! Which session a key of a store stands for, also where the store keeps digests instead of ids.
//!
//! A lease that followed a regenerated id names the key as the store has it. For a store that keeps ids the number
//! stands in it; for one that keeps digests, whoever makes an id leaves a file with the digest as its name before the
//! store can know it. Invariant: a digest that a store hands out has its file.

use std::path::PathBuf;

use sessile_core::{Key, Sessions};

use crate::check::SECRET;

/// The names of one run.
#[derive(Clone, Debug)]
pub struct Names {
    nonce: u64,
    folder: PathBuf,
}

impl Names {
    /// The names of the run with this nonce.
    pub fn of_run(nonce: u64) -> Names {
        Names { nonce, folder: std::env::temp_dir().join(format!("sessile-storm-names-{nonce:016x}")) }
    }

    /// Notes the key that a session is about to get.
    pub fn note(&self, store: &Sessions, key: &Key, id: u64) {
        let listed = store.listed_key(key);
        if listed == *key {
            return;
        }
        // A name that cannot be noted shows as an unknown session, which fails the storm.
        let _ = std::fs::create_dir_all(&self.folder);
        let _ = std::fs::write(self.folder.join(listed.id()), id.to_string());
    }

    /// The number of the session with this key.
    pub fn number(&self, key: &Key) -> Option<u64> {
        let nonce = self.nonce;
        match key.id().strip_prefix(SECRET).and_then(|rest| rest.strip_prefix(&format!("{nonce:016x}"))) {
            Some(rest) => u64::from_str_radix(rest, 16).ok(),
            None => std::fs::read_to_string(self.folder.join(key.id())).ok()?.parse().ok(),
        }
    }

    /// Removes what was noted.
    pub fn forget(&self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
