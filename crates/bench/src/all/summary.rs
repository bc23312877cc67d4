//! The short table at the end of `all`: what was measured, what went wrong, how long it took.

use std::fmt;
use std::time::Duration;

use comfy_table::Cell;

use super::Ended;
use crate::collection::{Collection, Part, PartState};
use crate::report::table::{empty, right};

/// What a series gave, for people.
#[derive(Clone, Debug)]
pub struct Summary {
    ended: Vec<Ended>,
    /// One sentence for each part without rows that did not fail.
    left_out: Vec<String>,
    /// One sentence for each part that failed and for each bad row.
    faults: Vec<String>,
}

impl Summary {
    pub(super) fn of(ended: Vec<Ended>, collection: &Collection) -> Summary {
        let broken = ended.iter().filter(|ended| ended.failed);
        let broken = broken.filter_map(|ended| Some(format!("{}: {}", ended.title, ended.reason.as_ref()?)));
        let bad = collection.runs.iter().flat_map(|report| {
            report.bad_rows().map(|row| format!("{}: {}", row.experiment, row.complaint())).collect::<Vec<String>>()
        });
        let failed = |part: &&Part| part.state == PartState::Failed;
        let failed: Vec<String> = collection.parts.iter().filter(failed).map(Part::title).collect();
        let left_out = collection.left_out.iter().filter(|left| !failed.contains(&left.experiment));
        let left_out = left_out.map(|left| format!("{}: {}", left.experiment, left.reason)).collect();
        let faults = broken.chain(bad).collect();
        Summary { ended, left_out, faults }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = empty(&["experiment", "rows", "bad rows", "time"]);
        for ended in self.ended.iter().filter(|ended| ended.reason.is_none()) {
            table.add_row(vec![
                Cell::new(&ended.title),
                right(ended.rows),
                right(ended.bad),
                right(in_minutes(ended.took)),
            ]);
        }
        let sum = |part: fn(&Ended) -> usize| self.ended.iter().map(part).sum::<usize>();
        let all: Duration = self.ended.iter().map(|ended| ended.took).sum();
        table.add_row(vec![
            Cell::new("all"),
            right(sum(|ended| ended.rows)),
            right(sum(|ended| ended.bad)),
            right(in_minutes(all)),
        ]);
        writeln!(f, "{table}")?;
        for left in &self.left_out {
            writeln!(f, "left out: {left}")?;
        }
        self.faults.iter().try_for_each(|fault| writeln!(f, "FAILED: {fault}"))
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}: ", self.number, self.of, self.title)?;
        match &self.reason {
            Some(reason) if self.failed => write!(f, "FAILED: {reason}"),
            Some(reason) => write!(f, "left out: {reason}"),
            None => write!(f, "{} rows, {} bad, {}", self.rows, self.bad, in_minutes(self.took)),
        }
    }
}

/// `1 min 42 s`, or `42 s`.
pub(crate) fn in_minutes(span: Duration) -> String {
    let seconds = span.as_secs_f64().round() as u64;
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {} s", seconds / 60, seconds % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::LeftOutExperiment;

    #[test]
    fn a_summary_has_a_line_for_each_experiment_and_what_is_missing() {
        let ended = |title: &str, rows, bad, reason: Option<&str>| Ended {
            title: title.to_owned(),
            number: 1,
            of: 3,
            rows,
            bad,
            took: Duration::from_millis(102_400),
            reason: reason.map(str::to_owned),
            failed: title == "perl",
        };
        let ended = vec![
            ended("cycle", 30, 1, None),
            ended("gc", 0, 0, Some("no room")),
            ended("perl", 0, 0, Some("it broke")),
        ];
        let lines: Vec<String> = ended.iter().map(Ended::to_string).collect();
        assert_eq!(lines[0], "1 of 3 cycle: 30 rows, 1 bad, 1 min 42 s");
        assert_eq!(lines[1..], ["1 of 3 gc: left out: no room", "1 of 3 perl: FAILED: it broke"]);
        let left =
            |experiment: &str, reason: &str| LeftOutExperiment { experiment: experiment.into(), reason: reason.into() };
        let part =
            |experiment: &str, state| Part { experiment: experiment.into(), flags: String::new(), state, reason: None };
        let collection = Collection {
            left_out: vec![left("gc", "no room"), left("perl", "it failed: it broke")],
            parts: vec![part("gc", PartState::LeftOut), part("perl", PartState::Failed)],
            ..Collection::default()
        };
        let text = Summary::of(ended, &collection).to_string();
        let line = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
        let words = |name: &str| line(name).split_whitespace().collect::<Vec<&str>>();
        assert_eq!(words("cycle"), ["cycle", "30", "1", "1", "min", "42", "s"], "{text}");
        assert_eq!(words("all"), ["all", "30", "1", "5", "min", "7", "s"], "{text}");
        assert!(text.contains("left out: gc: no room") && words("gc").is_empty(), "{text}");
        assert!(text.contains("FAILED: perl: it broke") && !text.contains("left out: perl"), "{text}");
    }
}
