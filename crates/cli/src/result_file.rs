//! Files for results: whole or not at all, whatever ends this process while one is written.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Replaces a file by a text, or makes it. What is no regular file, a pipe or a device, is written to.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    // Of a link the file that it leads to is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&path).is_ok_and(|status| !status.is_file()) {
        return fs::write(path, text);
    }
    let beside = beside(&path);
    let written = write(&beside, text).and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        let _ = fs::remove_file(beside);
    }
    written
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all() // else a power cut could leave the new name with nothing behind it
}

fn beside(path: &Path) -> PathBuf {
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
        assert_eq!((fs::read_to_string(&file).unwrap(), fs::read_link(&link).unwrap()), ("second".to_owned(), file));
        assert_eq!(io::read_to_string(old).unwrap(), "a long first text", "who reads it meanwhile sees no half of it");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
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
