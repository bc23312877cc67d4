//! The names of a store's tables, and the numbers of its locks.

use sessile_core::{Key, Timestamp};
use sha2::{Digest, Sha256};

use crate::sql::owner_columns::OwnerColumns;

#[derive(Default)]
pub struct TableNames {
    pub table: String,
    pub fences: String,
    /// One row about the store.
    pub about: String,
    /// Distinguishes its locks from those of other stores in the database.
    lock_space: String,
    /// Without the schema, which an index shares with its table.
    pub due_index: String,
    pub owner_index: String,
    pub owners: OwnerColumns,
}

impl TableNames {
    pub fn new(schema: &str, table: &str) -> TableNames {
        let quoted = schema.replace('"', "\"\"");
        let name = |suffix: &str| format!("\"{quoted}\".\"{table}{suffix}\"");
        TableNames {
            table: name(""),
            fences: name("_fence"),
            about: name("_about"),
            lock_space: format!("{schema}\0{table}\0"),
            due_index: format!("\"{table}_due\""),
            owner_index: format!("\"{table}_owner\""),
            owners: OwnerColumns::new(true, Timestamp::ZERO),
        }
    }

    pub fn lock_of(&self, key: &Key) -> i64 {
        self.lock(key.bin().name(), key.id())
    }

    /// 64 bits of a digest. Two sessions with the same number, of which there is one pair among
    /// five billion sessions, merely wait for each other.
    pub fn lock(&self, bin: &str, id: &str) -> i64 {
        let digest = Sha256::new()
            .chain_update(&self.lock_space)
            .chain_update(bin)
            .chain_update([0])
            .chain_update(id)
            .finalize();
        digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte)).cast_signed()
    }
}
