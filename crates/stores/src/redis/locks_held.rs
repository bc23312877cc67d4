//! The locks that are held: the keys `P:l:*`, found with SCAN.

use std::time::Instant;

use sessile_core::{HeldLock, Key, Result};

use super::bounded::Bounded;
use super::list::COUNT_FOR;
use super::value::holder;

const STEP: usize = 1_000;
/// The state of a lock that is held, and the marks of one for which others wait.
const HELD: u8 = b'L';
const MARKS_AT: usize = 17;

pub(super) fn locks_held(store: &Bounded<'_>, limit: usize) -> Result<Vec<HeldLock>> {
    let (start, mut found, mut cursor) = (Instant::now(), Vec::new(), String::from("0"));
    while found.len() < limit && start.elapsed() <= COUNT_FOR {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor).arg("MATCH").arg(store.names.lock_pattern()).arg("COUNT").arg(STEP);
        let (next, names): (String, Vec<Vec<u8>>) = store.query(&scan)?;
        for name in names {
            let mut get = redis::cmd("GET");
            get.arg(&name);
            let lock: Option<Vec<u8>> = store.query(&get)?;
            if let Some(lock) = lock.filter(|lock| lock.first() == Some(&HELD)) {
                found.push(held(store.names.parse_lock(&name), &lock));
            }
        }
        if next == "0" {
            break;
        }
        cursor = next;
    }
    found.truncate(limit);
    Ok(found)
}

fn held(key: Option<Key>, lock: &[u8]) -> HeldLock {
    let has_waiters = lock.get(MARKS_AT).map(|marks| *marks != b'0');
    HeldLock { key, holder: holder(lock), has_waiters }
}
