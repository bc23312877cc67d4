//! The table at the end of `all`: rows, failures and time of each part.

use std::fmt;
use std::time::Duration;

use sessile_results::collection::{Collection, PartState, SeriesPart};
use sessile_results::table::{ResultTable, right, text};

use super::FinishedPart;

#[derive(Clone, Debug)]
pub struct SeriesSummary {
    ended: Vec<FinishedPart>,
    left_out: Vec<String>,
    faults: Vec<String>,
}

impl SeriesSummary {
    pub(super) fn new(ended: Vec<FinishedPart>, collection: &Collection) -> SeriesSummary {
        let broken = ended.iter().filter(|ended| ended.state == PartState::Failed);
        let broken =
            broken.filter_map(|ended| Some(format!("{}: {}", ended.title, ended.reason.as_ref()?)));
        let bad = collection.runs.iter().flat_map(|report| {
            report
                .bad_rows()
                .map(move |row| format!("{}: {}", report.title_of(row), row.failure_line()))
        });
        let failed = |part: &&SeriesPart| part.state == PartState::Failed;
        let failed: Vec<String> =
            collection.parts.iter().filter(failed).map(SeriesPart::title).collect();
        let left_out = collection.left_out.iter().filter(|left| !failed.contains(&left.experiment));
        let left_out =
            left_out.map(|left| format!("{}: {}", left.experiment, left.reason)).collect();
        let faults = broken.chain(bad).collect();
        SeriesSummary { ended, left_out, faults }
    }
}

impl fmt::Display for SeriesSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = ResultTable::new("", ["experiment", "rows", "bad rows", "time"]);
        let mut line = |title: String, rows: usize, bad: usize, took: Duration| {
            table.row([text(title), right(rows), right(bad), right(minutes_text(took))]);
        };
        for ended in self.ended.iter().filter(|ended| ended.reason.is_none()) {
            let cut = if ended.state == PartState::Interrupted { ", interrupted" } else { "" };
            line(format!("{}{cut}", ended.title), ended.rows, ended.bad, ended.took);
        }
        let sum = |part: fn(&FinishedPart) -> usize| self.ended.iter().map(part).sum::<usize>();
        let all: Duration = self.ended.iter().map(|ended| ended.took).sum();
        line("all".to_owned(), sum(|ended| ended.rows), sum(|ended| ended.bad), all);
        writeln!(f, "{table}")?;
        for left in &self.left_out {
            writeln!(f, "left out: {left}")?;
        }
        self.faults.iter().try_for_each(|fault| writeln!(f, "FAILED: {fault}"))
    }
}

impl fmt::Display for FinishedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}: ", self.number, self.of, self.title)?;
        f.write_str(match self.state {
            PartState::Failed => "FAILED: ",
            PartState::Interrupted => "interrupted: ",
            _ if self.reason.is_some() => "left out: ",
            _ => "",
        })?;
        match &self.reason {
            Some(reason) => f.write_str(reason),
            None => write!(f, "{} rows, {} bad, {}", self.rows, self.bad, minutes_text(self.took)),
        }
    }
}

/// `1 min 42 s`, or `42 s`.
pub(crate) fn minutes_text(span: Duration) -> String {
    let seconds = span.as_secs_f64().round() as u64;
    if seconds < 60 {
        format!("{seconds} s")
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessile_results::collection::LeftOutExperiment;
    use sessile_results::{Outcome, Question, Report, Row, Settings, Subject};

    #[test]
    fn a_summary_has_a_line_for_each_experiment_and_what_is_missing() {
        let ended = |title: &str, rows, bad, state, reason: Option<&str>| FinishedPart {
            title: title.to_owned(),
            number: 1,
            of: 3,
            rows,
            bad,
            took: Duration::from_millis(102_400),
            reason: reason.map(str::to_owned),
            state,
        };
        let ended = vec![
            ended("cycle", 30, 1, PartState::Done, None),
            ended("gc", 0, 0, PartState::LeftOut, Some("no room")),
            ended("perl", 0, 0, PartState::Failed, Some("it broke")),
        ];
        let lines: Vec<String> = ended.iter().map(FinishedPart::to_string).collect();
        assert_eq!(lines[0], "1 of 3 cycle: 30 rows, 1 bad, 1 min 42 s");
        assert_eq!(lines[1..], ["1 of 3 gc: left out: no room", "1 of 3 perl: FAILED: it broke"]);
        let left = |experiment: &str, reason: &str| LeftOutExperiment {
            experiment: experiment.into(),
            reason: reason.into(),
        };
        let part = |experiment: &str, state| SeriesPart {
            experiment: experiment.into(),
            flags: String::new(),
            state,
            reason: None,
        };
        let collection = Collection {
            left_out: vec![left("gc", "no room"), left("perl", "it failed: it broke")],
            parts: vec![part("gc", PartState::LeftOut), part("perl", PartState::Failed)],
            ..Collection::default()
        };
        let text = SeriesSummary::new(ended, &collection).to_string();
        let line = |name: &str| {
            text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default()
        };
        let words = |name: &str| line(name).split_whitespace().collect::<Vec<&str>>();
        assert_eq!(words("cycle"), ["cycle", "30", "1", "1", "min", "42", "s"], "{text}");
        assert_eq!(words("all"), ["all", "30", "1", "5", "min", "7", "s"], "{text}");
        assert!(text.contains("left out: gc: no room") && words("gc").is_empty(), "{text}");
        assert!(
            text.contains("FAILED: perl: it broke") && !text.contains("left out: perl"),
            "{text}"
        );
    }

    /// `30 rows, 0 bad, 1 min` looked like a part that was done, and a bad row did not say of which
    /// form it was.
    #[test]
    fn a_part_that_a_signal_ended_says_so_and_a_bad_row_names_its_form() {
        let cut = FinishedPart {
            title: "cycle --rate 250 --workers 8".to_owned(),
            number: 1,
            of: 2,
            rows: 30,
            bad: 1,
            took: Duration::from_secs(42),
            reason: None,
            state: PartState::Interrupted,
        };
        let none =
            FinishedPart { rows: 0, reason: Some("a signal came".to_owned()), ..cut.clone() };
        assert!(cut.to_string().ends_with("workers 8: interrupted: 30 rows, 1 bad, 42 s"), "{cut}");
        assert!(none.to_string().ends_with("workers 8: interrupted: a signal came"), "{none}");
        let failed = Some("no answer".to_owned());
        let row = Row {
            question: Question { experiment: "cycle".into(), ..Question::default() },
            subject: Subject { store: "files".into(), ..Subject::default() },
            outcome: Outcome { failed, ..Outcome::default() },
            ..Row::default()
        };
        let settings = Settings { rate: Some(250.0), ..Settings::default() };
        let report = Report { settings, results: vec![row], ..Report::default() };
        let collection = Collection { runs: vec![report], ..Collection::default() };
        let text = SeriesSummary::new(vec![cut], &collection).to_string();
        assert!(text.contains("cycle --rate 250 --workers 8, interrupted"), "{text}");
        assert!(text.contains("FAILED: cycle --rate 250: "), "{text}");
    }
}
