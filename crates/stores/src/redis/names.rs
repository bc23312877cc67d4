//! `P:d:{bin/id}` data, `P:l:{bin/id}` lock, `P:w:{bin/id}` wait list, `P:fence` counter, with the
//! prefix `P` of the URL. The braces are a hash tag: all keys of one session live in one slot of a
//! cluster.

use sessile_core::{Bin, Cursor, Key};

pub struct Names(pub String);

impl Names {
    /// Lock, data and wait list, in the order of the scripts.
    pub fn of(&self, key: &Key) -> [String; 3] {
        let (bin, id) = (key.bin().name(), key.id());
        ['l', 'd', 'w'].map(|what| format!("{}:{what}:{{{bin}/{id}}}", self.0))
    }

    pub fn data(&self, key: &Key) -> String {
        let [_, data, _] = self.of(key);
        data
    }

    pub fn fence(&self) -> String {
        format!("{}:fence", self.0)
    }

    pub fn data_pattern(&self, bin: Option<&Bin>) -> String {
        match bin {
            None => format!("{}:d:{{*", self.0),
            Some(bin) => format!("{}:d:{{{}/*", self.0, bin.name()),
        }
    }

    pub fn lock_pattern(&self) -> String {
        format!("{}:l:{{*", self.0)
    }

    /// The key of a lock's name; `None` for names that are not ours.
    pub fn parse_lock(&self, name: &[u8]) -> Option<Key> {
        let name = std::str::from_utf8(name).ok()?;
        let tag = name.strip_prefix(&self.0)?.strip_prefix(":l:{")?.strip_suffix('}')?;
        Key::try_from(&Cursor(tag.to_owned())).ok()
    }

    /// The key of a data key's name; `None` for names that are not ours.
    pub fn parse_data(&self, name: &[u8]) -> Option<Key> {
        let name = std::str::from_utf8(name).ok()?;
        let tag = name.strip_prefix(&self.0)?.strip_prefix(":d:{")?.strip_suffix('}')?;
        Key::try_from(&Cursor(tag.to_owned())).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_key_leads_back_to_its_key_and_foreign_names_to_none() {
        let names = Names("shop".into());
        let key = Key::in_bin(Bin::new("cache_page").unwrap(), "node:1.html").unwrap();
        assert_eq!(names.data(&key), "shop:d:{cache_page/node:1.html}");
        assert_eq!(names.parse_data(names.data(&key).as_bytes()), Some(key.clone()));
        let foreign =
            ["", "shop:d:{}", "shop:l:{session/a}", "other:d:{session/a}", "shop:d:{a b}"];
        foreign.iter().for_each(|name| assert_eq!(names.parse_data(name.as_bytes()), None));
    }
}
