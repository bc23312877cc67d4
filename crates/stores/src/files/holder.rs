//! The holder of a session file's lock, for messages only. `/proc/locks` names the process that
//! took each flock, but none of another pid namespace.

use sessile_core::Holder;

use super::system::Identity;
use crate::locks::host;

/// The kernel may skip a lock in its list while others change.
const READS: usize = 5;

pub fn find_holder(file: Identity) -> Holder {
    let read = |_| find(&std::fs::read_to_string("/proc/locks").unwrap_or_default(), file);
    let pid = (0..READS).find_map(read);
    Holder { pid, host: Some(host::name().to_owned()), since: None }
}

/// Whether a process is blocked in flock on this file, as PHP is: a line with an arrow.
pub fn has_blocked_waiter(file: Identity) -> bool {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    locks.lines().any(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        words.next() == Some("->")
            && words.next() == Some("FLOCK")
            && words.nth(3).is_some_and(|at| names(at, file))
    })
}

/// A line: `7: FLOCK  ADVISORY  WRITE 4242 fe:00:131084 0 EOF`.
pub fn find(locks: &str, file: Identity) -> Option<u32> {
    let holders = || {
        locks.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            let flock = words.next() == Some("FLOCK");
            let pid = words.nth(2)?.parse::<u32>().ok().filter(|pid| flock && *pid != 0)?;
            Some((pid, words.next()?))
        })
    };
    // On btrfs and overlayfs stat has another device number: then an unambiguous inode number must
    // do.
    holders().find(|(_, at)| names(at, file)).map(|(pid, _)| pid).or_else(|| {
        let inode = file.inode.to_string();
        let mut same = holders().filter(|(_, at)| at.rsplit(':').next() == Some(&inode));
        match (same.next(), same.next()) {
            (Some((pid, _)), None) => Some(pid),
            _ => None,
        }
    })
}

fn names(at: &str, file: Identity) -> bool {
    let (major, minor) = (rustix::fs::major(file.device), rustix::fs::minor(file.device));
    at == format!("{major:02x}:{minor:02x}:{}", file.inode)
}
