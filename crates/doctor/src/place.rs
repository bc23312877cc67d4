//! The directory or file of a store: its file system, its room, who may read and write there, and
//! who may remove it.

mod cleaners;

pub use cleaners::check_counters;

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::{FsType, OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, statfs};
use nix::sys::statvfs::{FsFlags, Statvfs, statvfs};
use nix::unistd::{Uid, User, geteuid};
use sessile_core::Result;

use crate::examination::Subject;
use crate::finding::Finding;

/// The stores that have a path on this host.
const WITH_PATH: [&str; 3] = ["sessile", "files", "sqlite"];
/// What containers get by default, too little for a busy site.
const SHARED_MEMORY_SMALL: u64 = 64 << 20;
const FREE_PERCENT_MIN: u64 = 5;
/// With more left, a large disk is not nearly full.
const FREE_BYTES_MIN: u64 = 8 << 30;
const FREE_BYTES_CRITICAL: u64 = 1 << 30;
/// Names looked at for a foreign owner.
const NAMES_MAX: usize = 1_000;
const NETWORK: [(u32, &str); 7] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
];

/// Where a store is.
pub struct Place {
    pub path: PathBuf,
    pub status: Metadata,
    /// Nothing on it survives a reboot.
    pub in_memory: bool,
}

impl Place {
    /// The owner, if this process is root, the owner is not, and the store would refuse that.
    pub fn foreign_to_root(&self, subject: &Subject<'_>) -> Option<String> {
        let owner = self.status.uid();
        let refused = geteuid().is_root() && owner != 0 && subject.url.text("php").is_none();
        refused.then(|| name_of(owner))
    }
}

/// `None` for a store without a path, or one that does not exist yet.
pub fn check(subject: &Subject<'_>, findings: &mut Vec<Finding>) -> Result<Option<Place>> {
    if !WITH_PATH.contains(&subject.entry.name) {
        return Ok(None);
    }
    let path = subject.url.path()?;
    let Ok(status) = std::fs::metadata(&path) else { return Ok(None) };
    let magic = statfs(&path).ok().map(|it| it.filesystem_type());
    let in_memory = magic == Some(TMPFS_MAGIC);
    let place = Place { path, status, in_memory };
    if let Some(magic) = magic {
        check_file_system(&place.path, magic, findings);
    }
    if let Ok(room) = statvfs(&place.path) {
        check_room(subject, &place, &room, findings);
    }
    check_modes(subject, &place, findings);
    check_owners(subject, &place, findings);
    cleaners::check(subject, &place, findings);
    Ok(Some(place))
}

fn check_file_system(path: &Path, magic: FsType, findings: &mut Vec<Finding>) {
    // The kernel's numbers have 32 bits, whose highest is a sign for some processors.
    let number = magic.0 as u64 & 0xffff_ffff;
    if let Some((_, name)) = NETWORK.iter().find(|(known, _)| u64::from(*known) == number) {
        findings.push(Finding::critical(
            "network-file-system",
            format!("{} is on {name}", path.display()),
            "locks and events do not reach other hosts, so sessions are overwritten",
            "use a local file system, or a store with a server",
        ));
    }
    if magic == OVERLAYFS_SUPER_MAGIC {
        findings.push(Finding::warning(
            "container-layer",
            format!("{} is in the layer of a container", path.display()),
            "all sessions are gone when the container is replaced",
            "mount a volume there",
        ));
    }
}

fn check_room(subject: &Subject<'_>, place: &Place, room: &Statvfs, findings: &mut Vec<Finding>) {
    let path = place.path.display();
    if room.flags().contains(FsFlags::ST_RDONLY) {
        findings.push(Finding::critical(
            "read-only",
            format!("the file system of {path} is mounted read-only"),
            "no session can be saved",
            "look into the kernel's log for an error of the disk, then mount it read-write",
        ));
    }
    let (total, free) =
        (room.blocks() * room.fragment_size(), room.blocks_available() * room.fragment_size());
    if place.in_memory && subject.entry.name == "sessile" && total <= SHARED_MEMORY_SMALL {
        findings.push(Finding::warning(
            "shared-memory-small",
            format!("{path} has {} MiB of memory in all", total >> 20),
            "a full store refuses new sessions",
            "give the container --shm-size=1g, or mount the tmpfs with size=25%",
        ));
    }
    if total > 0 && free * 100 / total < FREE_PERCENT_MIN && free < FREE_BYTES_MIN {
        let found = if free < FREE_BYTES_CRITICAL { Finding::critical } else { Finding::warning };
        findings.push(found(
            "nearly-full",
            format!("{path} has {} MiB left of {} MiB", free >> 20, total >> 20),
            "a full store refuses new sessions, and changes of old ones",
            "free room, remove expired sessions (sessile gc), or give it a larger file system",
        ));
    }
    let (inodes, inodes_free) = (room.files(), room.files_available());
    if subject.entry.name == "files" && inodes > 0 && inodes_free * 100 / inodes < FREE_PERCENT_MIN
    {
        findings.push(Finding::critical(
            "few-inodes",
            format!("{path} has {inodes_free} inodes left of {inodes}"),
            "each session is a file, and a file system without inodes refuses new ones",
            "remove expired sessions (sessile gc), or use another store or file system",
        ));
    }
    let wanted = subject.url.number("size_bytes_max", 0, 0..=u64::MAX).unwrap_or(0);
    if wanted > total {
        findings.push(Finding::warning(
            "size-over-file-system",
            format!("size_bytes_max is {} MiB, and {path} has {} MiB", wanted >> 20, total >> 20),
            "the file system is full before the limit is reached, for other programs as well",
            "lower size_bytes_max to three quarters of the file system, or enlarge that",
        ));
    }
}

