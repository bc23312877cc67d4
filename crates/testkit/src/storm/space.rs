//! How much space a store takes, seen from outside: the blocks of all files below a directory.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub fn occupied(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => metadata.blocks() * 512 + occupied(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_written_is_counted_and_what_is_removed_is_not() {
        let dir = std::env::temp_dir().join(format!(
            "storm-space-{}-{:x}",
            std::process::id(),
            fastrand::u64(..)
        ));
        std::fs::create_dir_all(dir.join("below")).unwrap();
        let empty = super::occupied(&dir);
        let file = dir.join("below/file");
        std::fs::write(&file, vec![1; 1 << 20]).unwrap();
        assert!(super::occupied(&dir) >= empty + (1 << 20));
        std::fs::remove_file(&file).unwrap();
        assert!(super::occupied(&dir) <= empty + 4_096);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
