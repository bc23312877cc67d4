//! The bytes of a lock item, and what can be told from them alone.
//!
//! ```text
//! offset 0       1       17         21         25      33    34    38      46         34+n
//!        | state | token | lock_ttl | native_s | taken | n   | pid | since | host ... | waiter | waiter ...
//! bytes    1       16      4          4          8       1     4     8       0 to 64    16       16
//! ```
//!
//! `state` is `L` (held by `token`) or `R` (reserved for the waiter with `token`, who has to come and take it).
//! `lock_ttl` is in ms. `taken` is the system time in ms when it was taken or renewed, `native_s` the life that the item
//! got then: the server tells what is left of it, so there are two clocks to see that a lock has lapsed. `n` is the length
//! of the note (process, since, host; see `owner`). What follows are the waiters in order of arrival: each appends its
//! token, which a lock does not have to be read for. Anyone may have written these bytes: nothing is assumed.

use std::time::Duration;

use sessile_core::{Clock, Holder, Timestamp};

use super::cas::Cas;
use super::reply::Item;
use super::request::Life;
use crate::owner::{self, Token};

/// More waiters than this do not queue; they come by every few ms.
pub(super) const WAITERS_MAX: usize = 256;
/// A lapsed lock stays this much longer, so that whoever takes it over knows that there was a holder.
const LAPSED_KEPT: Duration = Duration::from_secs(3_600);
/// A reserved lock goes by itself after this many seconds, if nobody is left who would take it.
pub(super) const RESERVED_LIFE_S: u32 = 2;

const NOTE_AT: usize = 34;
const TOKEN_BYTES: usize = size_of::<Token>();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Held,
    Reserved,
}

/// What a lock item says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lock {
    pub(super) state: State,
    pub(super) token: Token,
    lock_ttl_ms: u32,
    native_s: u32,
    taken: Timestamp,
    note: Vec<u8>,
    pub(super) waiters: Vec<Token>,
}

/// A lock item as it is on the server.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) cas: Cas,
    life_s: Option<u32>,
    /// `None` for bytes that are not ours.
    pub(super) lock: Option<Lock>,
}

impl Lock {
    /// A lock that is taken now. `since` is when its holder began to hold it.
    pub(super) fn held(token: Token, lock_ttl: Duration, since: Timestamp, waiters: Vec<Token>) -> Lock {
        Lock {
            state: State::Held,
            token,
            lock_ttl_ms: u32::try_from(lock_ttl.as_millis()).unwrap_or(u32::MAX),
            native_s: native_life_s(lock_ttl),
            taken: Clock::system().now(),
            note: owner::holder_bytes(since),
            waiters,
        }
    }

    /// The lock that its holder leaves to the first of those who wait. `None` when nobody does.
    pub(super) fn handed_over(&self) -> Option<Lock> {
        let (first, rest) = self.waiters.split_first()?;
        let waiters = without(rest, first);
        let taken = Clock::system().now();
        Some(Lock {
            state: State::Reserved,
            token: *first,
            native_s: RESERVED_LIFE_S,
            taken,
            note: Vec::new(),
            waiters,
            ..*self
        })
    }

    /// The same lock without one of those who wait.
    pub(super) fn without(&self, waiter: &Token) -> Lock {
        Lock { waiters: without(&self.waiters, waiter), ..self.clone() }
    }

    /// The seconds that the item lives.
    pub(super) fn native_s(&self) -> u32 {
        self.native_s
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let state = match self.state {
            State::Held => b'L',
            State::Reserved => b'R',
        };
        let note_bytes = u8::try_from(self.note.len()).unwrap_or(0);
        let mut value = vec![state];
        value.extend_from_slice(&self.token);
        value.extend_from_slice(&self.lock_ttl_ms.to_le_bytes());
        value.extend_from_slice(&self.native_s.to_le_bytes());
        value.extend_from_slice(&self.taken.as_ms().to_le_bytes());
        value.push(note_bytes);
        value.extend(self.note.iter().take(usize::from(note_bytes)));
        self.waiters.iter().for_each(|waiter| value.extend_from_slice(waiter));
        value
    }

    fn decode(value: &[u8]) -> Option<Lock> {
        let state = match value.first()? {
            b'L' => State::Held,
            b'R' => State::Reserved,
            _ => return None,
        };
        let number = |at: usize| value.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let taken = value.get(25..33)?.try_into().ok().map(u64::from_le_bytes)?;
        let end = NOTE_AT + usize::from(*value.get(NOTE_AT - 1)?);
        // A waiter that is half there, or more of them than anyone appends, are not ours.
        let (waiters, rest) = value.get(end..)?.as_chunks::<TOKEN_BYTES>();
        if !rest.is_empty() {
            return None;
        }
        Some(Lock {
            state,
            token: value.get(1..17)?.try_into().ok()?,
            lock_ttl_ms: number(17)?,
            native_s: number(21)?,
            taken: Timestamp::from_ms(taken),
            note: value.get(NOTE_AT..end)?.to_vec(),
            waiters: waiters.to_vec(),
        })
    }
}

impl Standing {
    /// From the answer to a get of a lock item.
    pub(super) fn of(item: &Item) -> Standing {
        Standing { cas: item.cas, life_s: item.life_s, lock: Lock::decode(&item.value) }
    }

