//! The locks that are held: bytes of the side file, looked up by the keys of the table.
//!
//! Not seen: the lock of a new session, which has no row yet.

use sessile_core::{Clock, Cursor, Filter, HeldLock, Holder, Limits, Page, Result};

use super::files::file_error;
use crate::locks::byte_lock::{ByteHolder, ByteLocks, LockName};

/// Keys looked at.
const KEYS_MAX: usize = 100_000;

/// `list` reads a page after the last one.
pub(super) fn locks_held(
    locks: &ByteLocks,
    clock: &Clock,
    limit: usize,
    mut list: impl FnMut(Option<&Cursor>, &Filter) -> Result<Page>,
) -> Result<Vec<HeldLock>> {
    let mut found = Vec::new();
    let Some(held) = locks.held().map_err(file_error)? else { return Ok(found) };
    let filter = Filter { entries_max: Limits::PAGE_ENTRIES_MAX, ..Filter::default() };
    let (mut cursor, mut keys) = (None, 0);
    while keys < KEYS_MAX && found.len() < limit {
        let page = list(cursor.as_ref(), &filter)?;
        for entry in page.entries {
            keys += 1;
            let name = LockName::new(entry.key.bin().name(), entry.key.id());
            if let Some(holder) = held.holder(name).map_err(file_error)? {
                let holder = holder_of(&holder, clock);
                found.push(HeldLock { key: Some(entry.key), holder, has_waiters: None });
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    found.truncate(limit);
    Ok(found)
}

pub(super) fn holder_of(holder: &ByteHolder, clock: &Clock) -> Holder {
    Holder { pid: Some(holder.pid), host: None, since: Some(clock.now().minus(holder.held)) }
}
