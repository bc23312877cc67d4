//! The locks that are held: the keys `P:l:*`, found with SCAN on each server.

use std::time::Instant;

use redis::RedisResult;
use sessile_core::{HeldLock, Key, Result};

use super::bounded::Bounded;
use super::cluster::Node;
use super::list::COUNT_FOR;
use super::value::holder;

const STEP: usize = 1_000;
/// The state of a lock that is held, and the marks of one for which others wait.
const HELD: u8 = b'L';
const MARKS_AT: usize = 17;

pub(super) fn locks_held(store: &Bounded<'_>, limit: usize) -> Result<Vec<HeldLock>> {
    let (start, mut found) = (Instant::now(), Vec::new());
    for (_, node) in store.servers.all(store.deadline)? {
        let mut cursor = String::from("0");
        while found.len() < limit && start.elapsed() <= COUNT_FOR {
            let next = step(store, &node, &cursor, &mut found)?;
            if next == "0" {
                break;
            }
            cursor = next;
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// One step of a scan. Answers the next cursor.
fn step(
    store: &Bounded<'_>,
    node: &Node,
    cursor: &str,
    found: &mut Vec<HeldLock>,
) -> Result<String> {
    let mut scan = redis::cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(store.names.lock_pattern()).arg("COUNT").arg(STEP);
    let (next, names): (String, Vec<Vec<u8>>) =
        node.with(store.deadline, |connection| scan.query(connection))?;
    if names.is_empty() {
        return Ok(next);
    }
    let mut gets = redis::pipe();
    for name in &names {
        gets.cmd("GET").arg(name);
    }
    // A lock that has moved to another server meanwhile is an error.
    gets.ignore_errors();
    let locks: Vec<RedisResult<Option<Vec<u8>>>> =
        node.with(store.deadline, |connection| gets.query(connection))?;
    for (name, lock) in names.iter().zip(locks) {
        if let Ok(Some(lock)) = lock
            && lock.first() == Some(&HELD)
        {
            found.push(held(store.names.parse_lock(name), &lock));
        }
    }
    Ok(next)
}

fn held(key: Option<Key>, lock: &[u8]) -> HeldLock {
    let has_waiters = lock.get(MARKS_AT).map(|marks| *marks != b'0');
    HeldLock { key, holder: holder(lock), has_waiters }
}
