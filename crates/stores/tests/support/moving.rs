//! A socket that leads to another server later on, as the address of a primary does when its
//! replica takes over.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

pub struct Moving(TempDir);

impl Moving {
    pub fn to(socket: &Path) -> Moving {
        let moving = Moving(tempfile::tempdir().unwrap());
        symlink(socket, moving.socket()).unwrap();
        moving
    }

    pub fn socket(&self) -> PathBuf {
        self.0.path().join("socket")
    }

    /// Only new connections get there.
    pub fn move_to(&self, socket: &Path) {
        std::fs::remove_file(self.socket()).unwrap();
        symlink(socket, self.socket()).unwrap();
    }
}
