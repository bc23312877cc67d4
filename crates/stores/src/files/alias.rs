//! Ids that lead to other ids: going where they lead, and destroying all that they lead to.
//!
//! It owns the bound on the steps. Where an id leads is said in content.rs; how to look at it, in each of the modes.

use sessile_core::{Error, Key, Result};

use super::frame::corrupt;

/// Regenerated ids may lead to ids that were regenerated themselves; more steps than this are a loop.
pub const ALIAS_STEPS_MAX: usize = 16;

/// What a look at an id says.
pub enum Step<T> {
    Here(T),
    LeadsTo(Key),
}

/// Goes where an id leads. What is there comes with its key, if that is another one.
pub fn follow<T>(asked: &Key, mut look: impl FnMut(&Key) -> Result<Step<T>>) -> Result<(T, Option<Key>)> {
    let mut key = asked.clone();
    for _ in 0..ALIAS_STEPS_MAX {
        match look(&key)? {
            Step::LeadsTo(next) => key = next,
            Step::Here(found) => return Ok((found, (key != *asked).then_some(key))),
        }
    }
    Err(circle())
}

/// Destroys an id and all that it leads to. `bury` does so with one id, or says where it leads, unless that is one
/// of those that are buried already.
///
/// From the end of the chain, so that a crash in between leaves an old id that leads to a tombstone and never a
/// live session behind a destroyed id.
pub fn bury_all(asked: &Key, mut bury: impl FnMut(&Key, &[Key]) -> Result<Option<Key>>) -> Result<()> {
    let (mut chain, mut buried) = (vec![asked.clone()], Vec::new());
    while let Some(key) = chain.last() {
        match bury(key, &buried)? {
            Some(_) if chain.len() > ALIAS_STEPS_MAX => return Err(circle()),
            Some(next) => chain.push(next),
            None => buried.extend(chain.pop()),
        }
    }
    Ok(())
}

pub fn circle() -> Error {
    corrupt("regenerated ids lead in a circle")
}
