//! Latency histograms: recorded in workers, sent as text, merged in the parent.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

/// Latencies in nanoseconds, three significant digits, at most a minute.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

const HIGHEST_NS: u64 = 60_000_000_000;

impl Latencies {
    #[allow(clippy::new_without_default, reason = "an empty one is no default of anything")]
    pub fn new() -> Latencies {
        // The library accepts these constants; the fallback only has another range.
        let bounded = Histogram::new_with_bounds(1, HIGHEST_NS, 3).or_else(|_| Histogram::new(3));
        #[allow(
            clippy::expect_used,
            reason = "three digits are within the library's range of 0 to 5"
        )]
        Latencies(bounded.expect("three significant digits are valid"))
    }

    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    pub fn add(&mut self, other: &Latencies) {
        // Both have the same bounds.
        let _ = self.0.add(&other.0);
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    pub fn us(&self, quantile: f64) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.value_at_quantile(quantile) as f64 / 1e3 }
    }

    pub fn min_us(&self) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.min() as f64 / 1e3 }
    }

    pub fn max_us(&self) -> f64 {
        self.0.max() as f64 / 1e3
    }

    /// Counts below the first bound, between each two, and above the last. Bounds in microseconds.
    pub fn between(&self, bounds_us: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; bounds_us.len() + 1];
        // `count_between` widens its ends to whole cells, so a value could count twice.
        for cell in self.0.iter_recorded() {
            let bucket =
                bounds_us.partition_point(|bound| bound * 1_000 <= cell.value_iterated_to());
            if let Some(count) = counts.get_mut(bucket) {
                *count += cell.count_at_value();
            }
        }
        counts
    }

    pub fn to_text(&self) -> String {
        let mut bytes = Vec::new();
        // Writing into memory cannot fail; the reader would refuse an empty text.
        let _ = V2Serializer::new().serialize(&self.0, &mut bytes);
        STANDARD.encode(bytes)
    }

    pub fn from_text(text: &str) -> Option<Latencies> {
        let bytes = STANDARD.decode(text).ok()?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).ok().map(Latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_survives_the_way_to_the_parent_and_merges() {
        let mut one = Latencies::new();
        (1..=1_000).for_each(|us| one.record(us * 1_000 - 500));
        let mut two = Latencies::from_text(&one.to_text()).unwrap();
        two.record(90_000_000_000);
        two.add(&one);
        assert_eq!(two.count(), 2_001);
        assert!((one.us(0.5) - 500.0).abs() < 1.0, "{}", one.us(0.5));
        assert!(two.max_us() >= 59e6);
        assert_eq!(one.between(&[100, 500]), [100, 400, 500]);
        assert!(Latencies::from_text("???").is_none());
    }
}
