//! Two versions of the engine on one store: the second is refused, and the message says that the
//! versions differ.
//!
//! A PHP module of an older version once said "the control plane is cut short" beside a newer
//! command, because its control plane was shorter. The administrator looked for a full disk.

#![allow(clippy::unwrap_used, reason = "helpers of tests are not recognised as tests")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use sessile_core::{Clock, Error, ErrorKind, Limits, Sessions};
use sessile_engine::{EngineOptions, open};

/// Where the number of the format stands in the control plane: DESIGN.md.
const FORMAT_OFFSET: u64 = 8;

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

fn a_control_plane_of_another_version_is_named(folder: &Path) {
    let (path, control) = made(folder);
    let file = File::options().read(true).write(true).open(&control).unwrap();
    let bytes = file.metadata().unwrap().len();
    let mut found = [0; 8];
    file.read_exact_at(&mut found, FORMAT_OFFSET).unwrap();
    for format in [u64::from_le_bytes(found) - 1, u64::from_le_bytes(found) + 1] {
        file.write_all_at(&format.to_le_bytes(), FORMAT_OFFSET).unwrap();
        // Another version's may be shorter, longer, or as long.
        for length in [4_096, bytes, bytes * 2] {
            file.set_len(length).unwrap();
            let (kind, text) = refusal(&path);
            assert_eq!(kind, ErrorKind::Incompatible, "{length} bytes: {text}");
            assert!(text.contains("another version of Sessile"), "{text}");
            assert!(text.contains(&format!("format {format}")), "{text}");
        }
    }
    // The own version's, shortened, is damaged.
    file.write_all_at(&found, FORMAT_OFFSET).unwrap();
    file.set_len(4_096).unwrap();
    let (kind, text) = refusal(&path);
    assert!(kind == ErrorKind::Corrupt && text.contains("cut short"), "{text}");
}

#[test]
fn a_control_plane_of_another_version_is_named_in_memory() {
    a_control_plane_of_another_version_is_named(
        tempfile::TempDir::new_in("/dev/shm").unwrap().path(),
    );
}

#[test]
fn a_control_plane_of_another_version_is_named_on_a_disk() {
    a_control_plane_of_another_version_is_named(
        tempfile::TempDir::new_in("/var/tmp").unwrap().path(),
    );
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
