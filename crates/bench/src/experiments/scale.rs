//! `scale`: the same cycle with more and more sessions, at several numbers of workers and payload spreads.
//!
//! At each size all contenders that fit into memory together are measured in turns, as in `cycle`; the others follow in groups
//! of their own. Who takes too long to fill in, or does not fit at all, is left out from that size on, with the reason. What a
//! session takes, of room and of time, is assumed or tried at the first size and known from then on.

use std::collections::HashMap;

use crate::capacity::{Filling, fit};
use crate::experiments::member::too_slow;
use crate::experiments::throughput::{self, Op};
use crate::experiments::{Bench, cycle, go_on};
use crate::run::{RunError, over_limit};
use crate::selection::{Choice, Target};
use crate::spread::Spread;

/// Bytes a session by contender, from the last size that was measured.
type Known = HashMap<String, u64>;

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    let ops: Vec<Op> = bench.settings.ops.iter().copied().map(cycle::measured).collect();
    let fixed = bench.settings.payload_bytes;
    for spread in bench.settings.spreads.clone() {
        let mut choices = with_these_sizes(bench, &spread, fixed)?;
        let mut known = Known::new();
        for sessions in bench.settings.sizes.clone() {
            // From here to the end of the round these are the settings in force.
            bench.settings.spread = spread.clone();
            bench.settings.sessions = sessions;
            bench.settings.payload_bytes = spread.mean(bench.settings.seed, sessions, fixed);
            let mut waiting = in_time(bench, std::mem::take(&mut choices));
            while !waiting.is_empty() {
                go_on()?;
                let group = next_group(bench, &mut waiting, &known);
                let first_row = bench.rows.len();
                throughput::run(bench, &group, &ops)?;
                bench.rows_are_whole()?;
                let rows = bench.rows.get(first_row..).unwrap_or_default();
                known.extend(rows.iter().map(|row| (row.title(), row.bytes_per_session)));
                // Who has no row with so many sessions has none with more.
                choices.extend(group.into_iter().filter(|it| rows.iter().any(|row| row.title() == it.title())));
            }
        }
    }
    Ok(())
}

/// Contenders that take payloads of this spread; the others are left out.
fn with_these_sizes(bench: &mut Bench, spread: &Spread, fixed: usize) -> Result<Vec<Choice>, RunError> {
    let (mut choices, largest) = (Vec::new(), spread.largest(fixed));
    for choice in bench.choices.clone() {
        let of_one_size = matches!(choice.target, Target::Reference(reference) if !reference.any_size);
        let why = if *spread != Spread::Fixed && of_one_size {
            Some("its slots are of one size".to_owned())
        } else {
            over_limit(&choice, largest)?
        };
        match why {
            None => choices.push(choice),
            Some(why) => {
                let reason = format!("it has no rows with {} payloads: {why}", spread.name());
                bench.left_out.push(choice.left_out(reason));
            }
        }
    }
    Ok(choices)
}

/// Contenders that can be filled within the time for it, as fast as they were filled last; the others are left out.
fn in_time(bench: &mut Bench, choices: Vec<Choice>) -> Vec<Choice> {
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

/// Takes those from the front that fit together; of the first one nothing else is in memory.
fn next_group(bench: &mut Bench, waiting: &mut Vec<Choice>, known: &Known) -> Vec<Choice> {
    bench.remove_remains();
    let settings = bench.settings.clone();
    let (mut group, mut later) = (Vec::new(), Vec::new());
    let (mut memory, mut media) = (0, 0);
    for choice in waiting.drain(..) {
        let seen = known.get(&choice.title()).copied().filter(|bytes| *bytes > 0);
        let workers = if choice.shared_by_processes { settings.workers.iter().max().copied().unwrap_or(1) } else { 1 };
        let filling = Filling { sessions: settings.sessions, ids: settings.sessions, workers };
        match fit(&choice, &settings, filling, seen) {
            Err(why) => {
                let advice = if seen.is_some() { "" } else { "; a smaller size before it shows what it really needs" };
                bench.left_out.push(choice.left_out(why + advice));
            }
            Ok((need, room)) if memory + need.memory <= room.memory && media + need.medium <= room.medium => {
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
