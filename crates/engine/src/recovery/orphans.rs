//! Control planes in memory whose store on a disk was removed: found, proved to be that, removed.
//!
//! The file `store` in the directory of a control plane says where the data are, from the root of
//! their mount down:
//!
//! ```text
//! 254:1 2 /
//! 254:1 1310721 /var
//! 254:1 1310730 /var/sessions
//! 254:1 1310733 /var/sessions/data
//! ```
//!
//! Invariant: nothing is removed that a process is attached to, or whose store may only be out of
//! sight. DESIGN.md, "Orphans".

use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Statx, StatxAttributes, StatxFlags, open, openat, statx, unlinkat,
};
use rustix::io::Errno;

use super::home::{CONTROL_FILES, DIRECTORY_FLAGS, PLANE_PREFIX, check_owner};
use crate::{storage::*, table::*};

pub const PLACE_FILE: &str = "store";
const PLACE_BYTES_MAX: u64 = 64 << 10;

/// Where the data of a store are. `None` when the kernel or the path does not allow to say it; such
/// a control plane is never removed.
pub fn describe_place(directory: &OwnedFd) -> Option<String> {
    let store = std::fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).ok()?;
    let mut lines = Vec::new();
    for path in store.join(DATA_FILE).ancestors() {
        let found = examine(path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let text = path.to_str().filter(|path| !path.contains('\n'))?;
        lines.push(format!("{} {text}\n", identity(&found)));
        if is_mount_root(&found)? {
            break;
        }
    }
    lines.reverse();
    Some(lines.concat())
}

fn examine(path: &Path, flags: AtFlags) -> rustix::io::Result<Statx> {
    statx(CWD, path, flags, StatxFlags::BASIC_STATS)
}

fn identity(found: &Statx) -> String {
    format!("{}:{} {}", found.stx_dev_major, found.stx_dev_minor, found.stx_ino)
}

fn is_mount_root(found: &Statx) -> Option<bool> {
    let told = found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT);
    told.then(|| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Whether the place is to be seen from here, and the data are not in it any more.
fn is_gone(place: &str) -> bool {
    let split = |line: &str| {
        let [device, inode, path] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        Some((format!("{device} {inode}"), PathBuf::from(path)))
    };
    let Some(places) = place.lines().map(split).collect::<Option<Vec<_>>>() else { return false };
    let is = |found: &Statx, wanted: &str| identity(found) == wanted;
    // A symbolic link may lead to it now.
    let reached = |(wanted, path): &(String, PathBuf)| {
        examine(path, AtFlags::empty()).is_ok_and(|found| is(&found, wanted))
    };
    if places.last().is_none_or(reached) {
        return false;
    }
    let mut seen_above = false;
    for (wanted, path) in &places {
        match examine(path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if is(&found, wanted) => seen_above = true,
            // What is mounted there may hide it.
            Ok(found) => return seen_above && is_mount_root(&found) == Some(false),
            Err(errno) => return seen_above && errno == Errno::NOENT,
        }
    }
    false
}

/// Removes the control planes in this directory whose stores were removed. What cannot be examined
/// stays.
pub fn remove_orphans(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let named = entry.file_name().as_encoded_bytes().starts_with(PLANE_PREFIX.as_bytes());
        if named && remove_if_orphan(&path) == Some(true) {
            log::warn!(
                "{} was the control plane of a store that was removed; it is removed, too",
                path.display()
            );
        }
    }
}

fn remove_if_orphan(path: &Path) -> Option<bool> {
    let plane = open(path, DIRECTORY_FLAGS, Mode::empty()).ok()?;
    check_owner(&plane, path).ok()?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&plane, PLACE_FILE, flags, Mode::empty()).ok()?;
    let mut place = String::new();
    std::fs::File::from(file).take(PLACE_BYTES_MAX).read_to_string(&mut place).ok()?;
    (is_gone(&place) && remove_plane(&plane, path)).then_some(true)
}

/// Removes a control plane that no process is attached to, and none attaches to meanwhile. The
/// place goes last: a plane without it would never be found again.
pub fn remove_plane(plane: &OwnedFd, path: &Path) -> bool {
    let beacons = openat(plane, BEACONS_FILE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    if beacons.as_ref().is_ok_and(|beacons| !lock_all_beacons(beacons)) {
        return false;
    }
    let unlinked = CONTROL_FILES
        .into_iter()
        .chain([PLACE_FILE])
        .all(|name| matches!(unlinkat(plane, name, AtFlags::empty()), Ok(()) | Err(Errno::NOENT)));
    unlinked && std::fs::remove_dir(path).is_ok()
}
