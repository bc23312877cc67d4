//! The text files of the repository, without those that git ignores (build output, benchmark
//! results).
//!
//! The rules are in `style.rs` and `documents.rs`.

#![forbid(unsafe_code)]

pub mod markdown;

/// The Rust code in the contract, compiled and run as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../crates/core/CONTRACT.md")]
pub struct Contract;

use std::fs;
use std::path::{Path, PathBuf};

/// A text file.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The path from the root of the repository, with `/`.
    pub path: String,
    /// The content.
    pub text: String,
}

impl SourceFile {
    /// Whether the path ends in one of these.
    pub fn ends_with(&self, endings: &[&str]) -> bool {
        endings.iter().any(|ending| self.path.ends_with(ending))
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    // Cargo also sets it for the running test, which is right for a binary built elsewhere.
    let package =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// All text files, sorted by path.
///
/// # Errors
///
/// If a directory or file cannot be read.
pub fn files() -> std::io::Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    collect(&root(), "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn collect(directory: &Path, prefix: &str, files: &mut Vec<SourceFile>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() && !ignored(&path, &name) {
            collect(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() {
            // Other files are images or archives.
            if let Ok(text) = String::from_utf8(fs::read(entry.path())?) {
                files.push(SourceFile { path, text });
            }
        }
    }
    Ok(())
}

fn ignored(path: &str, name: &str) -> bool {
    matches!(path, "target" | "bench-out")
        || name == "node_modules"
        || (name.starts_with('.') && path != ".ci")
}
