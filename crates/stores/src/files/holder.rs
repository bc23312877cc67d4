//! Who holds the lock of a session file, for the error of whoever waited in vain.
//!
//! The kernel knows it: `/proc/locks` names the process that took each flock. It is read only after a timeout.
//! Processes of other pid namespaces cannot be named. Not a source of truth for anything but the message.

use sessile_core::Holder;

use super::system::Identity;

/// While locks come and go the kernel may pass over one in its list.
const READS: usize = 5;

/// The holder of the flock on this file.
pub fn of(file: Identity) -> Holder {
    let read = |_| find(&std::fs::read_to_string("/proc/locks").unwrap_or_default(), file);
    let pid = (0..READS).find_map(read);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Holder { pid, host: Some(host), since: None }
}

/// Whether a process is blocked in flock on this file, as PHP is while it waits: the lines with an arrow.
pub fn someone_is_blocked(file: Identity) -> bool {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    locks.lines().any(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        words.next() == Some("->") && words.next() == Some("FLOCK") && words.nth(3).is_some_and(|at| names(at, file))
    })
}

/// Lines look like `7: FLOCK  ADVISORY  WRITE 4242 fe:00:131084 0 EOF`.
fn find(locks: &str, file: Identity) -> Option<u32> {
    let holders = || {
        locks.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            let flock = words.next() == Some("FLOCK");
            let pid = words.nth(2)?.parse::<u32>().ok().filter(|pid| flock && *pid != 0)?;
            Some((pid, words.next()?))
        })
    };
    // Some file systems (btrfs, overlayfs) tell stat another device number than this table: then the
    // inode number alone has to do, if it is not ambiguous.
    holders().find(|(_, at)| names(at, file)).map(|(pid, _)| pid).or_else(|| {
        let inode = file.inode().to_string();
        let mut same = holders().filter(|(_, at)| at.rsplit(':').next() == Some(&inode));
        match (same.next(), same.next()) {
            (Some((pid, _)), None) => Some(pid),
            _ => None,
        }
    })
}

fn names(at: &str, file: Identity) -> bool {
    let (major, minor) = (rustix::fs::major(file.device()), rustix::fs::minor(file.device()));
    at == format!("{major:02x}:{minor:02x}:{}", file.inode())
}
