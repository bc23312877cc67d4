//! `sessile verify`: is what a store holds still sound? Changes nothing.

use std::time::Instant;

use serde_json::{Value, json};
use sessile_core::Verified;

use crate::arguments::VerifyArguments;
use crate::opened;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{Progress, print};
use crate::units;

/// Checks the store. Problems are printed, and are a failure of the command with a code of their own.
pub fn run(arguments: &VerifyArguments) -> Outcome {
    let store = opened::open(&arguments.url)?;
    let start = Instant::now();
    let verified = {
        let progress = Progress::new();
        store.verify(&mut |checked| progress.say(format!("{} checked", units::count(checked))))
    };
    let verified = verified.map_err(|error| opened::failure(&error))?;
    if arguments.json {
        print(&format!("{:#}\n", as_json(store.label(), &verified, start.elapsed().as_secs_f64())))?;
    } else {
        print(&as_text(&verified))?;
    }
    judge(store.label(), &verified)
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
        text.push_str(&format!("and {}\n", units::things(verified.unlisted, "further problem", "further problems")));
    }
    let (checked, found) = (units::count(verified.checked), problems(verified));
    text.push_str(&format!("{checked} checked, {}\n", units::things(found, "problem", "problems")));
    text
}

fn as_json(label: &str, verified: &Verified, seconds: f64) -> Value {
    json!({
        "schema": 1,
        "store": label,
        "clean": verified.clean(),
        "checked": verified.checked,
        "problems": problems(verified),
        "listed": verified.problems,
        "seconds": seconds,
    })
}

fn judge(label: &str, verified: &Verified) -> Outcome {
    if verified.clean() {
        return Ok(());
    }
    let found = units::things(problems(verified), "problem", "problems");
    Err(Failure::found(format!("{label}: {found} found; nothing was changed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_listed_counted_and_a_failure() {
        let mut verified = Verified { checked: 5_000, ..Verified::default() };
        assert!(judge("toy:", &verified).is_ok());
        (0..Verified::PROBLEMS_LISTED_MAX + 1).for_each(|_| verified.note("a record does not fit its checksum"));
        let text = as_text(&verified);
        assert!(text.ends_with("and 1 further problem\n5 000 checked, 1 001 problems\n"), "{text}");
        assert!(judge("toy:", &verified).is_err());
        let json = as_json("toy:", &verified, 0.5);
        assert_eq!((&json["clean"], &json["problems"]), (&json!(false), &json!(1_001)));
    }
}
