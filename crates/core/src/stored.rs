//! The state of a session in a store (record, tombstone or alias), and the rules that follow from
//! it.
//!
//! Plain data, and functions of data and time: a store decodes its bytes into [`Stored`], asks
//! here, and encodes the answer.
//!
//! ```text
//!                 create, commit                 regenerate
//!      Nothing ------------------> Live ------------------------> Alias (of the old id)
//!         ^                         |                               |
//!         |         expires         |  destroy                      |  destroy
//!         +-------------------------+-----------> Tombstone <-------+
//!         |                                           |             |
//!         +---------------- forgotten ----------------+-------------+
//! ```
//!
//! Not here: locks, fences and bytes.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::{Absence, ErrorKind, Found, Head, Key, Limits, Record, Result, Timestamp, Ttl};

/// The content of a key, without the payload. `K` is the store's name for the target of an alias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stored<K = Key> {
    /// Nothing.
    #[default]
    Nothing,
    /// A record, perhaps expired.
    Live(Head),
    /// The session was destroyed. An earlier lease may not bring it back.
    Tombstone {
        /// Differs from the mark of every other tombstone of this key.
        mark: u64,
        /// The moment from which the tombstone is forgotten.
        forget: Timestamp,
    },
    /// The id was regenerated.
    Alias {
        /// The new id, valid during the grace.
        target: K,
        /// The moment from which the id leads nowhere: it is spent.
        grace_ends: Timestamp,
        /// The moment from which the alias is forgotten.
        forget: Timestamp,
    },
}

impl<K> Stored<K> {
    /// The tombstone that `destroy` leaves. `mark` must differ from that of every other tombstone
    /// of the key.
    pub fn tombstone(mark: u64, now: Timestamp) -> Stored<K> {
        Stored::Tombstone { mark, forget: now.plus(Limits::TOMBSTONE_TTL) }
    }

    /// The alias that `regenerate` leaves under the old id.
    pub fn alias(target: K, grace: Duration, now: Timestamp) -> Stored<K> {
        let grace_ends = now.plus(grace);
        Stored::Alias { target, grace_ends, forget: grace_ends.plus(Limits::TOMBSTONE_TTL) }
    }

    /// The head of the record, live or expired.
    pub fn head(&self) -> Option<Head> {
        match self {
            Stored::Live(head) => Some(*head),
            _ => None,
        }
    }

    /// The head of the record, unless it has expired.
    pub fn live(&self, now: Timestamp) -> Option<Head> {
        self.head().filter(|head| !head.expired(now))
    }

    /// The target of the alias at `now`.
    pub fn leads_to(&self, now: Timestamp) -> Option<&K> {
        match self {
            Stored::Alias { target, grace_ends, .. } if *grace_ends > now => Some(target),
            _ => None,
        }
    }

    /// The target of the alias, also after its grace.
    pub fn regenerated_to(&self) -> Option<&K> {
        match self {
            Stored::Alias { target, .. } => Some(target),
            _ => None,
        }
    }

    /// Whether the id is taken for `create` and `regenerate`. Destroyed, expired and spent ids are
    /// free.
    pub fn takes_id(&self, now: Timestamp) -> bool {
        self.live(now).is_some() || self.leads_to(now).is_some()
    }

    /// The result of a look-up of this key; `Continue` with the target of an alias. `payload` is
    /// that of the record, empty without one.
    #[inline]
    pub fn look_up(self, payload: Vec<u8>, now: Timestamp) -> ControlFlow<Found, K> {
        let absence = match self {
            Stored::Alias { target, grace_ends, .. } if grace_ends > now => {
                return ControlFlow::Continue(target);
            }
            Stored::Live(head) if !head.expired(now) => {
                let record = Some(Record { payload, head });
                return ControlFlow::Break(Found { record, ..Found::default() });
            }
            Stored::Tombstone { forget, .. } if forget > now => Absence::Destroyed,
            Stored::Alias { forget, .. } if forget > now => Absence::Regenerated,
            _ => Absence::Unknown,
        };
        ControlFlow::Break(Found { absence, ..Found::default() })
    }

    /// The head after a touch: only `expires` and `ends` move.
    ///
    /// # Errors
    ///
    /// `Gone` when there is no live record.
    pub fn touched(&self, ttl: Ttl, now: Timestamp) -> Result<Head> {
        let head = self.live(now).ok_or(ErrorKind::Gone)?;
        let (expires, ends) = ttl.deadline(now, head.created, head.ends);
        Ok(Head { expires, ends, ..head })
    }

    /// The moment from which a sweep may remove it; `None` for nothing.
    pub fn due(&self) -> Option<Timestamp> {
        match self {
            Stored::Nothing => None,
            Stored::Live(head) => Some(head.expires),
            Stored::Tombstone { forget, .. } | Stored::Alias { forget, .. } => Some(*forget),
        }
    }

