//! The sessions that were removed beside a measurement.
//!
//! Invariant: unmeasured is `None`, never 0.

use serde::{Deserialize, Serialize};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Row;
    use crate::tables::gc;

    /// memcached, which tells nobody what it removes, "removed 0 in 0.25 s".
    #[test]
    fn what_nobody_measured_is_not_known() {
        let unknown = Removal { seconds: 0.25, ..Removal::default() };
        let text = serde_json::to_string(&unknown).unwrap();
        assert_eq!(
            text,
            r#"{"removed":null,"seconds":0.25,"cpu_seconds":null,"longest_call_us":null}"#
        );
        assert_eq!(serde_json::from_str::<Removal>(&text).unwrap(), unknown);
        let shown = |removal| {
            let row = Row { removal: Some(removal), ..Row::default() };
            let words = gc::table(&[&row]).rows.remove(0).cells;
            words.iter().map(|cell| cell.words().to_owned()).collect::<Vec<String>>().join("|")
        };
        assert!(shown(unknown).contains("not known|0.25|not known"), "{}", shown(unknown));
        let counted = Removal { removed: Some(0), cpu_seconds: Some(0.5), ..unknown };
        assert!(shown(counted).contains("0|0.25|0.50"), "{}", shown(counted));
    }
}
