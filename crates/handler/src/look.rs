//! A session for those who only look at it, without a request.

use sessile_core::{Key, Record, Result, Sessions};

/// The record of a session, without a lock and without waiting; none if there is none. An id from
/// before a log-in does not show what came after it; after its grace each look is counted.
///
/// # Errors
///
/// Those of [`Sessions::find`].
pub fn look(sessions: &Sessions, key: &Key) -> Result<Option<Record>> {
    let found = sessions.find(key)?;
    sessions.count_spent_id(found.absence, key);
    Ok(found.record.filter(|_| found.moved_to.is_none()))
}