    /// Whether a lease may still change the record. `self` was read at `begun`; `stored` is the
    /// present content, read under the lock or in the transaction of the change.
    ///
    /// Returns the head that the change continues from, or `None` when the lease may create one.
    ///
    /// | read | stored now | |
    /// | --- | --- | --- |
    /// | live | the same record (version and creation), perhaps touched, perhaps expired | go on |
    /// | live | tombstone | `Destroyed` |
    /// | live | another record, or an alias | `Stale` |
    /// | live | nothing | `Gone` |
    /// | no live record | nothing | create, if a tombstone would still be there; else `Gone` |
    /// | no live record | the tombstone that was read | create |
    /// | no live record | another tombstone | `Destroyed` |
    /// | no live record | a live record, or an alias within its grace | `Stale` |
    /// | no live record | an expired record, or a spent alias | create |
    ///
    pub fn check_lease(
        &self,
        stored: &Stored<K>,
        begun: Timestamp,
        now: Timestamp,
    ) -> Result<Option<Head>> {
        let read_mark = match self {
            Stored::Tombstone { mark, .. } => Some(mark),
            _ => None,
        };
        match (self.live(begun), stored) {
            (Some(read), Stored::Live(head))
                if (read.version, read.created) == (head.version, head.created) =>
            {
                Ok(Some(*head))
            }
            (None, Stored::Tombstone { mark, .. }) if read_mark == Some(mark) => Ok(None),
            (_, Stored::Tombstone { .. }) => Err(ErrorKind::Destroyed.into()),
            (Some(_), Stored::Nothing) => Err(ErrorKind::Gone.into()),
            // After this time a tombstone is forgotten, and its absence proves nothing.
            (None, Stored::Nothing) if now.since(begun) >= Limits::TOMBSTONE_TTL => {
                Err(ErrorKind::Gone.into())
            }
            (Some(_), _) => Err(ErrorKind::Stale.into()),
            (None, stored) if stored.takes_id(now) => Err(ErrorKind::Stale.into()),
            (None, _) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    const HOUR_MS: u64 = 3_600_000;
    /// Every kind, in each of its ages at the moment 100.
    const HEAD: Head = Head {
        version: 3,
        created: ms(1),
        written: ms(50),
        expires: ms(101),
        ends: None,
        owner: None,
    };
    const LIVE: Stored<u8> = Stored::Live(HEAD);
    const EXPIRED: Stored<u8> = Stored::Live(Head { expires: ms(100), ..HEAD });
    const TOUCHED: Stored<u8> =
        Stored::Live(Head { expires: ms(900), ends: Some(ms(950)), ..HEAD });
    const NEXT: Stored<u8> = Stored::Live(Head { version: 4, ..HEAD });
    const ANOTHER: Stored<u8> = Stored::Live(Head { created: ms(2), ..HEAD });
    const TOMBSTONE: Stored<u8> = Stored::Tombstone { mark: 7, forget: ms(101) };
    const ANOTHER_TOMBSTONE: Stored<u8> = Stored::Tombstone { mark: 8, forget: ms(101) };
    const FORGOTTEN_TOMBSTONE: Stored<u8> = Stored::Tombstone { mark: 7, forget: ms(100) };
    const ALIAS: Stored<u8> = Stored::Alias { target: 9, grace_ends: ms(101), forget: ms(200) };
    const SPENT: Stored<u8> = Stored::Alias { target: 9, grace_ends: ms(100), forget: ms(101) };
    const FORGOTTEN_ALIAS: Stored<u8> =
        Stored::Alias { target: 9, grace_ends: ms(50), forget: ms(100) };
    const ALL: [Stored<u8>; 12] = [
        Stored::Nothing,
        LIVE,
        EXPIRED,
        TOUCHED,
        NEXT,
        ANOTHER,
        TOMBSTONE,
        ANOTHER_TOMBSTONE,
        FORGOTTEN_TOMBSTONE,
        ALIAS,
        SPENT,
        FORGOTTEN_ALIAS,
    ];

    #[test]
    fn each_kind_and_age_is_looked_up_as_the_contract_says() {
        let at = ms(100);
        for stored in ALL {
            let payload = b"cart".to_vec();
            let found = stored.look_up(payload.clone(), at);
            let live = |head| Found {
                record: Some(Record { payload: payload.clone(), head }),
                ..Found::default()
            };
            let absent = |absence| Found { absence, ..Found::default() };
            let expected = match stored {
                ALIAS => ControlFlow::Continue(9),
                EXPIRED => ControlFlow::Break(absent(Absence::Unknown)),
                Stored::Live(head) => ControlFlow::Break(live(head)),
                TOMBSTONE | ANOTHER_TOMBSTONE => ControlFlow::Break(absent(Absence::Destroyed)),
                SPENT => ControlFlow::Break(absent(Absence::Regenerated)),
                _ => ControlFlow::Break(absent(Absence::Unknown)),
            };
            assert_eq!(found, expected, "{stored:?}");
            let taken = matches!(stored, LIVE | TOUCHED | NEXT | ANOTHER | ALIAS);
            assert_eq!(stored.takes_id(at), taken, "{stored:?}");
            assert_eq!(stored.leads_to(at), (stored == ALIAS).then_some(&9), "{stored:?}");
            assert_eq!(stored.live(at).is_some(), taken && stored != ALIAS, "{stored:?}");
        }
    }

    #[test]
    fn a_touch_moves_the_expiry_alone_and_only_of_a_live_record() {
        let ttl = Ttl::sliding(Duration::from_millis(300)).unwrap();
        for stored in ALL {
            let touched = stored.touched(ttl, ms(100)).ok();
            let expected = stored.live(ms(100)).map(|head| {
                Head { expires: ms(400), ..head } // an absolute end at 950 is no bound
            });
            assert_eq!(touched, expected, "{stored:?}");
        }
        let capped = Stored::<u8>::Live(Head { ends: Some(ms(350)), ..HEAD });
        assert_eq!(capped.touched(ttl, ms(100)).unwrap().expires, ms(350));
        assert_eq!(*SPENT.touched(ttl, ms(100)).unwrap_err().kind(), ErrorKind::Gone);
    }

    #[test]
    fn a_sweep_removes_each_kind_at_its_own_time() {
        for (stored, due) in [
            (Stored::Nothing, None),
            (LIVE, Some(ms(101))),
            (TOMBSTONE, Some(ms(101))),
            (ALIAS, Some(ms(200))),
        ] {
            assert_eq!(stored.due(), due, "{stored:?}");
        }
    }

    #[test]
    fn tombstone_and_alias_are_remembered_for_an_hour() {
        assert_eq!(Stored::<u8>::tombstone(7, ms(5)).due(), Some(ms(5 + HOUR_MS)));
        let alias = Stored::alias(9, Duration::from_millis(10), ms(5));
        assert_eq!(alias.leads_to(ms(14)), Some(&9));
        assert_eq!((alias.leads_to(ms(15)), alias.due()), (None, Some(ms(15 + HOUR_MS))));
        let none = Stored::alias(9, Duration::ZERO, ms(5));
        assert_eq!(none.leads_to(ms(5)), None, "a grace of zero leads nowhere");
    }

    /// Every pair of what was read and what is there: the whole table of `check_lease`.
    #[test]
    fn a_lease_changes_only_what_it_has_read() {
        for read in ALL {
            for stored in ALL {
                let (begun, now) = (ms(100), ms(100));
                let checked = read.check_lease(&stored, begun, now).map_err(|error| {
                    let kind = error.kind().clone();
                    kind.code()
                });
                let same_record = |head: Head| (head.version, head.created) == (3, ms(1));
                let expected = match (read, stored) {
                    (LIVE | TOUCHED, Stored::Live(head)) if same_record(head) => Ok(Some(head)),
                    (NEXT, NEXT) | (ANOTHER, ANOTHER) => Ok(stored.live(now)),
                    (LIVE | TOUCHED | NEXT | ANOTHER, Stored::Nothing) => Err("gone"),
                    (TOMBSTONE | FORGOTTEN_TOMBSTONE, TOMBSTONE | FORGOTTEN_TOMBSTONE) => Ok(None),
                    (ANOTHER_TOMBSTONE, ANOTHER_TOMBSTONE) => Ok(None),
                    (_, Stored::Tombstone { .. }) => Err("destroyed"),
                    (LIVE | TOUCHED | NEXT | ANOTHER, _) => Err("stale"),
                    (_, LIVE | TOUCHED | NEXT | ANOTHER | ALIAS) => Err("stale"),
                    _ => Ok(None),
                };
                assert_eq!(checked, expected, "read {read:?}, stored {stored:?}");
            }
        }
    }

    #[test]
    fn a_record_that_expires_under_its_lease_goes_on() {
        let later = ms(5_000);
        assert_eq!(LIVE.check_lease(&LIVE, ms(100), later).unwrap(), Some(HEAD));
        assert_eq!(EXPIRED.check_lease(&EXPIRED, ms(100), later).unwrap(), None, "it was none");
    }

    #[test]
    fn nothing_read_and_nothing_there_proves_nothing_once_tombstones_are_forgotten() {
        let check = |now_ms| Stored::<u8>::Nothing.check_lease(&Stored::Nothing, ms(0), ms(now_ms));
        assert_eq!(check(HOUR_MS - 1).unwrap(), None);
        assert_eq!(check(HOUR_MS).unwrap_err().kind().code(), "gone");
    }
}
