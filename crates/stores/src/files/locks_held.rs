//! The locks that are held: flocks of `/proc/locks` on files of this store.
//!
//! Not seen: holders in another pid namespace, which the kernel does not name.

use std::collections::HashSet;

use sessile_core::{HeldLock, Holder, Result};

use super::holder::{find, has_blocked_waiter};
use super::mode::{FileRole, Mode};
use super::system::Identity;
use super::walk::Walk;
use crate::locks::host;

const FILES_MAX: usize = 1_000_000;

pub fn locks_held(mode: &impl Mode, limit: usize) -> Result<Vec<HeldLock>> {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let inodes = inodes(&locks);
    let mut found = Vec::new();
    if inodes.is_empty() {
        return Ok(found);
    }
    let mut walk = Walk::new(mode, "")?;
    for _ in 0..FILES_MAX {
        let Some(file) = walk.next(mode)?.filter(|_| found.len() < limit) else { break };
        let FileRole::Session(key) = file.role else { continue };
        if !inodes.contains(&file.inode) {
            continue;
        }
        let Some(stat) = mode.root().name(file.path).stat()? else { continue };
        let identity = Identity::of(&stat);
        if let Some(pid) = find(&locks, identity) {
            let holder =
                Holder { pid: Some(pid), host: Some(host::name().to_owned()), since: None };
            let has_waiters = has_blocked_waiter(identity).then_some(true);
            found.push(HeldLock { key: Some(key), holder, has_waiters });
        }
    }
    Ok(found)
}

/// Of all flocks on this host.
fn inodes(locks: &str) -> HashSet<u64> {
    let inode = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let flock = words.next() == Some("FLOCK");
        words.nth(3).filter(|_| flock)?.rsplit(':').next()?.parse().ok()
    };
    locks.lines().filter_map(inode).collect()
}
