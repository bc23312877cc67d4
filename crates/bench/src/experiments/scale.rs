//! `scale`: the cycle with more and more sessions.
//!
//! Contenders that fit into memory together are measured in turns; the others follow in further
//! groups. A contender that fills too slowly or does not fit is left out from that size on. Space
//! and fill time of a session come from the size before.

use std::collections::HashMap;

use crate::capacity::{PlannedFill, check_fit};
use crate::experiments::ready_contender::too_slow;
use crate::experiments::throughput::{self, MeasuredOp};
use crate::experiments::{Bench, check_interrupted, cycle};
use crate::payload_spread::PayloadSpread;
use crate::run::RunError;
use crate::selection::{Choice, ContenderSource};

/// Bytes a session, by title.
type SessionBytes = HashMap<String, u64>;

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
    let mut choices = bench.choices.clone();
    let mut known = SessionBytes::new();
    for sessions in bench.settings.sizes.clone() {
        // In force until the end of the round.
        bench.settings.sessions = sessions;
        bench.settings.payload_bytes = spread.mean(bench.settings.seed, sessions, fixed);
        let mut waiting = fillable_in_time(bench, std::mem::take(&mut choices));
        while !waiting.is_empty() {
            check_interrupted()?;
            let group = next_group(bench, &mut waiting, &known);
            let first_row = bench.rows.len();
            throughput::run(bench, &group, &ops)?;
            bench.finish_rows()?;
            let rows = bench.rows.get(first_row..).unwrap_or_default();
            known.extend(rows.iter().map(|row| (row.title(), row.bytes_per_session)));
            // A contender without a row at this size has none at a larger one.
            choices.extend(
                group.into_iter().filter(|it| rows.iter().any(|row| row.title() == it.title())),
            );
        }
    }
    Ok(())
}

/// Leaves out contenders that take too long at their last fill rate.
fn fillable_in_time(bench: &mut Bench, choices: Vec<Choice>) -> Vec<Choice> {
    let Some(most) = bench.settings.fill_max else { return choices };
    let mut rest = Vec::new();
    for choice in choices {
        let session_ns = bench.fill_ns.get(&choice.title()).copied().unwrap_or(0.0);
        if session_ns * bench.settings.sessions as f64 > most.as_nanos() as f64 {
            let reason = too_slow(&bench.settings, session_ns);
            bench.left_out.push(choice.left_out(reason));
        } else {
            rest.push(choice);
        }
    }
    rest
}

/// Takes contenders from the front while they fit into memory together.
fn next_group(bench: &mut Bench, waiting: &mut Vec<Choice>, known: &SessionBytes) -> Vec<Choice> {
    bench.clean_up_stores();
    let settings = bench.settings.clone();
    let (mut group, mut later) = (Vec::new(), Vec::new());
    let (mut memory, mut media) = (0, 0);
    for choice in waiting.drain(..) {
        let seen = known.get(&choice.title()).copied().filter(|bytes| *bytes > 0);
        let workers = if choice.shared_by_processes {
            settings.workers.iter().max().copied().unwrap_or(1)
        } else {
            1
        };
        let filling = PlannedFill { sessions: settings.sessions, ids: settings.sessions, workers };
        match check_fit(&choice, &settings, filling, seen) {
            Err(why) => {
                let advice = if seen.is_some() {
                    ""
                } else {
                    "; a smaller size before it shows what it really needs"
                };
                bench.left_out.push(choice.left_out(why + advice));
            }
            Ok((need, room))
                if memory + need.memory <= room.memory && media + need.medium <= room.medium =>
            {
                memory += need.memory;
                media += need.medium;
                group.push(choice);
            }
            Ok(_) => later.push(choice),
        }
    }
    *waiting = later;
    group
}
