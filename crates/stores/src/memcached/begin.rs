//! Taking a lock, waiting for it, and reading what it guards. When to take it is decided in `turn`.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use sessile_core::{Clock, ErrorKind, Found, Key, Result, Stored, Timestamp, follow_aliases};

use super::bounded::Bounded;
use super::failure::{fault, unexpected};
use super::lock::Lock;
use super::read::ReadItem;
use super::reply::{Cas, Fault, Item, Reply};
use super::request::Commands;
use super::turn::{ATTEMPTS_MAX, OwnerHistory, STARVING_AFTER, Takeover, busy};
use super::{Held, data, taker};
use crate::connections::key_value::NO_HEAD;
use crate::locks::token::{Token, new_token};

pub enum LockAttempt {
    Granted(GrantedLock),
    Taken(Lock),
}

pub struct GrantedLock {
    pub lock_cas: Cas,
    pub fence: u64,
    pub data: Item,
}

pub fn begin(store: &Bounded<'_>, asked: &Key, wait_max: Duration) -> Result<(Held, u64, Found)> {
    let start = Instant::now();
    let token = new_token()?;
    let ((mut held, stored, payload), moved_to) = follow_aliases(asked, |key| -> Result<_> {
        let since = Clock::system().now();
        // Its failure leaves no lock of this token, and must not displace one that may exist.
        let orphans = store.servers.orphans_of(key);
        orphans.release_all(store.lock_ttl, |_| true, |key, token| store.give_up(key, token))?;
        let locked = store.lock(key, &token, since, start, wait_max);
        let (granted, takeover) = locked.inspect_err(|error| {
            if !matches!(error.kind(), ErrorKind::LockTimeout { .. }) {
                store.servers.orphans_of(key).remember(key, &token);
            }
        })?;
        let GrantedLock { lock_cas, fence, data } = granted;
        let lapsed = takeover == Some(Takeover::Lapsed);
        let data = if lapsed { store.mark(key, &token, data) } else { Ok(data) };
        let read = data.and_then(|data| {
            let read = ReadItem::new(&data, None);
            Ok((read, store.decode(key, data)?))
        });
        let target = match &read {
            Ok((_, (stored, _))) => stored.leads_to(store.clock.now()).cloned(),
            Err(_) => None,
        };
        if read.is_err() || target.is_some() {
            store.give_up_or_remember(key, &token);
        }
        let (read, (stored, payload)) = read?;
        let (key, pid) = (key.clone(), std::process::id());
        let held = Held { key, token, fence, pid, since, lock_cas, read };
        Ok(target.map_or(ControlFlow::Break((held, stored, payload)), ControlFlow::Continue))
    })?;
    let now = store.clock.now();
    held.read.head = stored.live(now);
    let found = stored.look_up(payload, now).break_value().unwrap_or_default();
    let fence = held.fence;
    Ok((held, fence, Found { moved_to, ..found }))
}

