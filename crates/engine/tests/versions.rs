//! Two versions of the engine on one store: while the first uses it the second is refused, and the
//! message says that the versions differ. Afterwards, on a disk, the second makes the control plane
//! anew.
//!
//! A PHP module of an older version once said "the control plane is cut short" beside a newer
//! command, because its control plane was shorter. The administrator looked for a full disk. And
//! after an upgrade that changed the format, each request was refused until somebody removed the
//! right directory from /dev/shm, although nothing was lost by it.

#![allow(clippy::unwrap_used, reason = "helpers of tests are not recognised as tests")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sessile_core::{Clock, Error, ErrorKind, Key, Limits, Owner, Sessions, Ttl};
use sessile_engine::{EngineOptions, open};

/// Where the number of the format stands in the control plane: DESIGN.md.
const FORMAT_OFFSET: u64 = 8;
const SHORT: Duration = Duration::from_secs(1);

fn opened(path: &Path) -> Result<Sessions, Error> {
    let store = open(path, Clock::system(), &EngineOptions::default())?;
    Ok(Sessions::new("sessile", store, Limits::default()))
}

/// A store that was used and closed, and its control plane.
fn made(folder: &Path) -> (PathBuf, PathBuf) {
    let path = folder.join("store");
    drop(opened(&path).unwrap());
    let control = match std::fs::read_to_string(path.join("plane")) {
        Ok(text) => PathBuf::from(text.lines().next().unwrap().strip_prefix("control ").unwrap()),
        Err(_) => path.clone(),
    };
    (path, control.join("control"))
}

fn refusal(path: &Path) -> (ErrorKind, String) {
    let error = opened(path).unwrap_err();
    (error.kind().clone(), format!("{error:#}"))
}

/// Makes the control plane one of other versions, older and newer, whose files are shorter, longer
/// and as long: `then` gets the number of each.
fn as_other_versions(control: &Path, mut then: impl FnMut(u64)) {
    let length = std::fs::metadata(control).unwrap().len();
    let own = format_of(control);
    for format in [own - 1, own + 1] {
        for bytes in [4_096, length, length * 2] {
            // After a rebuild it is another file.
            let file = File::options().write(true).open(control).unwrap();
            file.write_all_at(&format.to_le_bytes(), FORMAT_OFFSET).unwrap();
            file.set_len(bytes).unwrap();
            then(format);
        }
    }
}

fn format_of(control: &Path) -> u64 {
    let mut found = [0; 8];
    File::open(control).unwrap().read_exact_at(&mut found, FORMAT_OFFSET).unwrap();
    u64::from_le_bytes(found)
}

#[test]
fn a_control_plane_of_another_version_is_named_in_memory() {
    let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let (path, control) = made(folder.path());
    as_other_versions(&control, |format| {
        let (kind, text) = refusal(&path);
        assert_eq!(kind, ErrorKind::Incompatible, "{text}");
        assert!(text.contains("another version of Sessile"), "{text}");
        assert!(text.contains(&format!("format {format}")), "{text}");
        assert_eq!(format_of(&control), format, "its sessions are in it, so it stays");
    });
}

#[test]
fn on_a_disk_the_control_plane_of_a_version_that_has_ended_is_made_anew() {
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let (path, control) = made(folder.path());
    let own = format_of(&control);
    let (key, ttl) = (Key::session("visitor").unwrap(), Ttl::sliding(SHORT * 600).unwrap());
    let begun = |sessions: &Sessions| sessions.begin(&key, SHORT).unwrap();
    begun(&opened(&path).unwrap()).lease.commit(b"cart", ttl).unwrap();
    as_other_versions(&control, |_| {
        let sessions = opened(&path).unwrap();
        assert_eq!(begun(&sessions).record.unwrap().payload, b"cart");
        assert_eq!(format_of(&control), own);
    });
}

