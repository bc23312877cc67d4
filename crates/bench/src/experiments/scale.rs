//! `scale`: the cycle with more and more sessions.
//!
//! Each contender is measured alone, from its smallest size on: its rows are held against each
//! other. A contender that fills too slowly or does not fit is left out from that size on. Space
//! and fill time of a session come from the size before.

use crate::experiments::ready_contender::too_slow;
use crate::experiments::throughput::{self, MeasuredOp};
use crate::experiments::{Bench, check_interrupted, cycle};
use crate::payload_spread::PayloadSpread;
use crate::run::RunError;
use crate::selection::{Choice, ContenderSource};

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    let ops: Vec<MeasuredOp> = bench.settings.ops.iter().copied().map(cycle::measured_op).collect();
    let (fixed, spread) = (bench.settings.payload_bytes, bench.settings.spread.clone());
    if spread != PayloadSpread::Fixed {
        bench.keep_choices(|choice| match choice.target {
            ContenderSource::Reference(reference) if !reference.any_size => {
                Some("its slots are of one size".to_owned())
            }
            _ => None,
        });
    }
    for choice in bench.choices.clone() {
        let mut seen = None;
        bench.fill_ns = 0.0;
        for sessions in bench.settings.sizes.clone() {
            check_interrupted()?;
            // In force until the end of the round.
            bench.settings.sessions = sessions;
            bench.settings.payload_bytes = spread.mean(bench.settings.seed, sessions, fixed);
            if !is_reachable(bench, &choice, seen) {
                break;
            }
            let first_row = bench.rows.len();
            throughput::run(bench, std::slice::from_ref(&choice), &ops)?;
            bench.finish_rows()?;
            // Without a row at this size there is none at a larger one.
            let Some(row) = bench.rows.get(first_row) else { break };
            seen = Some(row.figures.bytes_per_session).filter(|bytes| *bytes > 0);
        }
    }
    Ok(())
}

/// Leaves out a contender without room, or which takes too long at its last fill rate.
fn is_reachable(bench: &mut Bench, choice: &Choice, seen: Option<u64>) -> bool {
    let settings = &bench.settings;
    let (sessions, workers) = (settings.sessions, settings.workers.iter().max().copied());
    let most_ns = settings.fill_max.map_or(f64::INFINITY, |most| most.as_nanos() as f64);
    if bench.fill_ns * sessions as f64 > most_ns {
        let reason = too_slow(settings, bench.fill_ns);
        bench.left_out.push(choice.left_out(reason));
        return false;
    }
    let workers = if choice.shared_by_processes { workers.unwrap_or(1) } else { 1 };
    bench.has_room(choice, sessions, sessions * workers, seen)
}