impl Bounded<'_> {
    fn lock(
        &self,
        key: &Key,
        token: &Token,
        since: Timestamp,
        start: Instant,
        wait_max: Duration,
    ) -> Result<(GrantedLock, Option<Takeover>)> {
        let (mut history, mut takeover, mut rounds) = (OwnerHistory::default(), None, 0);
        let mut attempt = self.try_lock(key, token, since, None)?;
        loop {
            let lock = match attempt {
                LockAttempt::Granted(granted) => return Ok((granted, takeover)),
                // Without a pause in between: what keeps the lock from us that often is no
                // memcached.
                LockAttempt::Taken(_) if rounds == ATTEMPTS_MAX => return Err(busy()),
                LockAttempt::Taken(lock) => lock,
            };
            rounds += 1;
            let waited = start.elapsed();
            let left = wait_max.saturating_sub(waited);
            let place = lock.place_of(token);
            takeover = history.takeover(&lock, token);
            let seen = if takeover.is_some() {
                Some(lock)
            } else if left.is_zero() {
                if place.is_some() {
                    self.give_up_or_remember(key, token);
                }
                let (holder, waited) = (lock.holder(), start.elapsed());
                return Err(ErrorKind::LockTimeout { holder, waited }.into());
            } else if place.is_none() && lock.may_queue() && waited >= STARVING_AFTER {
                self.join_queue(key, token)?
            } else {
                std::thread::sleep(history.pause(waited, place).min(left));
                rounds = 0;
                self.lock_of(key)?
            };
            attempt = match seen {
                Some(lock) if takeover.is_none() => LockAttempt::Taken(lock),
                over => self.try_lock(key, token, since, over)?,
            };
        }
    }

    /// Takes a lock that is not there, or the very one that was seen. Reads the record in the same
    /// trip.
    pub fn try_lock(
        &self,
        key: &Key,
        token: &Token,
        since: Timestamp,
        mut over: Option<Lock>,
    ) -> Result<LockAttempt> {
        let name = self.lock_name(key);
        self.contend(|| {
            let over = over.take();
            let waiters = over.as_ref().map_or(Vec::new(), |lock| lock.waiters_without(token));
            let lock = Lock::held(*token, self.lock_ttl, since, waiters);
            let over = over.map(|lock| lock.cas);
            // Under the lock, so above the fence of the holder before. A counter that was lost
            // starts at the server's time in microseconds, which no counter reaches by counting.
            let commands = |time: Timestamp| {
                lock.put(Commands::default(), &name, over)
                    .get(&name)
                    .count(&self.fence_name(), time.as_ms().saturating_mul(1_000), 1)
                    .get_or_reserve(&self.data_name(key), self.exptime_of_nothing())
            };
            let [stored, lock, fence, data] = self.send_timed(key, commands)?;
            self.is_stored(key, stored, 0)?;
            // Not ours, and gone already: once more.
            let Some(lock) = lock.lock()? else { return Ok(None) };
            if !lock.is_held_by(token) {
                return Ok(Some(LockAttempt::Taken(lock)));
            }
            let granted = fence_of(fence).and_then(|fence| {
                let lock_cas = lock.cas_without_waiters();
                Ok(Some(LockAttempt::Granted(GrantedLock {
                    lock_cas,
                    fence,
                    data: reserved(data)?,
                })))
            });
            // Most likely there was no room for the record: the lock would only be in the way of
            // others.
            granted.inspect_err(|_| self.give_up_or_remember(key, token))
        })
    }

    fn join_queue(&self, key: &Key, token: &Token) -> Result<Option<Lock>> {
        let name = self.lock_name(key);
        let commands = Commands::default().append(&name, token).get(&name);
        let [appended, lock] = self.send(key, commands)?;
        self.is_stored(key, appended, 0)?;
        lock.lock()
    }

    /// After a takeover: gives the item a new CAS number and our mark, so that the former holder
    /// can no longer commit and learns why.
    fn mark(&self, key: &Key, token: &Token, mut item: Item) -> Result<Item> {
        let mark = taker(token);
        self.contend(|| {
            let cas = item.cas;
            let decoded = std::mem::take(&mut item).decode(key)?;
            let (value, due) = match decoded.map(|it| (it.stored, it.payload, it.pending_from)) {
                Some((Stored::Live(head), payload, Some(old))) => {
                    (data::encode_pending(&head, mark, &old, &payload), head.expires)
                }
                Some((live @ Stored::Live(head), payload, None)) => {
                    (data::encode(&live, mark, &payload), head.expires)
                }
                Some((alias @ Stored::Alias { forget, .. }, ..)) => {
                    (data::encode(&alias, mark, b""), forget)
                }
                // A record that expired in 1970: it reads as nothing, and is of a writer.
                _ => (data::encode(&Stored::Live(NO_HEAD), mark, b""), self.forgotten()),
            };
            let commands = self.put_value(key, &value, due, Some(cas));
            let commands = commands.get_or_reserve(&self.data_name(key), self.exptime_of_nothing());
            let [stored, now] = self.send(key, commands)?;
            self.is_stored(key, stored, value.len() - data::HEADER_BYTES)?;
            item = reserved(now)?;
            Ok((item.writer() == Some(mark)).then(|| std::mem::take(&mut item)))
        })
    }
}

/// The item of an answer to a get that makes one if there is none. The server says that there is
/// none when it has no room for that.
fn reserved(reply: Reply) -> Result<Item> {
    reply.item()?.ok_or_else(|| fault(Fault::OutOfMemory, 0, 0))
}

fn fence_of(reply: Reply) -> Result<u64> {
    let counter = reply.item()?.ok_or_else(unexpected)?;
    let text = std::str::from_utf8(&counter.value).ok();
    text.and_then(|text| text.trim().parse().ok()).ok_or_else(unexpected)
}