    /// Whether it is held by this token.
    pub(super) fn is_held_by(&self, token: &Token) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.state == State::Held && lock.token == *token)
    }

    /// Whether it is held and its time is over at `now` of the system's clock.
    ///
    /// The clock of another host may be wrong. The server counts seconds, but the same for all: so the clocks decide within
    /// the second or two that the server leaves open, and the server otherwise.
    pub(super) fn lapsed(&self, now: Timestamp) -> bool {
        let Some(lock) = self.lock.as_ref().filter(|lock| lock.state == State::Held) else { return false };
        let lock_ttl = Duration::from_millis(lock.lock_ttl_ms.into());
        let by_clock = lock.taken.plus(lock_ttl) <= now;
        let Some(life_s) = self.life_s else { return by_clock };
        let age = Duration::from_secs(lock.native_s.saturating_sub(life_s).into());
        let second = Duration::from_secs(1);
        (by_clock && age + second >= lock_ttl) || age >= lock_ttl + 2 * second
    }

    /// What is left of its life, for who rewrites it.
    pub(super) fn life(&self) -> Life {
        self.life_s.map_or(0, |life_s| Life::from(life_s.max(1)))
    }

    /// How many wait before this token, if it waits.
    pub(super) fn place_of(&self, token: &Token) -> Option<usize> {
        self.lock.as_ref()?.waiters.iter().position(|waiter| waiter == token)
    }

    pub(super) fn waiters(&self) -> usize {
        self.lock.as_ref().map_or(0, |lock| lock.waiters.len())
    }

    /// The others who wait, in order.
    pub(super) fn waiters_without(&self, token: &Token) -> Vec<Token> {
        self.lock.as_ref().map_or(Vec::new(), |lock| without(&lock.waiters, token))
    }

    /// Who holds it, as far as it says.
    pub(super) fn holder(&self) -> Holder {
        self.lock.as_ref().map_or(Holder::default(), |lock| owner::holder(&lock.note))
    }
}

/// The life of the item of a lock that is held.
pub(super) fn native_life_s(lock_ttl: Duration) -> u32 {
    u32::try_from((lock_ttl + LAPSED_KEPT).as_secs() + 1).unwrap_or(u32::MAX)
}

/// An append that was sent twice leaves its token twice; none may stay behind.
fn without(waiters: &[Token], gone: &Token) -> Vec<Token> {
    waiters.iter().filter(|waiter| *waiter != gone).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(60);

    fn held() -> Lock {
        Lock::held([7; 16], TTL, Timestamp::from_ms(99), vec![[1; 16], [2; 16], [1; 16]])
    }

    fn standing(lock: &Lock, life_s: Option<u32>) -> Standing {
        Standing::of(&Item { value: lock.encode(), life_s, ..Item::default() })
    }

    #[test]
    fn a_lock_reads_back_names_its_holder_and_no_bytes_panic() {
        let seen = standing(&held(), None);
        assert_eq!(seen.lock.as_ref(), Some(&held()).map(|_| seen.lock.as_ref().unwrap()));
        assert!(seen.is_held_by(&[7; 16]) && !seen.is_held_by(&[1; 16]));
        assert_eq!((seen.holder().pid, seen.holder().since), (Some(std::process::id()), Some(Timestamp::from_ms(99))));
        assert_eq!((seen.place_of(&[2; 16]), seen.place_of(&[9; 16])), (Some(1), None));
        let value = held().encode();
        for length in 0..value.len() {
            let item = Item { value: value[..length].to_vec(), ..Item::default() };
            let cut = Standing::of(&item);
            let _ = (cut.holder(), cut.lapsed(Timestamp::from_ms(u64::MAX)), cut.waiters_without(&[1; 16]));
        }
    }

    #[test]
    fn a_lock_is_handed_over_in_order_of_arrival_and_to_everyone_once() {
        let first = held().handed_over().unwrap();
        assert_eq!((first.state, first.token, first.waiters.clone()), (State::Reserved, [1; 16], vec![[2; 16]]));
        let second = first.handed_over().unwrap();
        assert_eq!((second.token, second.waiters.clone()), ([2; 16], Vec::new()));
        assert_eq!(second.handed_over(), None);
        assert_eq!(Lock::decode(&first.encode()), Some(first));
    }

    /// Hosts whose clocks were a minute apart took each other's locks as soon as they were taken.
    #[test]
    fn a_wrong_clock_moves_the_end_of_a_lock_by_two_seconds_at_most() {
        let lock = held();
        let native = lock.native_s();
        let after = |s: u64| lock.taken.plus(Duration::from_secs(s));
        let seen = |age_s: u32| standing(&lock, Some(native - age_s));
        assert!(!seen(1).lapsed(after(61)), "our clock is ahead");
        assert!(!seen(58).lapsed(after(600)));
        assert!(seen(60).lapsed(after(60)));
        assert!(!seen(60).lapsed(after(0)), "our clock is behind");
        assert!(seen(62).lapsed(after(0)));
        assert!(!standing(&lock, None).lapsed(after(59)) && standing(&lock, None).lapsed(after(60)));
        assert!(!standing(&lock.handed_over().unwrap(), Some(0)).lapsed(after(600)), "nobody holds it");
    }
}
