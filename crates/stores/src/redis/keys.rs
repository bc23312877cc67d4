//! The names of the keys in Redis.
//!
//! `P:d:{bin/id}` data, `P:l:{bin/id}` lock, `P:w:{bin/id}` wait list, `P:fence` counter, with the prefix `P` of the
//! URL. The braces are a hash tag: all keys of one session live in one slot of a cluster.

use sessile_core::{Bin, Key};

/// Builds and parses key names under one prefix.
pub(super) struct Names {
    prefix: String,
}

impl Names {
    /// `prefix` must contain neither glob characters nor braces; the options check that.
    pub(super) fn new(prefix: String) -> Names {
        Names { prefix }
    }

    pub(super) fn data(&self, key: &Key) -> String {
        self.of('d', key)
    }

    pub(super) fn lock(&self, key: &Key) -> String {
        self.of('l', key)
    }

    pub(super) fn wait(&self, key: &Key) -> String {
        self.of('w', key)
    }

    pub(super) fn fence(&self) -> String {
        format!("{}:fence", self.prefix)
    }

    /// The glob pattern of all data keys, or of those of one bin.
    pub(super) fn data_pattern(&self, bin: Option<&Bin>) -> String {
        match bin {
            None => format!("{}:d:{{*", self.prefix),
            Some(bin) => format!("{}:d:{{{}/*", self.prefix, bin.name()),
        }
    }

    /// The key of a data key's name; `None` for names that are not ours.
    pub(super) fn parse_data(&self, name: &[u8]) -> Option<Key> {
        let name = std::str::from_utf8(name).ok()?;
        let tag = name.strip_prefix(&self.prefix)?.strip_prefix(":d:{")?.strip_suffix('}')?;
        parse_tag(tag)
    }

    fn of(&self, what: char, key: &Key) -> String {
        format!("{}:{what}:{{{}/{}}}", self.prefix, key.bin().name(), key.id())
    }
}

/// `bin/id` as a key.
pub(super) fn parse_tag(tag: &str) -> Option<Key> {
    let (bin, id) = tag.split_once('/')?;
    Key::in_bin(Bin::new(bin).ok()?, id).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_key_leads_back_to_its_key_and_foreign_names_to_none() {
        let names = Names::new("shop".into());
        let key = Key::in_bin(Bin::new("cache_page").unwrap(), "node:1.html").unwrap();
        assert_eq!(names.data(&key), "shop:d:{cache_page/node:1.html}");
        assert_eq!(names.parse_data(names.data(&key).as_bytes()), Some(key.clone()));
        for foreign in ["", "shop:d:{}", "shop:l:{session/a}", "other:d:{session/a}", "shop:d:{session/a b}"] {
            assert_eq!(names.parse_data(foreign.as_bytes()), None);
        }
    }
}
