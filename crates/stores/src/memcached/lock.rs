//! The bytes of a lock item, and what can be told from them alone.
//!
//! ```text
//! offset 0       1       17         21         25      33  34    38      46         34+n
//!        | state | token | lock_ttl | native_s | taken | n | pid | since | host ... | waiter ...
//! bytes    1       16      4          4          8       1   4     8       0 to 64    16 each
//! ```
//!
//! * `state`: `L`, held by `token`, or `R`, reserved for the waiter with `token`, which has to come
//!   and take it.
//! * `lock_ttl`: in ms.
//! * `taken`: the system time in ms when it was taken or renewed.
//! * `native_s`: the life that the item got then. The server tells what is left of it, so there are
//!   two clocks to see that a lock has lapsed.
//! * `n`: the length of the note (process, since, host; see `locks::token`).
//! * the waiters in order of arrival: each appends its token, without reading the lock.
//!
//! The bytes may be foreign: nothing is assumed.

use std::time::Duration;

use sessile_core::{Clock, Holder, Timestamp};

use super::reply::{Cas, Item};
use super::request::Commands;
use crate::locks::token::{self, Token};

/// More waiters than this do not queue; they look every few ms.
pub const WAITERS_MAX: usize = 256;
/// A lapsed lock stays this much longer, so that a takeover knows that there was a holder.
const LAPSED_KEPT: Duration = Duration::from_secs(3_600);
/// A reserved lock goes by itself after this many seconds, if nobody is left who would take it.
const RESERVED_LIFE_S: u32 = 2;

const NOTE_AT: usize = 34;
const TOKEN_BYTES: usize = size_of::<Token>();

pub const HELD: u8 = b'L';
pub const RESERVED: u8 = b'R';

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// [`HELD`] or [`RESERVED`]; 0, and the rest empty, for bytes that are not ours.
    pub state: u8,
    pub token: Token,
    lock_ttl_ms: u32,
    native_s: u32,
    taken: Timestamp,
    note: Vec<u8>,
    pub waiters: Vec<Token>,
    /// The number of the item that the server has shown.
    pub cas: Cas,
    /// What is left of the item's life, in seconds.
    life_s: Option<u32>,
}

impl Lock {
    /// A lock that is taken now. `since` is when its holder began to hold it.
    pub fn held(token: Token, lock_ttl: Duration, since: Timestamp, waiters: Vec<Token>) -> Lock {
        let native_s = u32::try_from((lock_ttl + LAPSED_KEPT).as_secs() + 1).unwrap_or(u32::MAX);
        Lock {
            state: HELD,
            token,
            lock_ttl_ms: u32::try_from(lock_ttl.as_millis()).unwrap_or(u32::MAX),
            native_s,
            taken: Clock::system().now(),
            note: token::holder_bytes(since),
            waiters,
            cas: Cas::default(),
            life_s: Some(native_s),
        }
    }

    pub fn of(item: &Item) -> Lock {
        let lock = Lock::decode(&item.value).unwrap_or_default();
        Lock { cas: item.cas, life_s: item.life_s, ..lock }
    }

    /// The lock after its release, reserved for the first waiter. `None` without waiters.
    pub fn handed_over(&self) -> Option<Lock> {
        let first = *self.waiters.first()?;
        Some(Lock {
            state: RESERVED,
            token: first,
            native_s: RESERVED_LIFE_S,
            taken: Clock::system().now(),
            note: Vec::new(),
            waiters: self.waiters_without(&first),
            life_s: Some(RESERVED_LIFE_S),
            ..*self
        })
    }

    /// The command that stores it in place of the item with this CAS number, or where there is
    /// none.
    pub fn put(&self, commands: Commands, name: &str, over: Option<Cas>) -> Commands {
        let exptime = self.life_s.map_or(0, |life_s| life_s.max(1).into());
        commands.put(name, 0, exptime, &self.encode(), over)
    }

    pub fn encode(&self) -> Vec<u8> {
        let times = [self.lock_ttl_ms.to_le_bytes(), self.native_s.to_le_bytes()];
        let taken = self.taken.as_ms().to_le_bytes();
        let note = if self.note.len() < 256 { self.note.as_slice() } else { b"" };
        let head = [&[self.state], self.token.as_slice(), times.as_flattened(), &taken].concat();
        [head.as_slice(), &[note.len() as u8], note, self.waiters.as_flattened()].concat()
    }

    fn decode(value: &[u8]) -> Option<Lock> {
        let number = |at: usize| value.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let taken = value.get(25..33)?.try_into().ok().map(u64::from_le_bytes)?;
        let end = NOTE_AT + usize::from(*value.get(NOTE_AT - 1)?);
        // A waiter that is half there, or more of them than anyone appends, are not ours.
        let (waiters, rest) = value.get(end..)?.as_chunks::<TOKEN_BYTES>();
        let state = *value.first().filter(|state| matches!(**state, HELD | RESERVED))?;
        rest.is_empty().then_some(Lock {
            state,
            token: value.get(1..17)?.try_into().ok()?,
            lock_ttl_ms: number(17)?,
            native_s: number(21)?,
            taken: Timestamp::from_ms(taken),
            note: value.get(NOTE_AT..end)?.to_vec(),
            waiters: waiters.to_vec(),
            ..Lock::default()
        })
    }

