//! What stores that are made of other stores have in common: the URLs inside a URL, what several
//! stores can do together, and how they are listed and swept, one after the other.

use std::time::Instant;

use sessile_core::{
    Budget, Capabilities, Cursor, Durability, Error, ErrorKind, Expiry, Filter, HeldLock,
    Operation, Ownership, Page, Result, Sessions, Stat, Swept, Waiting,
};

use crate::locks::process_local::ProcessLocal;
use crate::registry::{self, Context};

/// Opens the store of an option. `scheme` names the store that has the option.
pub fn open_inner(
    (scheme, option): (&str, &str),
    url: &str,
    defaults: &[(&str, String)],
    context: &Context,
) -> Result<Sessions> {
    registry::open_inner(url, defaults, context).map_err(|error| {
        let why = format!("the store of the option {option} cannot be opened: {error}");
        Error::new(error.kind().clone(), why).source(error).during(Operation::Open, scheme, None)
    })
}

/// What the stores in which keys live, `homes`, can do together with all others. Locks are those
/// of the first.
pub fn capabilities(homes: &[&Sessions], all: &[&Sessions]) -> Capabilities {
    let of = |stores: &[&Sessions]| stores.iter().map(|store| store.capabilities()).collect();
    let (homes, all): (Vec<Capabilities>, Vec<Capabilities>) = (of(homes), of(all));
    let tiers: Option<Vec<Durability>> = all.iter().map(|store| store.persistent_from).collect();
    let first = homes.first().copied().unwrap_or(Capabilities::MINIMAL);
    Capabilities {
        persistent_from: tiers.and_then(|tiers| tiers.into_iter().max()),
        shared_by_processes: all.iter().all(|store| store.shared_by_processes),
        shared_by_hosts: all.iter().all(|store| store.shared_by_hosts),
        foreign_writers: all.iter().any(|store| store.foreign_writers),
        server: all.iter().find_map(|store| store.server),
        waiting: if homes.iter().all(|store| store.waiting == Waiting::Event) {
            Waiting::Event
        } else {
            Waiting::Retry
        },
        ownership: if homes.iter().all(|store| store.ownership == Ownership::Process) {
            Ownership::Process
        } else {
            Ownership::Time
        },
        expiry: if homes.iter().all(|store| store.expiry == Expiry::Native) {
            Expiry::Native
        } else if homes.iter().any(|store| store.expiry == Expiry::Sweep) {
            Expiry::Sweep
        } else {
            Expiry::Changes
        },
        listing: homes.iter().all(|store| store.listing),
        owners: homes.iter().all(|store| store.owners),
        durability: if all.iter().any(|store| store.durability == [Durability::None]) {
            &[Durability::None]
        } else {
            first.durability
        },
        ..first
    }
}

/// A page of one of several stores, with the number of that store. A cursor is `NUMBER/CURSOR`:
/// the number of the store, and its own cursor, empty at its start.
pub fn list(
    stores: &[&Sessions],
    cursor: Option<&Cursor>,
    filter: &Filter,
) -> Result<(usize, Page)> {
    let parse = |text: &str| {
        let (place, inner) = text.split_once('/')?;
        let place: usize = place.parse().ok()?;
        let inner = Some(Cursor(inner.to_owned())).filter(|inner| !inner.0.is_empty());
        Some((place, *stores.get(place)?, inner))
    };
    let start = Cursor("0/".to_owned());
    let (place, store, inner) = cursor.unwrap_or(&start).parse(parse)?;
    let page = store.list(inner.as_ref(), filter)?;
    let next = match page.next {
        Some(Cursor(inner)) => Some(Cursor(format!("{place}/{inner}"))),
        None if place + 1 < stores.len() => Some(Cursor(format!("{}/", place + 1))),
        None => None,
    };
    Ok((place, Page { next, ..page }))
}

/// The locks of all stores. A store that cannot list its locks adds none.
pub fn locks(stores: &[&Sessions], limit: usize) -> Result<Vec<HeldLock>> {
    let mut locks = Vec::new();
    for store in stores {
        match store.locks(limit.saturating_sub(locks.len())) {
            Ok(held) => locks.extend(held),
            Err(error) if *error.kind() == ErrorKind::Unsupported && stores.len() > 1 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(locks)
}

/// The sum of what several stores count.
pub fn stat(stores: &[&Sessions]) -> Result<Stat> {
    let mut stat = Stat { complete: true, ..Stat::default() };
    for store in stores {
        let part = store.stat()?;
        stat.sessions += part.sessions;
        stat.expired += part.expired;
        stat.payload_bytes += part.payload_bytes;
        stat.oldest_written =
            [stat.oldest_written, part.oldest_written].into_iter().flatten().min();
        stat.complete &= part.complete;
    }
    Ok(stat)
}

/// The next store to sweep, and the stores in a row that were swept to their ends.
///
/// Processes start with different stores: otherwise processes that sweep a little and end would
/// never reach the last store.
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

/// Sweeps stores within one budget, one after the other, each from where its last sweep ended. Only
/// what the first `homes` remove counts as removed: the others have no sessions.
pub fn sweep(
    stores: &[&Sessions],
    homes: usize,
    swept_to: &ProcessLocal<SweepPosition>,
    budget: Budget,
) -> Result<Swept> {
    let start = Instant::now();
    let mut position = swept_to.take();
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
    swept_to.put(position);
    result.map(|()| done)
}
