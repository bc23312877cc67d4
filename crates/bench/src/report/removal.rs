//! The sessions that were removed beside a measurement.
//!
//! Invariant: unmeasured is `None`, never 0.

use serde::{Deserialize, Serialize};

use crate::report::table::{grouped, three_digits};

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Removal {
    /// Removed records. `None` if the server removes them and cannot be asked.
    pub removed: Option<u64>,
    /// Seconds of removing, or of watching the store.
    pub seconds: f64,
    /// CPU seconds of the removing process. `None` if the server removes.
    pub cpu_seconds: Option<f64>,
    /// The longest call in microseconds. `None` if the server removes.
    pub longest_call_us: Option<f64>,
}

const NOT_KNOWN: &str = "not known";

impl Removal {
    /// For the terminal.
    pub(crate) fn in_words(&self) -> String {
        let known = |text: Option<String>| text.unwrap_or_else(|| NOT_KNOWN.to_owned());
        let removed = match self.removed {
            Some(removed) => {
                format!("removed {} in {:.2} s", grouped(removed as f64), self.seconds)
            }
            None => format!("in {:.2} s, how many were removed is {NOT_KNOWN}", self.seconds),
        };
        let cpu = known(self.cpu_seconds.map(|seconds| format!("{seconds:.2} s")));
        let longest = known(self.longest_call_us.map(|us| format!("{} us", three_digits(us))));
        format!("{removed} (CPU time: {cpu}; longest call: {longest})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Removal {
        serde_json::from_str(json).unwrap()
    }

    /// memcached, which tells nobody what it removes, "removed 0 in 0.25 s (0.00 s of CPU), longest
    /// call 0.00 us".
    #[test]
    fn what_nobody_measured_is_not_known() {
        let unknown = Removal { seconds: 0.25, ..Removal::default() };
        let words = "in 0.25 s, how many were removed is not known (CPU time: not known; longest \
                     call: not known)";
        assert_eq!(unknown.in_words(), words);
        let text = serde_json::to_string(&unknown).unwrap();
        assert_eq!(
            text,
            r#"{"removed":null,"seconds":0.25,"cpu_seconds":null,"longest_call_us":null}"#
        );
        assert_eq!(read(&text), unknown);
        let counted = Removal { removed: Some(909), ..unknown };
        assert_eq!(
            counted.in_words(),
            "removed 909 in 0.25 s (CPU time: not known; longest call: not known)"
        );
    }

    #[test]
    fn what_was_measured_is_told_and_a_sweep_that_found_nothing_removed_nothing() {
        let text = r#"{"removed":0,"seconds":1.5,"cpu_seconds":0.25,"longest_call_us":12.5}"#;
        let measured = Removal {
            removed: Some(0),
            seconds: 1.5,
            cpu_seconds: Some(0.25),
            longest_call_us: Some(12.5),
        };
        assert_eq!(read(text), measured);
        assert_eq!(
            measured.in_words(),
            "removed 0 in 1.50 s (CPU time: 0.25 s; longest call: 12.5 us)"
        );
        // A server that was asked and has removed nothing yet.
        let yet = Removal { removed: Some(0), seconds: 1.0, ..Removal::default() };
        assert_eq!(read(&serde_json::to_string(&yet).unwrap()), yet);
    }
}