    pub fn is_held_by(&self, token: &Token) -> bool {
        self.state == HELD && self.token == *token
    }

    /// Whether it is held and its time is over at `now` of the system's clock.
    ///
    /// The clock of another host may be wrong. The server counts seconds, but the same for all
    /// hosts. So the clocks decide within the second or two that the server leaves open.
    pub fn lapsed(&self, now: Timestamp) -> bool {
        let lock_ttl = Duration::from_millis(self.lock_ttl_ms.into());
        let by_clock = self.taken.plus(lock_ttl) <= now;
        let second = Duration::from_secs(1);
        let lapsed = self.life_s.map_or(by_clock, |life_s| {
            let age = Duration::from_secs(self.native_s.saturating_sub(life_s).into());
            (by_clock && age + second >= lock_ttl) || age >= lock_ttl + 2 * second
        });
        self.state == HELD && lapsed
    }

    /// Its CAS number, by which it may be deleted; none of any item when others wait for it.
    pub fn cas_without_waiters(&self) -> Cas {
        if self.waiters.is_empty() { self.cas } else { Cas::default() }
    }

    pub fn may_queue(&self) -> bool {
        self.state != 0 && self.waiters.len() < WAITERS_MAX
    }

    /// The number of waiters before this token, if it waits.
    pub fn place_of(&self, token: &Token) -> Option<usize> {
        self.waiters.iter().position(|waiter| waiter == token)
    }

    /// The other waiters, in order. An append that was sent twice leaves its token twice; none may
    /// stay behind.
    pub fn waiters_without(&self, gone: &Token) -> Vec<Token> {
        self.waiters.iter().filter(|waiter| *waiter != gone).copied().collect()
    }

    pub fn holder(&self) -> Holder {
        token::holder(&self.note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(60);

    fn held() -> Lock {
        Lock::held([7; 16], TTL, Timestamp::from_ms(99), vec![[1; 16], [2; 16], [1; 16]])
    }

    fn standing(lock: &Lock, life_s: Option<u32>) -> Lock {
        Lock::of(&Item { value: lock.encode(), life_s, ..Item::default() })
    }

    #[test]
    fn a_lock_reads_back_names_its_holder_and_no_bytes_panic() {
        let seen = standing(&held(), held().life_s);
        assert_eq!(seen, Lock { taken: seen.taken, ..held() });
        assert!(seen.is_held_by(&[7; 16]) && !seen.is_held_by(&[1; 16]));
        assert_eq!(
            (seen.holder().pid, seen.holder().since),
            (Some(std::process::id()), Some(Timestamp::from_ms(99)))
        );
        assert_eq!((seen.place_of(&[2; 16]), seen.place_of(&[9; 16])), (Some(1), None));
        let value = held().encode();
        for length in 0..value.len() {
            let item = Item { value: value[..length].to_vec(), ..Item::default() };
            let cut = Lock::of(&item);
            let _ = (
                cut.holder(),
                cut.lapsed(Timestamp::from_ms(u64::MAX)),
                cut.waiters_without(&[1; 16]),
            );
        }
    }

    #[test]
    fn a_lock_is_handed_over_in_order_of_arrival_and_to_everyone_once() {
        let first = held().handed_over().unwrap();
        assert_eq!(
            (first.state, first.token, first.waiters.clone()),
            (RESERVED, [1; 16], vec![[2; 16]])
        );
        let second = first.handed_over().unwrap();
        assert_eq!((second.token, second.waiters.clone()), ([2; 16], Vec::new()));
        assert_eq!(second.handed_over(), None);
        assert_eq!(standing(&first, first.life_s), first);
    }

    /// Hosts whose clocks were a minute apart took each other's locks as soon as they were taken.
    #[test]
    fn a_wrong_clock_moves_the_end_of_a_lock_by_two_seconds_at_most() {
        let lock = held();
        let native = lock.native_s;
        let after = |s: u64| lock.taken.plus(Duration::from_secs(s));
        let seen = |age_s: u32| standing(&lock, Some(native - age_s));
        assert!(!seen(1).lapsed(after(61)), "our clock is ahead");
        assert!(!seen(58).lapsed(after(600)));
        assert!(seen(60).lapsed(after(60)));
        assert!(!seen(60).lapsed(after(0)), "our clock is behind");
        assert!(seen(62).lapsed(after(0)));
        assert!(
            !standing(&lock, None).lapsed(after(59)) && standing(&lock, None).lapsed(after(60))
        );
        assert!(
            !standing(&lock.handed_over().unwrap(), Some(0)).lapsed(after(600)),
            "nobody holds it"
        );
    }
}
