//! Answers of a server that are lost: the server has done it, and the caller was not told.
//!
//! What the caller is told is true, or in doubt (`unreachable`). A change that was made is never
//! called refused: its caller would make it once more.

use std::sync::{Arc, Mutex, PoisonError};

use sessile_fixtures::Proxy;

use super::*;

/// What others do before the caller looks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    /// Another holder appends to the text of the session.
    Successor,
    Destroy,
}

/// Loses one answer at a time, with others in between.
struct Losing {
    proxy: Proxy,
    /// The store through the proxy, and the one beside it.
    store: TestStore,
    direct: TestStore,
    passing: u64,
    meanwhile: Meanwhile,
}

/// More than a connection begins before it takes the ways of one that is used again and again.
const WARMING: usize = 10;

/// Of a regeneration and the release after it.
const REGENERATION_REQUESTS_MAX: u8 = 10;

impl Losing {
    /// Runs `lose` for the first answer of a change, the second, and so on, until the change has
    /// fewer.
    fn each(bed: &Testbed, lose: impl Fn(&Losing) -> CaseResult<bool>) -> CaseResult {
        let (proxy, url) = bed.proxy()?;
        let (store, direct) = (open(&url)?, bed.open()?);
        let meanwhile = Meanwhile::Nothing;
        let mut losing = Losing { proxy, store, direct, passing: 0, meanwhile };
        for meanwhile in [Meanwhile::Nothing, Meanwhile::Successor, Meanwhile::Destroy] {
            losing.meanwhile = meanwhile;
            for passing in 0.. {
                losing.passing = passing;
                let warm = losing.store.stored("x")?;
                (0..WARMING).try_for_each(|_| losing.store.save(&warm, "x"))?;
                let lost = lose(&losing).map_err(|Failure(why)| {
                    Failure(format!("answer {passing} lost, meanwhile {meanwhile:?}: {why}"))
                })?;
                ensure(lost || passing > 0, || "no answer was lost".into())?;
                if !lost {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether an answer was lost, what the caller is told, and the text of the session under `key`
    /// when the server was done.
    fn lose<T>(&self, key: &Key, run: impl FnOnce() -> T) -> CaseResult<(bool, T, Option<String>)> {
        let seen = Arc::new(Mutex::new(Ok(None)));
        let (direct, key, to) = (self.direct.clone(), key.clone(), Arc::clone(&seen));
        let meanwhile = self.meanwhile;
        let interfere = move || {
            let text = direct.text(&key);
            let done = match meanwhile {
                Meanwhile::Nothing => Ok(()),
                Meanwhile::Successor => append(&direct, &key),
                Meanwhile::Destroy => direct.destroy(&key),
            };
            *to.lock().unwrap_or_else(PoisonError::into_inner) = done.and(text);
        };
        let (lost, told) = self.proxy.losing_answer(self.passing, interfere, run);
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        Ok((lost, told, std::mem::replace(&mut *seen, Ok(None))?))
    }
}

/// Does nothing without a record, or while the lock is held.
fn append(store: &TestStore, key: &Key) -> sessile_core::Result<()> {
    let Ok(begun) = store.begin(key, Duration::ZERO) else { return Ok(()) };
    let text = begun.record.as_ref().map(|record| format!("{}+", text_of(&record.payload)));
    text.map_or(Ok(()), |text| begun.commit_text(&text))
}

/// Fails unless what the caller is told is true of a change that was `made` or not.
fn is_true(told: sessile_core::Result<()>, made: bool) -> CaseResult {
    if told.is_ok() {
        return ensure(made, || "told as done, and it was not".into());
    }
    let codes = if made { "unreachable" } else { "unreachable|stale|destroyed|gone|exists" };
    refused("a change whose answer was lost", told, codes).map(drop)
}

fn begins_with(text: Option<&String>, start: &str) -> bool {
    text.is_some_and(|text| text.starts_with(start))
}

pub(crate) const CASES: &[Case] = &[
    Case::new("a begin or a peek whose answer is lost is asked again", |bed, _| {
        let (proxy, url) = bed.proxy()?;
        let store = open(&url)?;
        let key = store.stored("x")?;
        for passing in 0.. {
            let (begin_lost, begun) = proxy.losing_answer(passing, || (), || store.lock(&key));
            begun?.expect_text("begin", "x")?;
            let (peek_lost, text) = proxy.losing_answer(passing, || (), || store.text(&key));
            equal("peek", text?.as_deref(), Some("x"))?;
            if !begin_lost && !peek_lost {
                break;
            }
        }
        Ok(())
    })
    .needs(&[SERVED]),
    Case::new(
        "a commit whose answer is lost is never told as refused when it is stored",
        |bed, _| {
            for old in [None, Some("old")] {
                Losing::each(bed, |losing| {
                    let key = new_key();
                    old.map_or(Ok(()), |text| losing.store.create_text(&key, text))?;
                    let begun = losing.store.lock(&key)?;
                    let (lost, told, seen) = losing.lose(&key, || begun.commit_text("new"))?;
                    let now = losing.direct.text(&key)?;
                    let made =
                        begins_with(seen.as_ref(), "new") || begins_with(now.as_ref(), "new");
                    ensure(!begins_with(now.as_ref(), "new++"), || "it was done twice".into())?;
                    if losing.meanwhile == Meanwhile::Destroy && lost {
                        equal("after the destruction", now, None)?;
                    }
                    is_true(told, made).map(|()| lost)
                })?;
            }
            Ok(())
        },
    )
    .needs(&[SERVED]),
    Case::new("a create whose answer is lost is never told as taken by itself", |bed, _| {
        Losing::each(bed, |losing| {
            let key = new_key();
            let (lost, told, seen) = losing.lose(&key, || losing.store.create_text(&key, "new"))?;
            let made = seen.is_some() || losing.direct.text(&key)?.is_some();
            is_true(told, made).map(|()| lost)
        })
    })
    .needs(&[SERVED]),
    Case::new(
        "a regeneration whose answer is lost is never told as refused when it is done",
        |bed, _| {
            Losing::each(bed, |losing| {
                let ((_, mut begun), new) = (losing.store.leased("old")?, new_key());
                let regenerate = || begun.lease.regenerate(&new, Duration::ZERO);
                let (lost, told, seen) = losing.lose(&new, regenerate)?;
                let there = losing.direct.text(&new)?;
                let made = seen.is_some() || there.is_some();
                is_true(told, made)?;
                // The lease is where it says, or its commit is refused.
                let key = begun.lease.key().clone();
                let told = begun.commit_text("new");
                is_true(told, losing.direct.text(&key)?.as_deref() == Some("new"))?;
                Ok(lost)
            })
        },
    )
    .needs(&[SERVED]),
    Case::new(
        "a session that has moved lives on, whatever becomes of its old id",
        |bed, direct| {
            // Its holder dies after so many requests of the regeneration.
            let is_cut = on_threads(2 * REGENERATION_REQUESTS_MAX, |number| {
                let (proxy, _) = bed.proxy()?;
                let dying = open(&proxy.url(&bed.impatient_url(100)))?;
                let (old, new) = (direct.stored("x")?, new_key());
                let mut begun = dying.lock(&old)?;
                let (is_cut, ()) = proxy.losing_requests(u64::from(number / 2), || {
                    drop(begun.lease.regenerate(&new, Duration::ZERO));
                    drop(begun);
                });
                let moved = direct.text(&new)?;
                if number % 2 == 0 {
                    direct.destroy(&old)?;
                } else {
                    direct.save(&old, "y")?;
                }
                equal("the session under its new id", direct.text(&new)?, moved)?;
                Ok(is_cut)
            })?;
            equal("the last request is a release", is_cut.last(), Some(&false))
        },
    )
    .needs(&[SERVED]),
    Case::new("a destroy or a touch whose answer is lost is asked again", |bed, _| {
        Losing::each(bed, |losing| {
            let key = losing.store.stored("x")?;
            let touch = || losing.store.touch(&key, ttl(2 * MINUTE));
            let (touch_lost, touched, _) = losing.lose(&key, touch)?;
            if losing.meanwhile == Meanwhile::Nothing {
                touched?;
                let record = losing.direct.record(&key)?;
                let left = record.head.expires.since(losing.direct.clock.now());
                ensure(left > MINUTE, || format!("the touch left {left:?}"))?;
            }
            let (lost, destroyed, _) = losing.lose(&key, || losing.store.destroy(&key))?;
            destroyed?;
            losing.direct.expect_none("after the destruction", &key)?;
            Ok(lost || touch_lost)
        })
    })
    .needs(&[SERVED]),
];
