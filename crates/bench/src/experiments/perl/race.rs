//! Two processes at once: whether a keeper separates them as its entry claims.
//!
//! Both increment a value of one session, holding it for a millisecond each time, then both create
//! sessions. A keeper that claims to lock must lose nothing. The losses of others are counted and
//! are no fault.

use sessile_results::{Race, Row};

use crate::experiments::perl::running_keeper::RunningKeeper;
use crate::perl::KeeperLocking;

/// Of each process.
const CHANGES: u64 = 250;
const SESSIONS: u64 = 250;

pub(super) fn run(keeper_process: &mut RunningKeeper) -> Race {
    let race = Race { changes: 2 * CHANGES, sessions: 2 * SESSIONS, ..Race::default() };
    match keeper_process.runner.race(CHANGES, SESSIONS) {
        Ok((changed, there)) => Race {
            changes_lost: race.changes.saturating_sub(changed),
            sessions_lost: race.sessions.saturating_sub(there),
            ..race
        },
        Err(why) => Race { broke: Some(keeper_process.redact(&why)), ..race },
    }
}

pub(super) fn add_to_row(race: Race, locking: KeeperLocking, row: &mut Row) {
    let lost = race.changes_lost + race.sessions_lost;
    if locking == KeeperLocking::Whole && row.failed.is_none() && (lost > 0 || race.broke.is_some())
    {
        row.lost += lost;
        row.failed =
            Some(format!("it is said to keep two processes apart, but with two at once: {race}"));
    }
    if let Some(figures) = &mut row.keeper {
        figures.race = Some(race);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessile_results::KeeperFigures;

    #[test]
    fn a_loss_is_a_fault_only_of_a_keeper_that_claims_to_lock() {
        let lost = Race { changes: 500, changes_lost: 3, sessions: 500, ..Race::default() };
        let broke = Race { broke: Some("the file is damaged".into()), ..Race::default() };
        let sound = Race { changes: 500, sessions: 500, ..Race::default() };
        let bad = |race: &Race, locking| {
            let mut row = Row { keeper: Some(KeeperFigures::default()), ..Row::default() };
            add_to_row(race.clone(), locking, &mut row);
            assert_eq!(row.keeper.as_ref().unwrap().race.as_ref(), Some(race));
            row.is_bad()
        };
        assert!(
            bad(&lost, KeeperLocking::Whole)
                && bad(&broke, KeeperLocking::Whole)
                && !bad(&sound, KeeperLocking::Whole)
        );
        assert!(
            !bad(&lost, KeeperLocking::Shared)
                && !bad(&lost, KeeperLocking::Nothing)
                && !bad(&broke, KeeperLocking::Shared)
        );
    }
}
