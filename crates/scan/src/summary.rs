//! The summary of a scan, of bounded memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use sessile_core::Timestamp;
use sessile_stores::layouts::ScannedEntry;

use crate::{Largest, SizeHistogram, SpanHistogram};

/// Bins that are counted separately.
const BINS_MAX: usize = 100;
/// The name for all other bins, which no bin can have.
const OTHER_BINS: &str = "(others)";

/// Counts of one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BinTotals {
    /// Entries.
    pub entries: u64,
    /// Of these, expired but not removed yet.
    pub expired: u64,
    /// Bytes of all entries.
    pub bytes: u64,
}

/// The summary of the entries seen so far.
#[derive(Clone, Debug)]
pub struct ScanSummary {
    now: Timestamp,
    larger_than: u64,
    /// Entries of at least `larger_than` bytes.
    pub larger: u64,
    /// All bins together.
    pub total: BinTotals,
    /// Totals by bin name.
    pub bins: BTreeMap<Arc<str>, BinTotals>,
    /// Sizes.
    pub sizes: SizeHistogram,
    /// Times since creation.
    pub ages: SpanHistogram,
    /// Times since the last use or write.
    pub idle: SpanHistogram,
    /// The largest entries.
    pub largest: Largest,
}

impl ScanSummary {
    /// An empty summary. Ages are relative to `now`; the `most` largest entries of at least
    /// `larger_than` bytes are kept.
    pub fn new(now: Timestamp, most: usize, larger_than: u64) -> ScanSummary {
        ScanSummary {
            now,
            larger_than,
            larger: 0,
            total: BinTotals::default(),
            bins: BTreeMap::new(),
            sizes: SizeHistogram::default(),
            ages: SpanHistogram::default(),
            idle: SpanHistogram::default(),
            largest: Largest::new(most),
        }
    }

    /// The moment of the scan.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The bound for `larger`, in bytes.
    pub fn larger_than(&self) -> u64 {
        self.larger_than
    }

    /// Counts an entry.
    pub fn add(&mut self, seen: ScannedEntry) {
        let expired = seen.expires.is_some_and(|expires| expires <= self.now);
        let bin = if self.bins.len() < BINS_MAX || self.bins.contains_key(&seen.bin) {
            Arc::clone(&seen.bin)
        } else {
            OTHER_BINS.into()
        };
        for totals in [self.bins.entry(bin).or_default(), &mut self.total] {
            totals.entries += 1;
            totals.expired += u64::from(expired);
            totals.bytes = totals.bytes.saturating_add(seen.bytes);
        }
        self.sizes.add(seen.bytes);
        self.ages.add(seen.created.map(|created| self.now.since(created)));
        self.idle.add(seen.used.map(|used| self.now.since(used)));
        if seen.bytes >= self.larger_than {
            self.larger += 1;
            self.largest.offer(seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessile_stores::layouts::EntryName;

    fn seen(bin: &str, number: u64, expires: u64) -> ScannedEntry {
        ScannedEntry {
            bin: bin.into(),
            name: EntryName::of(bin, format!("{number:032}").as_bytes()),
            bytes: number,
            created: Some(Timestamp::from_ms(0)),
            used: None,
            expires: Some(Timestamp::from_ms(expires)),
        }
    }

    #[test]
    fn totals_bins_and_the_large_ones_are_counted() {
        let mut summary = ScanSummary::new(Timestamp::from_ms(10_000), 2, 8);
        for number in 0..10 {
            summary.add(seen(if number < 4 { "cache" } else { "session" }, number, 9_998 + number));
        }
        assert_eq!(summary.total, BinTotals { entries: 10, expired: 3, bytes: 45 });
        assert_eq!(
            summary.bins.get("cache"),
            Some(&BinTotals { entries: 4, expired: 3, bytes: 6 })
        );
        assert_eq!((summary.larger, summary.largest.entries().len()), (2, 2));
        assert_eq!((summary.ages.known(), summary.idle.unknown()), (10, 10));
    }

    #[test]
    fn a_store_full_of_bins_does_not_fill_the_memory() {
        let mut summary = ScanSummary::new(Timestamp::from_ms(0), 10, 0);
        for number in 0..100_000 {
            summary.add(seen(&format!("bin{number}"), number, 1));
        }
        assert_eq!(summary.bins.len(), BINS_MAX + 1);
        assert_eq!(
            summary.bins.get(OTHER_BINS).map(|totals| totals.entries),
            Some(100_000 - BINS_MAX as u64)
        );
        assert_eq!((summary.largest.entries().len(), summary.total.entries), (10, 100_000));
    }
}
