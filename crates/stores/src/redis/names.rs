//! `P:d:{bin/id}` data, `P:l:{bin/id}` lock, `P:w:{bin/id}` wait list, `P:fence` counter, with the
//! prefix `P` of the URL. The braces are a hash tag: all keys of one session live in one slot of a
//! cluster. There each slot has a counter, `P:fence:{number}`, with a number in that slot.

use sessile_core::{Bin, Cursor, Key};

use super::slots::{slot_of, tag_of};

pub struct Names(pub String);

impl Names {
    /// Lock, data and wait list, in the order of the scripts.
    pub fn of(&self, key: &Key) -> [String; 3] {
        let tag = Names::tag(key);
        ['l', 'd', 'w'].map(|what| format!("{}:{what}:{{{tag}}}", self.0))
    }

    /// What decides the slot of a session.
    pub fn tag(key: &Key) -> String {
        format!("{}/{}", key.bin().name(), key.id())
    }

    pub fn data(&self, key: &Key) -> String {
        let [_, data, _] = self.of(key);
        data
    }

    pub fn fence(&self) -> String {
        format!("{}:fence", self.0)
    }

    /// The counter of a session's slot.
    pub fn fence_of_slot(&self, key: &Key) -> String {
        format!("{}:fence:{{{}}}", self.0, tag_of(slot_of(&Names::tag(key))))
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
    fn all_keys_of_a_session_are_in_one_slot() {
        let names = Names("shop".into());
        for id in ["a", "b", "0123456789abcdef"] {
            let key = Key::session(id).unwrap();
            let slot = slot_of(&Names::tag(&key));
            let all = names.of(&key).into_iter().chain([names.fence_of_slot(&key)]);
            all.for_each(|name| assert_eq!(slot_of(&name), slot, "{name}"));
        }
    }

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
