//! `oversize`: what becomes of payloads of half a megabyte to eight.
//!
//! For each contender and size: a small session is there, a request begins it and commits a large payload. The outcome is
//! what the store said beside what it holds then: stored, refused loudly with the old payload in place, or lost.

use crate::experiments::{Bench, Member, go_on};
use crate::oversize::SIZES;
use crate::report::{LatencyUs, Oversize, Row};
use crate::run::RunError;
use crate::selection::{Choice, Target};
use crate::worker::oversize::{Outcome, Save, Saved};
use crate::worker::protocol::Failure;

const OP: &str = "save";

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    bench.keep_choices(|choice| match choice.target {
        Target::Reference(reference) if !reference.any_size => Some("it stores payloads of one size".to_owned()),
        _ => None,
    });
    bench.progress.expect_more(bench.choices.len() * SIZES.len());
    for choice in bench.choices.clone() {
        go_on()?;
        measure(bench, &choice)?;
        bench.rows_are_whole()?;
    }
    Ok(())
}

fn measure(bench: &mut Bench, choice: &Choice) -> Result<(), RunError> {
    let rounds = bench.settings.rounds;
    let ids = SIZES.len() * rounds;
    let mut member = match bench.enlist(choice, 1, 0, ids) {
        Ok(member) => member,
        Err(failure) => {
            go_on()?;
            let row = bench.failed_row(choice, OP, 1, 1, &failure);
            bench.rows.push(row);
            return Ok(());
        }
    };
    for (number, size) in SIZES.into_iter().enumerate() {
        bench.progress.say(&format!("{}: {size} bytes", choice.title()));
        let saved: Result<Vec<Saved>, Failure> = (number * rounds..(number + 1) * rounds)
            .map(|session| member.crew.save(Save { session, payload_bytes: size }))
            .collect();
        go_on()?;
        let row = Row { payload_bytes: size, rounds, ..bench.row(choice, OP, 1, 1) };
        bench.rows.push(match saved {
            Ok(saved) => described(row, choice, &saved, &member),
            Err(failure) => Row { failed: Some(member.stage.redact(&failure.message)), ..row },
        });
        bench.progress.step();
    }
    Ok(())
}

/// The worst of all rounds, and how long a save took.
fn described(row: Row, choice: &Choice, saved: &[Saved], member: &Member) -> Row {
    let Some(worst) = saved.iter().max_by_key(|saved| saved.outcome) else { return row };
    let count = |outcome| saved.iter().filter(|saved| saved.outcome == outcome).count() as u64;
    // What is there to lose is no fault of the run when it does.
    let meant = matches!(choice.target, Target::Reference(reference) if reference.loses_large);
    let mut times: Vec<u64> = saved.iter().map(|saved| saved.save_ns).collect();
    times.sort_unstable();
    let us = |ns: Option<&u64>| ns.map_or(0.0, |ns| *ns as f64 / 1e3);
    let mut reads: Vec<u64> = saved.iter().map(|saved| saved.read_ns).collect();
    reads.sort_unstable();
    let message = worst.error.as_ref().map(|error| member.stage.redact(&error.message));
    Row {
        operations: saved.len() as u64,
        latency_us: LatencyUs {
            min: us(times.first()),
            p50: us(times.get(times.len() / 2)),
            max: us(times.last()),
            ..LatencyUs::default()
        },
        lost: if meant { 0 } else { count(Outcome::Lost) },
        errors: count(Outcome::Contradicted),
        oversize: Some(Oversize {
            outcome: worst.outcome,
            after: worst.after,
            silent: worst.error.is_none(),
            limit: worst.limit,
            read_us: us(reads.get(reads.len() / 2)),
            message,
        }),
        ..row
    }
}
