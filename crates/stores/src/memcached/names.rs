//! The names of the keys on the servers.
//!
//! `P:d:bin/id` data, `P:l:bin/id` lock, `P:fence` counter, with the prefix `P` of the URL. A key of memcached has at
//! most 250 bytes without spaces; bins and ids have none.

use sessile_core::{Key, Limits};

/// Longest prefix of the URL.
pub(super) const PREFIX_BYTES_MAX: usize = 32;
/// Longest id: what a key has left beside the longest prefix and bin.
pub(super) const ID_BYTES_MAX: usize = 250 - PREFIX_BYTES_MAX - ":d:".len() - Limits::BIN_BYTES_MAX - "/".len();

/// Builds key names under one prefix.
pub(super) struct Names {
    prefix: String,
}

impl Names {
    pub(super) fn new(prefix: String) -> Names {
        Names { prefix }
    }

    pub(super) fn data(&self, key: &Key) -> String {
        self.of('d', key)
    }

    pub(super) fn lock(&self, key: &Key) -> String {
        self.of('l', key)
    }

    pub(super) fn fence(&self) -> String {
        format!("{}:fence", self.prefix)
    }

    fn of(&self, what: char, key: &Key) -> String {
        format!("{}:{what}:{}/{}", self.prefix, key.bin().name(), key.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessile_core::Bin;

    #[test]
    fn the_longest_key_has_250_bytes() {
        let bin = Bin::new(&"b".repeat(Limits::BIN_BYTES_MAX)).unwrap();
        let key = Key::in_bin(bin, &"i".repeat(ID_BYTES_MAX)).unwrap();
        assert_eq!(Names::new("p".repeat(PREFIX_BYTES_MAX)).data(&key).len(), 250);
    }
}
