//! The walk along aliases: from the asked id to the id that has the session.
//!
//! A regenerated id may lead to another regenerated id. The walk is bounded, so that damaged
//! aliases in a cycle are an error and not an endless request.

use std::ops::ControlFlow;

use crate::{Clock, Error, ErrorKind, Found, Key, Limits, Stored};

/// Follows an id to the end of its aliases. `look` returns the content of one key (`Break`), or the
/// target of its alias (`Continue`). Returns the result of the last look, and its key if that
/// differs from `asked`.
///
/// # Errors
///
/// `Corrupt` after [`Limits::ALIAS_STEPS_MAX`] steps.
#[inline] // a look-up returns much; a call in between would have it copied once more
pub fn follow_aliases<K: Clone + PartialEq, T, E: From<Error>>(
    asked: &K,
    mut look: impl FnMut(&K) -> Result<ControlFlow<T, K>, E>,
) -> Result<(T, Option<K>), E> {
    let mut key = asked.clone();
    for _ in 0..=Limits::ALIAS_STEPS_MAX {
        match look(&key)? {
            ControlFlow::Continue(next) => key = next,
            ControlFlow::Break(found) => return Ok((found, (key != *asked).then_some(key))),
        }
    }
    Err(alias_cycle().into())
}

/// Reads what is behind an id. `read` returns the record of one key and its payload.
///
/// # Errors
///
/// Those of `read`, and of [`follow_aliases`].
#[inline]
pub fn read_aliases<E: From<Error>>(
    asked: &Key,
    clock: &Clock,
    mut read: impl FnMut(&Key) -> Result<(Stored, Vec<u8>), E>,
) -> Result<Found, E> {
    let (found, moved_to) = follow_aliases(asked, |key| -> Result<_, E> {
        let (stored, payload) = read(key)?;
        Ok(stored.look_up(payload, clock.now()))
    })?;
    Ok(Found { moved_to, ..found })
}

/// Destroys an id and its alias targets, the end of the chain first. So a crash in between leaves
/// an old id that leads to a tombstone, never a live session behind a destroyed id.
///
/// `destroy` destroys one key, or returns its alias target unless that was visited: so damaged
/// aliases in a cycle can be destroyed.
///
/// # Errors
///
/// `Corrupt` after [`Limits::ALIAS_STEPS_MAX`] steps.
pub fn destroy_aliases<K: Clone, E: From<Error>>(
    asked: &K,
    mut destroy: impl FnMut(&K, &[K]) -> Result<Option<K>, E>,
) -> Result<(), E> {
    let (mut chain, mut visited) = (vec![asked.clone()], vec![asked.clone()]);
    while let Some(key) = chain.last() {
        match destroy(key, &visited)? {
            Some(_) if visited.len() > Limits::ALIAS_STEPS_MAX => return Err(alias_cycle().into()),
            Some(next) => {
                visited.push(next.clone());
                chain.push(next);
            }
            None => drop(chain.pop()),
        }
    }
    Ok(())
}

/// Follows a regenerated id to its session, whatever its grace, for a listing of an owner: since it
/// began, a session may have got a new id that lies behind it. `look` returns what a key holds: the
/// end (`Break`), or the target of its alias.
///
/// `None` after [`Limits::ALIAS_STEPS_MAX`] steps, too. That is no error, because the listing meets
/// the ids on the way as well, and they lead on from there.
pub fn follow_regenerated<K, T>(
    start: K,
    mut look: impl FnMut(&K) -> Option<ControlFlow<T, K>>,
) -> Option<T> {
    let mut key = start;
    for _ in 0..=Limits::ALIAS_STEPS_MAX {
        match look(&key)? {
            ControlFlow::Continue(next) => key = next,
            ControlFlow::Break(found) => return Some(found),
        }
    }
    None
}

fn alias_cycle() -> Error {
    Error::new(ErrorKind::Corrupt, "regenerated ids lead in a circle").advice("destroy the session")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Result;

    /// Where each number below `end` leads to the next one.
    fn chain(end: usize) -> impl Fn(&usize) -> Result<ControlFlow<&'static str, usize>> {
        move |key| {
            Ok(if *key < end { ControlFlow::Continue(key + 1) } else { ControlFlow::Break("end") })
        }
    }

    #[test]
    fn a_walk_ends_where_no_alias_leads_on() {
        assert_eq!(follow_aliases(&0, chain(0)).unwrap(), ("end", None));
        assert_eq!(follow_aliases(&0, chain(3)).unwrap(), ("end", Some(3)));
        let most = Limits::ALIAS_STEPS_MAX;
        assert_eq!(follow_aliases(&0, chain(most)).unwrap(), ("end", Some(most)));
        let error = follow_aliases(&0, chain(most + 1)).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn a_failed_look_ends_the_walk() {
        let failed = |_: &usize| -> Result<ControlFlow<(), usize>> { Err(ErrorKind::Io.into()) };
        assert_eq!(*follow_aliases(&0, failed).unwrap_err().kind(), ErrorKind::Io);
    }

    #[test]
    fn a_chain_is_destroyed_from_its_end() {
        let mut order = Vec::new();
        let destroy = |key: &usize, visited: &[usize]| -> Result<Option<usize>> {
            let next = key + 1;
            if next < 3 && !visited.contains(&next) {
                return Ok(Some(next));
            }
            order.push(*key);
            Ok(None)
        };
        destroy_aliases(&0, destroy).unwrap();
        assert_eq!(order, [2, 1, 0]);
    }

    #[test]
    fn aliases_in_a_circle_can_be_destroyed_and_a_chain_without_an_end_is_an_error() {
        let mut destroyed = Vec::new();
        let circle = |key: &usize, visited: &[usize]| -> Result<Option<usize>> {
            let next = 1 - *key;
            if visited.contains(&next) {
                destroyed.push(*key);
                return Ok(None);
            }
            Ok(Some(next))
        };
        destroy_aliases(&0, circle).unwrap();
        assert_eq!(destroyed, [1, 0]);
        let endless = |key: &usize, _: &[usize]| -> Result<Option<usize>> { Ok(Some(key + 1)) };
        assert_eq!(*destroy_aliases(&0, endless).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
