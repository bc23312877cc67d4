//! A histogram of sizes of constant memory: four buckets for each doubling, so that the width of a
//! bucket is at most a quarter of its lower bound.

use serde::{Deserialize, Serialize};

/// Zero, and four buckets for each of the 64 powers of two.
const BUCKETS: usize = 1 + 4 * 64;

/// Counts and total bytes by size.
#[derive(Clone, Debug)]
pub struct SizeHistogram {
    counts: [u64; BUCKETS],
    bytes: [u64; BUCKETS],
}

/// A bucket that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeBucket {
    /// Lower bound.
    pub from_bytes: u64,
    /// Upper bound, exclusive.
    pub below_bytes: u64,
    /// Entries.
    pub entries: u64,
    /// Total bytes.
    pub bytes: u64,
}

impl Default for SizeHistogram {
    fn default() -> SizeHistogram {
        SizeHistogram { counts: [0; BUCKETS], bytes: [0; BUCKETS] }
    }
}

impl SizeHistogram {
    /// Counts a size.
    pub fn add(&mut self, bytes: u64) {
        let bucket = bucket_of(bytes);
        if let (Some(count), Some(sum)) = (self.counts.get_mut(bucket), self.bytes.get_mut(bucket))
        {
            *count += 1;
            *sum = sum.saturating_add(bytes);
        }
    }

    /// The buckets that are not empty, smallest sizes first.
    pub fn buckets(&self) -> impl Iterator<Item = SizeBucket> + '_ {
        let both = self.counts.iter().zip(&self.bytes).enumerate();
        both.filter(|(_, (entries, _))| **entries > 0).map(|(bucket, (entries, bytes))| {
            SizeBucket {
                from_bytes: lowest(bucket),
                below_bytes: lowest(bucket + 1),
                entries: *entries,
                bytes: *bytes,
            }
        })
    }

    /// Approximately the size that this share of all entries (0 to 1) does not exceed: the mean of
    /// its bucket.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let all: u64 = self.counts.iter().sum();
        let rank = ((all as f64 * share).ceil() as u64).clamp(1, all.max(1));
        let mut below = 0;
        for bucket in self.buckets() {
            below += bucket.entries;
            if below >= rank {
                return Some(bucket.bytes / bucket.entries);
            }
        }
        None
    }
}

fn bucket_of(bytes: u64) -> usize {
    let Some(power) = bytes.checked_ilog2() else { return 0 };
    let quarter = (u128::from(bytes) << 2 >> power) & 3;
    1 + 4 * power as usize + quarter as usize
}

/// The lower bound of a bucket. Powers below 4 have fewer sizes than buckets; some buckets stay
/// empty.
fn lowest(bucket: usize) -> u64 {
    let Some(number) = bucket.checked_sub(1) else { return 0 };
    let lowest = ((4 + (number % 4) as u128) << (number / 4)).div_ceil(4);
    u64::try_from(lowest).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_in_a_bucket_that_contains_it_and_is_narrow() {
        let sizes = (0..70_000)
            .chain((17..64).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]));
        for size in sizes.chain([u64::MAX - 1]) {
            let mut histogram = SizeHistogram::default();
            histogram.add(size);
            let buckets: Vec<SizeBucket> = histogram.buckets().collect();
            let [bucket] = buckets.as_slice() else { panic!("{size} is in {buckets:?}") };
            assert!(bucket.from_bytes <= size && size < bucket.below_bytes, "{size}: {bucket:?}");
            assert!(
                bucket.below_bytes - bucket.from_bytes <= 1 + bucket.from_bytes / 4,
                "{size}: {bucket:?}"
            );
        }
    }

    #[test]
    fn a_quantile_is_right_within_a_bucket() {
        let mut histogram = SizeHistogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (1..=1_000).for_each(|size| histogram.add(size));
        for (share, exact) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0), (1.0, 1_000.0)] {
            let found = histogram.quantile(share).unwrap() as f64;
            assert!((found / exact - 1.0).abs() < 0.15, "{share}: {found}");
        }
        assert_eq!(histogram.buckets().map(|bucket| bucket.bytes).sum::<u64>(), 500_500);
    }
}
