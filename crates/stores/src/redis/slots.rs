//! Slots of a cluster: which one a name is in, and which server has which.
//!
//! Source: the vendor's "Redis cluster specification" (key distribution, CLUSTER SLOTS).

use std::sync::LazyLock;

use redis::Value;

use crate::connections::options::Address;

pub const SLOTS: u16 = 16_384;

/// The slot of what stands between the first brace and the next closing one, or of the whole name.
pub fn slot_of(name: &str) -> u16 {
    let tag = name.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let tag = tag.map(|(tag, _)| tag).filter(|tag| !tag.is_empty());
    crc16(tag.unwrap_or(name).as_bytes()) % SLOTS
}

/// CRC-16/XMODEM, as the specification has it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc: u16, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

/// The least number that is in the slot, as a text: a tag for keys that belong to a slot.
pub fn tag_of(slot: u16) -> u32 {
    static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
        let mut tags = vec![u32::MAX; usize::from(SLOTS)];
        let mut missing = tags.len();
        // 170,000 numbers are enough.
        for number in 0..1_000_000 {
            if let Some(tag) = tags.get_mut(usize::from(slot_of(&number.to_string())))
                && *tag == u32::MAX
            {
                *tag = number;
                missing -= 1;
                if missing == 0 {
                    break;
                }
            }
        }
        tags
    });
    TAGS.get(usize::from(slot)).copied().unwrap_or(0)
}

/// Which server is the primary of which slots.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SlotMap {
    /// First and last slot, in order.
    ranges: Vec<(u16, u16, Address)>,
}

impl SlotMap {
    /// From the answer to CLUSTER SLOTS of a server at this host. Without a name an address is its
    /// own; with the name `?` it is unknown, and the slots are nobody's. `None` for another answer,
    /// or when no slot is served.
    pub fn parse(answer: &Value, asked: &Address) -> Option<SlotMap> {
        let Value::Array(entries) = answer else { return None };
        let mut ranges = Vec::new();
        for entry in entries {
            let Value::Array(entry) = entry else { return None };
            let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = entry.as_slice()
            else {
                return None;
            };
            let [name, Value::Int(port), ..] = primary.as_slice() else { return None };
            let host = match (name, asked) {
                (Value::BulkString(name), _) if name == UNKNOWN.as_bytes() => continue,
                (Value::BulkString(name), _) if !name.is_empty() => {
                    String::from_utf8(name.clone()).ok()?
                }
                (_, Address::Tcp { host, .. }) => host.clone(),
                _ => return None,
            };
            let slot = |number: &i64| u16::try_from(*number).ok().filter(|slot| *slot < SLOTS);
            let address = Address::Tcp { host, port: u16::try_from(*port).ok()? };
            ranges.push((slot(first)?, slot(last)?, address));
        }
        ranges.sort();
        (!ranges.is_empty()).then_some(SlotMap { ranges })
    }

    pub fn primary_of(&self, slot: u16) -> Option<&Address> {
        let next = self.ranges.partition_point(|(first, ..)| *first <= slot);
        let (_, last, address) = self.ranges.get(next.checked_sub(1)?)?;
        (slot <= *last).then_some(address)
    }

    /// All primaries, in the order of their addresses.
    pub fn primaries(&self) -> Vec<Address> {
        let mut primaries: Vec<Address> =
            self.ranges.iter().map(|(.., address)| address.clone()).collect();
        primaries.sort();
        primaries.dedup();
        primaries
    }
}

/// What a server says of one whose name it should tell and does not know.
const UNKNOWN: &str = "?";

/// `host:port` of a redirection. Without a host it is that of the server that says so.
pub fn redirected(to: &str, asked: &Address) -> Option<Address> {
    let (host, port) = to.rsplit_once(':')?;
    let host = match (host.trim_matches(['[', ']']), asked) {
        (UNKNOWN, _) => return None,
        ("", Address::Tcp { host, .. }) => host.clone(),
        (host, _) => host.to_owned(),
    };
    Some(Address::Tcp { host, port: port.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.into(), port }
    }

    /// The second and third are the specification's own examples.
    #[test]
    fn a_slot_is_that_of_the_tag() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot_of("{user1000}.following"), slot_of("{user1000}.followers"));
        assert_eq!(slot_of("foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of("foo{{bar}}zap"), crc16(b"{bar") % SLOTS);
        assert_eq!(slot_of("a{b"), crc16(b"a{b") % SLOTS);
    }

    #[test]
    fn each_slot_has_a_tag() {
        for slot in 0..SLOTS {
            assert_eq!(slot_of(&format!("x:{{{}}}", tag_of(slot))), slot);
        }
    }

    #[test]
    fn a_map_leads_to_primaries_and_foreign_answers_to_none() {
        let name = |text: &str| Value::BulkString(text.into());
        let node = |host: &str, port| {
            Value::Array(vec![name(host), Value::Int(port), name("id"), Value::Array(vec![])])
        };
        let range = |first, last, nodes: Vec<Value>| {
            Value::Array([vec![Value::Int(first), Value::Int(last)], nodes].concat())
        };
        let answer = Value::Array(vec![
            range(100, 16_383, vec![node("b", 2), node("c", 3)]),
            range(0, 49, vec![node("", 1)]),
            range(60, 70, vec![node("?", 4)]),
        ]);
        let map = SlotMap::parse(&answer, &tcp("asked", 9)).unwrap();
        assert_eq!(map.primary_of(0), Some(&tcp("asked", 1)));
        assert_eq!(map.primary_of(49), Some(&tcp("asked", 1)));
        assert_eq!(map.primary_of(50), None, "nobody serves it");
        assert_eq!(map.primary_of(60), None, "not the server that was asked");
        assert_eq!(map.primary_of(16_383), Some(&tcp("b", 2)));
        assert_eq!(map.primaries(), [tcp("asked", 1), tcp("b", 2)]);
        for foreign in [
            Value::Int(1),
            Value::Array(vec![]),
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![range(0, 16_384, vec![node("b", 2)])]),
            Value::Array(vec![range(0, 1, vec![node("b", 70_000)])]),
            Value::Array(vec![range(0, 1, vec![])]),
        ] {
            assert_eq!(SlotMap::parse(&foreign, &tcp("asked", 9)), None, "{foreign:?}");
        }
    }

    #[test]
    fn a_redirection_without_a_host_means_the_server_that_said_it() {
        let asked = tcp("asked", 9);
        assert_eq!(redirected("127.0.0.1:7", &asked), Some(tcp("127.0.0.1", 7)));
        assert_eq!(redirected("::1:7", &asked), Some(tcp("::1", 7)));
        assert_eq!(redirected(":7", &asked), Some(tcp("asked", 7)));
        assert_eq!(redirected("nonsense", &asked), None);
        assert_eq!(redirected("?:7", &asked), None, "nobody knows which");
    }
}
