//! `oversize`: payloads from half a megabyte to eight.
//!
//! A request begins a small session and commits a large payload. The outcome combines the store's
//! answer with its content afterwards: stored, refused with the old payload in place, or lost.

use sessile_results::{Figures, Outcome, Oversize, Row, SaveOutcome};

use crate::experiments::{Bench, ReadyContender, check_interrupted, latency_of_few};
use crate::oversize::SIZES;
use crate::run::RunError;
use crate::selection::{Choice, ContenderSource};
use crate::worker::oversize::{SaveReport, SaveTask};
use crate::worker::protocol::WorkerResult;

const OP: &str = "save";

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    bench.keep_choices(|choice| match choice.target {
        ContenderSource::Reference(reference) if !reference.keeps_any_payload() => {
            Some("it stores none, or those of one size".to_owned())
        }
        _ => None,
    });
    bench.progress.expect_more(bench.choices.len() * SIZES.len());
    for choice in bench.choices.clone() {
        check_interrupted()?;
        measure(bench, &choice)?;
        bench.finish_rows()?;
    }
    Ok(())
}

fn measure(bench: &mut Bench, choice: &Choice) -> Result<(), RunError> {
    let rounds = bench.settings.rounds;
    let ids = SIZES.len() * rounds;
    let mut contender = match bench.set_up(choice, 1, 0, ids) {
        Ok(contender) => contender,
        Err(failure) => {
            check_interrupted()?;
            bench.add_failure(choice, OP, 1, 1, &failure);
            return Ok(());
        }
    };
    for (number, size) in SIZES.into_iter().enumerate() {
        bench.progress.set_message(&format!("{}: {size} bytes", choice.title()));
        let saved: WorkerResult<Vec<SaveReport>> = (number * rounds..(number + 1) * rounds)
            .map(|session| contender.group.save(SaveTask { session, payload_bytes: size }))
            .collect();
        check_interrupted()?;
        let mut row = bench.row(choice, OP, 1, 1);
        row.question.payload_bytes = size;
        row.figures.rounds = rounds;
        bench.rows.push(match saved {
            Ok(saved) => described(row, choice, &saved, &contender),
            Err(failure) => row.into_failed(contender.deployment.redact(&failure.message)),
        });
        bench.progress.advance();
    }
    Ok(())
}

/// The worst outcome of all rounds.
fn described(row: Row, choice: &Choice, saved: &[SaveReport], contender: &ReadyContender) -> Row {
    let Some(worst) = saved.iter().max_by_key(|saved| saved.outcome) else { return row };
    let count = |outcome| saved.iter().filter(|saved| saved.outcome == outcome).count() as u64;
    // A reference row shows what others lose; that is no fault of this program.
    let meant = matches!(choice.target, ContenderSource::Reference(_));
    let times = |part: fn(&SaveReport) -> u64| latency_of_few(saved.iter().map(part).collect());
    let message = worst.error.as_ref().map(|error| contender.deployment.redact(&error.message));
    Row {
        figures: Figures {
            operations: saved.len() as u64,
            latency_us: times(|saved| saved.save_ns),
            ..row.figures
        },
        outcome: Outcome {
            lost: if meant { 0 } else { count(SaveOutcome::Lost) },
            errors: count(SaveOutcome::Contradicted),
            ..row.outcome
        },
        oversize: Some(Oversize {
            outcome: worst.outcome,
            after: worst.after,
            silent: worst.error.is_none(),
            limit: worst.limit,
            read_us: times(|saved| saved.read_ns).p50,
            message,
        }),
        ..row
    }
}
