//! Sweeps of several stores within one budget, one after the other, each from where its last sweep
//! ended.
//!
//! Processes start with different stores: otherwise processes that sweep a little and end would
//! never reach the last store. Large payloads do not count as removed: they are no sessions.

use std::time::Instant;

use sessile_core::{Budget, Result, Swept};

use super::Route;

/// The next store, and the stores in a row that were swept to their ends.
#[derive(Clone, Copy)]
pub struct SweepPosition {
    next: usize,
    complete: usize,
}

impl Default for SweepPosition {
    fn default() -> SweepPosition {
        SweepPosition { next: std::process::id() as usize, complete: 0 }
    }
}

pub fn sweep(route: &Route, budget: Budget) -> Result<Swept> {
    let start = Instant::now();
    let homes = route.homes().count();
    let stores: Vec<_> = route.all().collect();
    let mut position = route.swept_to.take();
    let mut done = Swept::default();
    let mut result = Ok(());
    while !stores.is_empty() {
        let left = Budget {
            records_max: budget.records_max.saturating_sub(done.examined),
            time_max: budget.time_max.saturating_sub(start.elapsed()),
        };
        if left.records_max == 0 || left.time_max.is_zero() {
            break;
        }
        let place = position.next % stores.len();
        let Some(store) = stores.get(place) else { break };
        match store.sweep(left) {
            Ok(swept) => {
                done.examined += swept.examined;
                done.removed += if place < homes { swept.removed } else { 0 };
                if !swept.complete {
                    break;
                }
            }
            // An unreachable store must not hold up the others.
            Err(error) => result = Err(error),
        }
        position = SweepPosition { next: place + 1, complete: position.complete + 1 };
        if position.complete >= stores.len() {
            position.complete = 0;
            done.complete = true;
        }
        if done.complete || result.is_err() {
            break;
        }
    }
    route.swept_to.put(position);
    result.map(|()| done)
}
