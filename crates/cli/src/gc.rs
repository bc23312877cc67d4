//! `sessile gc`: removes all expired sessions, in small steps with rests, which requests hardly
//! notice.
//!
//! The steps are those of `Store::sweep`. Killing this process between two steps is safe.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sessile_core::{Budget, Expiry, Sessions};

use crate::arguments::GcArguments;
use crate::command_result::{CommandFailure, CommandResult};
use crate::existing_store;
use crate::terminal::{Spinner, print_as};
use crate::units;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct GcTotals {
    examined: u64,
    removed: u64,
    steps: u64,
    longest_step: Duration,
    rested: Duration,
    elapsed: Duration,
    complete: bool,
}

/// Sweeps until the pass is complete or the time limit is reached.
pub fn run(arguments: &GcArguments) -> CommandResult {
    let store = existing_store::open(&arguments.url)?;
    let collected = collect(&store, arguments)?;
    let text = || as_text(&collected, store.capabilities().expiry);
    print_as(arguments.json, || as_json(store.label(), &collected), text)
}

fn collect(store: &Sessions, arguments: &GcArguments) -> Result<GcTotals, CommandFailure> {
    let budget = Budget { records_max: arguments.batch, time_max: arguments.step };
    let limit = arguments.stop_after;
    let (spinner, start) = (Spinner::new(), Instant::now());
    let mut collected = GcTotals::default();
    loop {
        let step = Instant::now();
        let swept = store.sweep(budget)?;
        collected.steps += 1;
        collected.examined += swept.examined;
        collected.removed += swept.removed;
        let took = step.elapsed();
        collected.longest_step = collected.longest_step.max(took);
        collected.elapsed = start.elapsed();
        collected.complete = swept.complete;
        let (removed, examined) =
            (units::count(collected.removed), units::count(collected.examined));
        spinner.set_message(format!("{removed} removed of {examined} looked at"));
        if swept.complete || limit.is_some_and(|limit| collected.elapsed >= limit) {
            return Ok(collected);
        }
        let left = limit.map_or(Duration::MAX, |limit| limit.saturating_sub(collected.elapsed));
        let resting = Instant::now();
        std::thread::sleep(arguments.pause.after(took).min(left));
        collected.rested += resting.elapsed();
    }
}

fn as_text(collected: &GcTotals, expiry: Expiry) -> String {
    let removed = units::with_noun(collected.removed, "expired session");
    let (examined, steps) =
        (units::count(collected.examined), units::with_noun(collected.steps, "step"));
    let (elapsed, longest) =
        (units::duration(collected.elapsed), units::duration(collected.longest_step));
    let mut text = format!(
        "removed {removed} of {examined} looked at, in {elapsed} ({steps}, the longest {longest})\n"
    );
    if !collected.complete {
        text.push_str("the time was up before the end; the next call goes on or begins anew\n");
    }
    if expiry == Expiry::Native {
        text.push_str("this store removes expired sessions by itself; it needs no gc\n");
    }
    text
}

fn as_json(label: &str, collected: &GcTotals) -> Value {
    json!({
        "schema": 1,
        "store": label,
        "removed": collected.removed,
        "examined": collected.examined,
        "steps": collected.steps,
        "longest_step_ms": collected.longest_step.as_secs_f64() * 1_000.0,
        "rested_seconds": collected.rested.as_secs_f64(),
        "seconds": collected.elapsed.as_secs_f64(),
        "complete": collected.complete,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_that_was_cut_short_is_not_told_as_complete() {
        let collected = GcTotals { removed: 1, examined: 2_000, steps: 2, ..GcTotals::default() };
        let text = as_text(&collected, Expiry::Sweep);
        assert!(
            text.starts_with("removed 1 expired session of 2 000 looked at, in 0 ms (2 steps"),
            "{text}"
        );
        assert!(text.contains("the time was up"));
        let complete = GcTotals { complete: true, ..collected };
        assert_eq!(as_text(&complete, Expiry::Sweep).lines().count(), 1);
        assert!(as_text(&complete, Expiry::Native).contains("by itself"));
    }
}
