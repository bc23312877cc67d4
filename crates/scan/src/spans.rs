//! A histogram of ages and idle times, in steps that people use.

use std::time::Duration;

/// The upper bound of each bucket but the last, in seconds, with its words.
pub const SPANS: [(u64, &str); 12] = [
    (1, "1 s"),
    (10, "10 s"),
    (60, "1 min"),
    (300, "5 min"),
    (1_440, "24 min"),
    (3_600, "1 h"),
    (21_600, "6 h"),
    (86_400, "1 day"),
    (604_800, "1 week"),
    (2_592_000, "30 days"),
    (7_776_000, "90 days"),
    (31_536_000, "1 year"),
];

/// Counts of spans.
#[derive(Clone, Debug, Default)]
pub struct SpanHistogram {
    counts: [u64; SPANS.len() + 1],
    unknown: u64,
}

impl SpanHistogram {
    /// Counts a span; `None` is unknown.
    pub fn add(&mut self, span: Option<Duration>) {
        let Some(span) = span else {
            self.unknown += 1;
            return;
        };
        let bucket = SPANS
            .iter()
            .position(|(end, _)| span < Duration::from_secs(*end))
            .unwrap_or(SPANS.len());
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
    }

    /// Each bucket: start and end in seconds (the last has no end), and its entries.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, Option<u64>, u64)> + '_ {
        let ends = SPANS.iter().map(|(end, _)| *end);
        let starts = std::iter::once(0).chain(ends.clone());
        starts
            .zip(ends.map(Some).chain([None]))
            .zip(&self.counts)
            .map(|((from, below), count)| (from, below, *count))
    }

    /// Entries with a known span.
    pub fn known(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Entries without a known span.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_in_the_bucket_that_it_is_shorter_than() {
        let mut histogram = SpanHistogram::default();
        for seconds in [0, 1, 59, 60, 1_439, 1_440, 40_000_000] {
            histogram.add(Some(Duration::from_secs(seconds)));
        }
        histogram.add(None);
        let full: Vec<_> = histogram.buckets().filter(|(.., count)| *count > 0).collect();
        let expected = [
            (0, Some(1), 1),
            (1, Some(10), 1),
            (10, Some(60), 1),
            (60, Some(300), 1),
            (300, Some(1_440), 1),
            (1_440, Some(3_600), 1),
            (31_536_000, None, 1),
        ];
        assert_eq!(full, expected);
        assert_eq!((histogram.known(), histogram.unknown()), (7, 1));
        assert_eq!(histogram.buckets().count(), SPANS.len() + 1);
    }
}
