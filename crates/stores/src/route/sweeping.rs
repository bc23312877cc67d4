//! Sweeps of several stores within one budget: one store after the other, each from where its last turn ended.
//!
//! Owns whose turn it is. Processes start with different stores, because one that sweeps a little and ends would otherwise
//! never come to the last one. Only sessions are counted as removed: a large payload is a part of one, or of none any more.

use std::sync::PoisonError;
use std::time::Instant;

use sessile_core::{Budget, Result, Swept};

use super::Route;

/// Whose turn it is, and how many stores in a row have been swept to their ends.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    next: usize,
    complete: usize,
}

impl Turn {
    pub(super) fn first() -> Turn {
        Turn { next: std::process::id() as usize, complete: 0 }
    }
}

impl Route {
    pub(super) fn sweep_in_turn(&self, budget: Budget) -> Result<Swept> {
        let start = Instant::now();
        let homes = self.homes().count();
        let stores: Vec<_> = self.all().collect();
        let mut turn = *self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = Swept::default();
        let mut outcome = Ok(());
        while !stores.is_empty() {
            let left = Budget {
                records_max: budget.records_max.saturating_sub(done.examined),
                time_max: budget.time_max.saturating_sub(start.elapsed()),
            };
            if left.records_max == 0 || left.time_max.is_zero() {
                break;
            }
            let place = turn.next % stores.len();
            let Some(store) = stores.get(place) else { break };
            match store.sweep(left) {
                Ok(swept) => {
                    done.examined += swept.examined;
                    done.removed += if place < homes { swept.removed } else { 0 };
                    if !swept.complete {
                        break;
                    }
                }
                // The others are not to wait for a store that does not answer.
                Err(error) => outcome = Err(error),
            }
            turn = Turn { next: place + 1, complete: turn.complete + 1 };
            if turn.complete >= stores.len() {
                turn.complete = 0;
                done.complete = true;
            }
            if done.complete || outcome.is_err() {
                break;
            }
        }
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = turn;
        outcome.map(|()| done)
    }
}
