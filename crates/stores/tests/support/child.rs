//! A child: this program again, as another process with a role.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const ROLE: &str = "SESSILE_TEST_ROLE";
const ROOT: &str = "SESSILE_TEST_DIR";

/// Runs this binary again: only the test `role_of_a_child`, which does what [`role`] says.
pub fn child(role: &str, root: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["role_of_a_child", "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(ROOT, root)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// What this process is to do, and in which directory; `None` when it is no child.
pub fn role() -> Option<(String, PathBuf)> {
    let role = std::env::var(ROLE).ok()?;
    Some((role, std::env::var_os(ROOT).unwrap().into()))
}
