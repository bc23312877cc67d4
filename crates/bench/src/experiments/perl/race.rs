//! Two processes at once: whether a keeper keeps them apart as its entry says.
//!
//! Both add one to a value of one session, each time holding it for a millisecond as a request does; then both make sessions. Of
//! one that says it locks, nothing may be lost; of the others it is counted what was, which is no fault of the row.

use crate::experiments::perl::home::Home;
use crate::perl::Locking;
use crate::report::{Race, Row};

/// What each of the two does.
const CHANGES: u64 = 250;
const SESSIONS: u64 = 250;

pub(super) fn run(home: &mut Home) -> Race {
    let race = Race { changes: 2 * CHANGES, sessions: 2 * SESSIONS, ..Race::default() };
    match home.runner.race(CHANGES, SESSIONS) {
        Ok((changed, there)) => Race {
            changes_lost: race.changes.saturating_sub(changed),
            sessions_lost: race.sessions.saturating_sub(there),
            ..race
        },
        Err(why) => Race { broke: Some(home.redact(&why)), ..race },
    }
}

/// Puts it on a row of its keeper.
pub(super) fn put_on(race: Race, locking: Locking, row: &mut Row) {
    let lost = race.changes_lost + race.sessions_lost;
    if locking == Locking::Whole && row.failed.is_none() && (lost > 0 || race.broke.is_some()) {
        row.lost += lost;
        row.failed = Some(format!("it is said to keep two processes apart, but with two at once: {race}"));
    }
    if let Some(figures) = &mut row.keeper {
        figures.race = Some(race);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::KeeperFigures;

    #[test]
    fn a_loss_is_a_fault_only_of_who_is_said_to_lock() {
        let lost = Race { changes: 500, changes_lost: 3, sessions: 500, ..Race::default() };
        let broke = Race { broke: Some("the file is damaged".into()), ..Race::default() };
        let sound = Race { changes: 500, sessions: 500, ..Race::default() };
        let bad = |race: &Race, locking| {
            let mut row = Row { keeper: Some(KeeperFigures::default()), ..Row::default() };
            put_on(race.clone(), locking, &mut row);
            assert_eq!(row.keeper.as_ref().unwrap().race.as_ref(), Some(race));
            row.is_bad()
        };
        assert!(bad(&lost, Locking::Whole) && bad(&broke, Locking::Whole) && !bad(&sound, Locking::Whole));
        assert!(!bad(&lost, Locking::Shared) && !bad(&lost, Locking::Nothing) && !bad(&broke, Locking::Shared));
    }
}
