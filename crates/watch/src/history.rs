//! The samples of the last hour, a bounded number.

use std::collections::VecDeque;
use std::time::Duration;

use crate::sample::Sample;

/// The time between two samples of the page's server.
pub const STEP: Duration = Duration::from_secs(5);
const SAMPLES_MAX: usize = 720;

/// Samples in order of time.
#[derive(Clone, Debug, Default)]
pub struct History(VecDeque<Sample>);

impl History {
    /// Adds a sample, and forgets those of more than an hour ago.
    pub fn push(&mut self, sample: Sample) {
        if self.0.len() == SAMPLES_MAX {
            self.0.pop_front();
        }
        // Only the latest sample shows more than numbers.
        if let Some(last) = self.0.back_mut() {
            last.details.clear();
            last.locks = None;
        }
        self.0.push_back(sample);
    }

    /// The latest sample.
    pub fn last(&self) -> Option<&Sample> {
        self.0.back()
    }

    /// A value of each sample: minutes before the last sample, value.
    pub fn values(&self, of: impl Fn(&Sample) -> Option<f64>) -> Vec<(f64, f64)> {
        let Some(last) = self.last() else { return Vec::new() };
        let minutes = |sample: &Sample| last.at.since(sample.at).as_secs_f64() / 60.0;
        self.0.iter().filter_map(|sample| Some((minutes(sample), of(sample)?))).collect()
    }

    /// The increase of a counter between samples, for each second.
    pub fn rates(&self, of: impl Fn(&Sample) -> Option<u64>) -> Vec<(f64, f64)> {
        let Some(last) = self.last() else { return Vec::new() };
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        let rate = |(old, new): (&Sample, &Sample)| {
            let passed = new.at.since(old.at).as_secs_f64();
            let events = of(new)?.checked_sub(of(old)?)? as f64;
            let minutes = last.at.since(new.at).as_secs_f64() / 60.0;
            (passed > 0.0).then_some((minutes, events / passed))
        };
        pairs.filter_map(rate).collect()
    }
}