#[test]
fn on_a_disk_the_control_plane_of_a_version_in_use_is_named_and_stays() {
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let (path, control) = made(folder.path());
    let user = opened(&path).unwrap();
    let format = format_of(&control) - 1;
    let file = File::options().write(true).open(&control).unwrap();
    file.write_all_at(&format.to_le_bytes(), FORMAT_OFFSET).unwrap();
    let (kind, text) = refusal(&path);
    assert_eq!(kind, ErrorKind::Incompatible, "{text}");
    for words in ["another version of Sessile", &format!("format {format}"), "have it open"] {
        assert!(text.contains(words), "{text}");
    }
    assert_eq!(format_of(&control), format);
    drop(user);
    opened(&path).unwrap();
}

#[test]
fn a_control_plane_of_this_version_that_is_cut_short_is_damaged() {
    for place in ["/dev/shm", "/var/tmp"] {
        let folder = tempfile::TempDir::new_in(place).unwrap();
        let (path, control) = made(folder.path());
        File::options().write(true).open(&control).unwrap().set_len(4_096).unwrap();
        let (kind, text) = refusal(&path);
        assert!(kind == ErrorKind::Corrupt && text.contains("cut short"), "{text}");
    }
}

#[test]
fn data_of_another_version_are_refused_and_left_alone() {
    for place in ["/dev/shm", "/var/tmp"] {
        let folder = tempfile::TempDir::new_in(place).unwrap();
        let (path, _) = made(folder.path());
        let text = std::fs::read_to_string(path.join("format")).unwrap();
        let line = text.lines().find(|line| line.starts_with("format ")).unwrap();
        let other = text.replace(line, "format 99");
        std::fs::write(path.join("format"), &other).unwrap();
        let (kind, said) = refusal(&path);
        assert_eq!(kind, ErrorKind::Incompatible, "{said}");
        assert!(said.contains("another version of Sessile") && said.contains("99"), "{said}");
        assert_eq!(std::fs::read_to_string(path.join("format")).unwrap(), other);
    }
}

/// An engine of a version before owners takes the upper bits of a record's times, where its owner
/// is, for a part of them. It reads format 3 and refuses any other, so a store that it made must
/// say 4 before the first owner is written; one without owners must stay open to it.
#[test]
fn a_store_of_a_version_without_owners_refuses_that_version_once_a_session_has_one() {
    let (ttl, wait) = (Ttl::sliding(Duration::from_secs(600)).unwrap(), Duration::from_secs(5));
    for place in ["/dev/shm", "/var/tmp"] {
        let folder = tempfile::TempDir::new_in(place).unwrap();
        let (path, _) = made(folder.path());
        let says = || {
            let text = std::fs::read_to_string(path.join("format")).unwrap();
            text.lines().find_map(|line| line.strip_prefix("format ")).unwrap().to_owned()
        };
        let sessions = opened(&path).unwrap();
        let (key, other) = (Key::session("a").unwrap(), Key::session("b").unwrap());
        sessions.begin(&key, wait).unwrap().lease.commit(b"cart", ttl).unwrap();
        let mut begun = sessions.begin(&key, wait).unwrap();
        begun.lease.set_owner(None).unwrap();
        begun.lease.commit(b"cart", ttl).unwrap();
        assert_eq!(says(), "3", "nobody has an owner");
        let text = std::fs::read_to_string(path.join("format")).unwrap();
        let mut begun = sessions.begin(&other, wait).unwrap();
        begun.lease.set_owner(Owner::new(b"17").ok()).unwrap();
        begun.lease.commit(b"cart", ttl).unwrap();
        assert_eq!(says(), "4");
        drop(sessions);
        let now = std::fs::read_to_string(path.join("format")).unwrap();
        assert_eq!(now.replace("format 4", "format 3"), text, "nothing else has changed");
        let sessions = opened(&path).unwrap();
        assert_eq!(sessions.sessions_of(Owner::new(b"17").unwrap()).unwrap().len(), 1);
        assert!(sessions.peek(&key).unwrap().is_some());
    }
}
