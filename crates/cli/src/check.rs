//! `sessile check`: checks the integrity of a store, with pauses. Changes no session.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sessile_core::Verified;
use sessile_scan::Pause;

use crate::arguments::CheckArguments;
use crate::command_result::{CommandFailure, CommandResult};
use crate::existing_store;
use crate::terminal::{Spinner, print_as};
use crate::units;

/// Checks the store. Prints problems and fails if there are any.
pub fn run(arguments: &CheckArguments) -> CommandResult {
    let store = existing_store::open_to_look(&arguments.url)?;
    let start = Instant::now();
    let verified = {
        let spinner = Spinner::new();
        let mut batches = Batches::new(arguments.batch, arguments.pause);
        store.verify(&mut |checked| {
            spinner.set_message(format!("{} checked", units::count(checked)));
            if let Some(pause) = batches.pause_at(checked) {
                std::thread::sleep(pause);
                batches.begin(checked);
            }
        })
    };
    let verified = verified?;
    let (label, seconds) = (store.label(), start.elapsed().as_secs_f64());
    print_as(arguments.json, || as_json(label, &verified, seconds), || as_text(&verified))?;
    judge(label, &verified)
}

/// The batches of a check, told by its progress, which some stores report for several passes.
struct Batches {
    size: u64,
    pause: Pause,
    /// The entries that were checked before this batch.
    before: u64,
    /// `None` before the first report: a store may check a database as a whole first.
    began: Option<Instant>,
}

impl Batches {
    fn new(size: u64, pause: Pause) -> Batches {
        Batches { size, pause, before: 0, began: None }
    }

    /// The pause, if a batch ends here.
    fn pause_at(&mut self, checked: u64) -> Option<Duration> {
        if checked < self.before {
            self.begin(0); // another pass
        }
        let is_full = checked - self.before >= self.size;
        let began = *self.began.get_or_insert_with(Instant::now);
        is_full.then(|| self.pause.after(began.elapsed()))
    }

    fn begin(&mut self, checked: u64) {
        (self.before, self.began) = (checked, Some(Instant::now()));
    }
}

fn problems(verified: &Verified) -> u64 {
    verified.unlisted.saturating_add(verified.problems.len() as u64)
}

fn as_text(verified: &Verified) -> String {
    let mut text = String::new();
    for problem in &verified.problems {
        text.push_str(&format!("problem: {problem}\n"));
    }
    if verified.unlisted > 0 {
        text.push_str(&format!("and {}\n", units::with_noun(verified.unlisted, "further problem")));
    }
    let (checked, found) = (units::count(verified.checked), problems(verified));
    text.push_str(&format!("{checked} checked, {}\n", units::with_noun(found, "problem")));
    text
}

fn as_json(label: &str, verified: &Verified, seconds: f64) -> Value {
    json!({
        "schema": 1,
        "store": label,
        "clean": verified.problems.is_empty(),
        "checked": verified.checked,
        "problems": problems(verified),
        "listed": verified.problems,
        "seconds": seconds,
    })
}

fn judge(label: &str, verified: &Verified) -> CommandResult {
    if verified.problems.is_empty() {
        return Ok(());
    }
    let found = units::with_noun(problems(verified), "problem");
    Err(CommandFailure::found(format!("{label}: {found} found; no session was changed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_ends_with_a_pause_also_in_a_second_pass() {
        let mut batches = Batches::new(500, Pause::AtLeast(Duration::from_millis(5)));
        let mut pauses = Vec::new();
        for checked in [256, 512, 768, 1_024, 1_100, 256, 500, 700] {
            if let Some(pause) = batches.pause_at(checked) {
                assert!(pause >= Duration::from_millis(5), "{pause:?}");
                pauses.push(checked);
                batches.begin(checked);
            }
        }
        assert_eq!(pauses, [512, 1_024, 500]);
        assert_eq!(Batches::new(1, Pause::NONE).pause_at(1), Some(Duration::ZERO));
    }

    #[test]
    fn problems_are_listed_counted_and_a_failure() {
        let mut verified = Verified { checked: 5_000, ..Verified::default() };
        assert!(judge("toy:", &verified).is_ok());
        (0..Verified::PROBLEMS_LISTED_MAX + 1)
            .for_each(|_| verified.note("a record does not fit its checksum"));
        let text = as_text(&verified);
        assert!(text.ends_with("and 1 further problem\n5 000 checked, 1 001 problems\n"), "{text}");
        assert!(judge("toy:", &verified).is_err());
        let json = as_json("toy:", &verified, 0.5);
        assert_eq!((&json["clean"], &json["problems"]), (&json!(false), &json!(1_001)));
    }
}
