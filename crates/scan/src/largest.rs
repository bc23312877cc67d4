//! The largest entries, up to a number. An entry that a walk shows twice is listed once.

use sessile_stores::layouts::ScannedEntry;

/// The largest of the offered entries.
#[derive(Clone, Debug)]
pub struct Largest {
    most: usize,
    /// Largest first.
    entries: Vec<ScannedEntry>,
}

impl Largest {
    /// An empty list for at most `most` entries.
    pub fn new(most: usize) -> Largest {
        Largest { most, entries: Vec::new() }
    }

    /// Adds an entry if it is one of the largest.
    pub fn offer(&mut self, seen: ScannedEntry) {
        let full = self.entries.len() >= self.most;
        if full && self.entries.last().is_none_or(|smallest| smallest.bytes >= seen.bytes) {
            return;
        }
        // A repeated entry may have another size.
        self.entries.retain(|known| known.bin != seen.bin || known.name != seen.name);
        let place = self.entries.partition_point(|known| known.bytes >= seen.bytes);
        self.entries.insert(place, seen);
        self.entries.truncate(self.most);
    }

    /// The entries, largest first.
    pub fn entries(&self) -> &[ScannedEntry] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessile_stores::layouts::EntryName;

    fn seen(number: u64, bytes: u64) -> ScannedEntry {
        let name = EntryName::Secret(number.to_le_bytes().to_vec());
        ScannedEntry {
            bin: "session".into(),
            name,
            bytes,
            created: None,
            used: None,
            expires: None,
        }
    }

    fn sizes(largest: &Largest) -> Vec<u64> {
        largest.entries().iter().map(|seen| seen.bytes).collect()
    }

    #[test]
    fn the_largest_stay_in_order_however_they_come() {
        let mut largest = Largest::new(3);
        (0..1_000).for_each(|number| largest.offer(seen(number, number * 7 % 1_000)));
        assert_eq!(sizes(&largest), [999, 998, 997]);
        assert!(largest.entries.capacity() < 10, "memory grows with what is offered");
        let mut none = Largest::new(0);
        none.offer(seen(1, 1));
        assert!(none.entries().is_empty());
    }

    #[test]
    fn an_entry_that_is_shown_twice_is_listed_once() {
        let mut largest = Largest::new(3);
        for (number, bytes) in [(1, 10), (2, 30), (1, 20), (2, 30)] {
            largest.offer(seen(number, bytes));
        }
        assert_eq!(sizes(&largest), [30, 20]);
    }

    /// The keys of a page cache differ at their ends. Of two keys with 120 equal characters one was
    /// lost.
    #[test]
    fn entries_whose_long_keys_differ_at_their_ends_are_both_listed() {
        let mut largest = Largest::new(3);
        for (end, bytes) in [("a", 10), ("b", 20)] {
            let key = format!("{}{end}", "entity_view:node:1:full:".repeat(20));
            largest.offer(ScannedEntry {
                name: EntryName::Shown(key.as_bytes().to_vec()),
                ..seen(0, bytes)
            });
        }
        assert_eq!(sizes(&largest), [20, 10]);
    }
}
