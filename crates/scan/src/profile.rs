//! A profile: the sizes, ages and idle times of a store, as a file for others.
//!
//! It has counts only: no ids, keys, contents or bin names. A benchmark draws payload sizes from
//! it. Invariant: a parsed [`Profile`] is sound (ascending buckets, consistent counts), although
//! anybody may have written the file.

use serde::{Deserialize, Serialize};
use sessile_stores::layouts::Sizes;

use crate::{ScanSummary, SizeBucket, SpanHistogram};

/// The version of the file.
const SCHEMA: u32 = 1;
/// More buckets than any summary has.
const BUCKETS_MAX: usize = 1_000;

/// Counts by size, age and idle time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    schema: u32,
    /// `payload`, or `memory` if a server tells only that.
    sizes_are: String,
    entries: u64,
    bytes: u64,
    sizes: Vec<SizeBucket>,
    age: Spans,
    idle: Spans,
}

/// Counts by spans of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Spans {
    buckets: Vec<SpanBucket>,
    unknown: u64,
}

/// A bucket that is not empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SpanBucket {
    from_s: u64,
    below_s: Option<u64>,
    entries: u64,
}

impl Profile {
    /// The profile of a summary.
    pub fn from_summary(summary: &ScanSummary, sizes: Sizes) -> Profile {
        Profile {
            schema: SCHEMA,
            sizes_are: sizes.name().to_owned(),
            entries: summary.total.entries,
            bytes: summary.total.bytes,
            sizes: summary.sizes.buckets().collect(),
            age: spans(&summary.ages),
            idle: spans(&summary.idle),
        }
    }

    /// The content of the file.
    ///
    /// # Errors
    ///
    /// None known; the JSON library has this signature.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The fault, in one clause.
    pub fn parse(text: &str) -> Result<Profile, String> {
        let profile: Profile =
            serde_json::from_str(text).map_err(|error| format!("it is no profile: {error}"))?;
        if profile.schema != SCHEMA {
            return Err(format!(
                "its schema is {}, and this program reads {SCHEMA}",
                profile.schema
            ));
        }
        if profile.sizes_are != Sizes::Payload.name() {
            return Err("its sizes are those in a server's memory, not of payloads".to_owned());
        }
        if profile.sizes.is_empty() {
            return Err("it is that of an empty store".to_owned());
        }
        let mut end = 0;
        let mut counted: u64 = 0;
        for bucket in &profile.sizes {
            if bucket.from_bytes < end
                || bucket.below_bytes <= bucket.from_bytes
                || bucket.entries == 0
            {
                return Err("its buckets are not in order".to_owned());
            }
            end = bucket.below_bytes;
            counted =
                counted.checked_add(bucket.entries).ok_or("its counts are beyond all measure")?;
        }
        if counted != profile.entries || profile.sizes.len() > BUCKETS_MAX {
            return Err("its counts do not fit together".to_owned());
        }
        Ok(profile)
    }

    /// The size at a rank: `share` of all entries are smaller, and `within` is the position in the
    /// bucket; both from 0 to 1.
    pub fn size_at(&self, share: f64, within: f64) -> u64 {
        let rank = (self.entries as f64 * share) as u64;
        let mut below = 0;
        let bucket = self.sizes.iter().find(|bucket| {
            below += bucket.entries;
            rank < below
        });
        let Some(bucket) = bucket.or(self.sizes.last()) else { return 0 };
        let width = bucket.below_bytes - bucket.from_bytes;
        bucket.from_bytes + ((width as f64 * within) as u64).min(width - 1)
    }

    /// An upper bound of all sizes.
    pub fn largest(&self) -> u64 {
        self.sizes.last().map_or(0, |bucket| bucket.below_bytes - 1)
    }
}

fn spans(histogram: &SpanHistogram) -> Spans {
    let full = histogram.buckets().filter(|(.., entries)| *entries > 0);
    let buckets =
        full.map(|(from_s, below_s, entries)| SpanBucket { from_s, below_s, entries }).collect();
    Spans { buckets, unknown: histogram.unknown() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessile_core::Timestamp;
    use sessile_stores::layouts::{EntryName, ScannedEntry};

    fn profile() -> Profile {
        let mut summary = ScanSummary::new(Timestamp::from_ms(0), 10, 0);
        for number in 0..10_000_u64 {
            let name = EntryName::of("cache", format!("secret{number}").as_bytes());
            let bytes = if number % 100 == 0 { 500_000 } else { 1_000 + number % 50 };
            summary.add(ScannedEntry {
                bin: "cache_secret".into(),
                name,
                bytes,
                created: None,
                used: None,
                expires: None,
            });
        }
        Profile::from_summary(&summary, Sizes::Payload)
    }

    #[test]
    fn a_profile_reads_back_and_names_nobody() {
        let text = profile().to_json().unwrap();
        assert_eq!(Profile::parse(&text).unwrap(), profile());
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn sizes_that_are_drawn_are_distributed_as_those_that_were_seen() {
        let profile = profile();
        let sizes: Vec<u64> = (0..10_000)
            .map(|n| profile.size_at(f64::from(n) / 1e4, f64::from(n % 100) / 100.0))
            .collect();
        assert_eq!(sizes.iter().filter(|size| **size > 100_000).count(), 100);
        assert!(sizes.iter().all(|size| *size >= 896 && *size <= profile.largest()), "{sizes:?}");
        let mean = sizes.iter().sum::<u64>() as f64 / 1e4;
        let seen = profile.bytes as f64 / 1e4;
        assert!((mean / seen - 1.0).abs() < 0.15, "{mean} {seen}");
        assert!(profile.size_at(1.0, 1.0) <= profile.largest());
    }

    #[test]
    fn a_file_that_is_not_sound_is_refused() {
        let good = profile().to_json().unwrap();
        for (from, to, why) in [
            ("\"schema\": 1", "\"schema\": 2", "schema"),
            ("\"payload\"", "\"memory\"", "memory"),
            ("\"entries\": 10000", "\"entries\": 10001", "fit together"),
            ("\"from_bytes\": 458752", "\"from_bytes\": 5", "order"),
            ("\"sizes\"", "\"size\"", "no profile"),
            ("{", "[", "no profile"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good, "{from}");
            assert!(Profile::parse(&bad).unwrap_err().contains(why), "{why}");
        }
        let empty =
            Profile::from_summary(&ScanSummary::new(Timestamp::from_ms(0), 1, 0), Sizes::Payload)
                .to_json()
                .unwrap();
        assert!(Profile::parse(&empty).unwrap_err().contains("empty"));
    }
}
