//! Result files: written as a whole or not at all, even if this process is killed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::bench::is_stdout;

/// The limit of followed links, as in Linux: links may form a ring.
const LINKS_MAX: u32 = 40;

/// Whether two paths name one file: the later result would replace the earlier one. A pipe, a
/// device or standard output takes several results; only the same path twice is a mistake.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let is_file =
        |path: &Path| !is_stdout(path) && !fs::metadata(path).is_ok_and(|status| !status.is_file());
    let number = |path: &Path| fs::metadata(path).ok().map(|status| (status.dev(), status.ino()));
    let is_linked = || number(one).is_some_and(|it| number(other) == Some(it));
    one == other
        || (is_file(one) && is_file(other) && (resolve(one) == resolve(other) || is_linked()))
}

/// The file of a path with links resolved; it need not exist.
pub fn resolve(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        if let Ok(found) = fs::canonicalize(&path) {
            return found;
        }
        let Ok(target) = fs::read_link(&path) else { break };
        path = path.with_file_name(target);
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let (Ok(dir), Some(name)) = (fs::canonicalize(dir), path.file_name()) {
        return dir.join(name);
    }
    path
}

/// Replaces or creates a file. Writes into pipes and devices.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    // Of a link its target is replaced.
    let path = resolve(path);
    if fs::metadata(&path).is_ok_and(|status| !status.is_file()) {
        return fs::write(path, text);
    }
    let temporary = temporary_path(&path);
    let written = write(&temporary, text).and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        let _ = fs::remove_file(temporary);
    }
    written
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all() // or a power cut could leave an empty file
}

fn temporary_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    path.with_file_name(format!(".{name}.{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_result_is_replaced_as_a_whole_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("out.json"), dir.path().join("link.json"));
        replace(&file, "a long first text").unwrap();
        symlink(&file, &link).unwrap();
        let old = File::open(&file).unwrap();
        replace(&link, "second").unwrap();
        assert_eq!(
            (fs::read_to_string(&file).unwrap(), fs::read_link(&link).unwrap()),
            ("second".to_owned(), file)
        );
        assert_eq!(
            io::read_to_string(old).unwrap(),
            "a long first text",
            "who reads it meanwhile sees no half of it"
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    /// `new.json` and `./new.json` passed for two files, and one result replaced the other.
    #[test]
    fn one_file_is_known_by_any_name_before_and_after_it_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("sub")).unwrap();
        for (name, leads_to) in
            [("link", "out"), ("link-to-link", "link"), ("sub-too", "sub"), ("loop", "loop")]
        {
            symlink(leads_to, path(name)).unwrap();
        }
        for is_there in [false, true] {
            if is_there {
                ["link-to-link", "sub/out"]
                    .iter()
                    .for_each(|name| replace(&path(name), "x").unwrap());
                assert!(
                    path("out").is_file()
                        && path("link").is_symlink()
                        && path("link-to-link").is_symlink()
                );
            }
            for name in ["./out", "sub/../out", "sub-too/../out", "link", "link-to-link"] {
                assert!(
                    is_same(&path("out"), &path(name)) && is_same(&path(name), &path("out")),
                    "{name} {is_there}"
                );
            }
            if is_there && !path("hard").exists() {
                fs::hard_link(path("out"), path("hard")).unwrap();
            }
            assert_eq!(is_same(&path("out"), &path("hard")), is_there);
            assert!(is_same(&path("sub/out"), &path("sub-too/out")));
            for name in ["other", "sub/out", "sub-too/out", "loop", "missing/out"] {
                assert!(!is_same(&path("out"), &path(name)), "{name} {is_there}");
            }
        }
        assert!(is_same(Path::new("out"), Path::new("./out")));
        let stdout = Path::new("-");
        assert!(
            !is_same(stdout, Path::new("./-")) && !is_same(Path::new("./-"), stdout),
            "only one is a file"
        );
        assert!(
            is_same(stdout, stdout)
                && is_same(Path::new("./-"), &std::env::current_dir().unwrap().join("-"))
        );
        assert!(
            !is_same(Path::new("/dev/null"), Path::new("/dev/../dev/null")),
            "nothing is replaced there"
        );
    }

    #[test]
    fn a_device_is_written_to_and_a_failure_leaves_nothing() {
        replace(Path::new("/dev/null"), "gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let dir = tempfile::tempdir().unwrap();
        assert!(replace(&dir.path().join("missing/out.json"), "x").is_err());
        fs::create_dir(dir.path().join("taken")).unwrap();
        assert!(replace(&dir.path().join("taken"), "x").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