fn check_modes(subject: &Subject<'_>, place: &Place, findings: &mut Vec<Finding>) {
    let (mode, path) = (place.status.mode() & 0o7777, place.path.display());
    // Everybody makes his own files in PHP's directory, and nobody lists it.
    let (write, read) = if subject.shared_with_php() { (0, 0o004) } else { (0o022, 0o055) };
    if mode & write != 0 {
        findings.push(Finding::critical(
            "writable-by-others",
            format!("{path} has mode {mode:o}"),
            "another user can put sessions there and be anybody",
            format!("look what is in it, then chmod go-w {}", quoted(&place.path)),
        ));
    } else if mode & read != 0 {
        findings.push(Finding::warning(
            "readable-by-others",
            format!("{path} has mode {mode:o}"),
            "another user sees how many visitors there are, and what a file with a wrong mode has",
            format!("chmod go-rx {}", quoted(&place.path)),
        ));
    }
}

fn check_owners(subject: &Subject<'_>, place: &Place, findings: &mut Vec<Finding>) {
    let (owner, path) = (place.status.uid(), place.path.display());
    // PHP's directory belongs to root, and each worker makes files of its own in it.
    if let Some((name, uid)) = subject.workers_user()
        && uid != owner
        && !subject.shared_with_php()
    {
        findings.push(Finding::critical(
            "other-user",
            format!("{path} belongs to {}, and the workers run as {name}", name_of(owner)),
            "the workers cannot open the store, or root opens one that others may change",
            format!("chown -R {name} {}, with the workers stopped", quoted(&place.path)),
        ));
    }
    if subject.shared_with_php() || !place.status.is_dir() {
        return;
    }
    if let Some(foreign) = foreign_owner(&place.path, owner) {
        let (owner, foreign) = (name_of(owner), name_of(foreign));
        findings.push(Finding::critical(
            "mixed-owners",
            format!("{path} belongs to {owner}, and a file in it to {foreign}"),
            "a verb of sessile ran as another user, and the workers cannot open what it made",
            format!("chown -R {owner} {}, and run sessile as that user", quoted(&place.path)),
        ));
    }
}

/// The owner of a file in the directory, if it is another one.
fn foreign_owner(directory: &Path, owner: u32) -> Option<u32> {
    let names = std::fs::read_dir(directory).ok()?.take(NAMES_MAX).flatten();
    let mut owners = names.filter_map(|name| name.metadata().ok()).map(|status| status.uid());
    owners.find(|uid| *uid != owner)
}

/// A path as a shell takes it: a fix is copied into one.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn name_of(uid: u32) -> String {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    user.map_or_else(|| format!("user id {uid}"), |user| user.name)
}

#[cfg(test)]
mod tests {
    use nix::sys::statfs::{EXT4_SUPER_MAGIC, NFS_SUPER_MAGIC};

    use super::*;

    #[test]
    fn the_path_of_a_fix_is_one_word_of_a_shell() {
        assert_eq!(quoted(Path::new("/var/lib/php-8.2")), "/var/lib/php-8.2");
        assert_eq!(quoted(Path::new("/srv/a; reboot")), "'/srv/a; reboot'");
        assert_eq!(quoted(Path::new("/srv/it's")), r"'/srv/it'\''s'");
    }

    #[test]
    fn a_network_file_system_is_told_from_local_ones() {
        let codes = |magic: FsType| {
            let mut findings = Vec::new();
            check_file_system(Path::new("/srv/sessions"), magic, &mut findings);
            findings.iter().map(|finding| finding.code).collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        assert_eq!(codes(NFS_SUPER_MAGIC), ["network-file-system"]);
        // The kernel's CIFS, as some processors extend its highest bit.
        assert_eq!(codes(FsType(0xff53_4d42_u32 as i32 as _)), ["network-file-system"]);
        for local in [EXT4_SUPER_MAGIC, TMPFS_MAGIC] {
            assert_eq!(codes(local), none);
        }
    }
}
