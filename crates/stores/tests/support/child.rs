//! A child: this program again, as another process with a role.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const ROLE: &str = "SESSILE_TEST_ROLE";
const ROOT: &str = "SESSILE_TEST_DIR";

/// Runs this binary again: only the test `role_of_a_child`, which does what [`role`] says.
pub fn child(role: &str, root: &Path) -> Child {
    command(role, root).spawn().unwrap()
}

/// Does the same as another user and waits for it. Takes root.
pub fn run_as(user: u32, role: &str, root: &Path) {
    assert!(command(role, root).uid(user).gid(user).status().unwrap().success(), "{role}");
}

fn command(role: &str, root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["role_of_a_child", "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(ROOT, root)
        .stdout(Stdio::null());
    command
}

/// What this process is to do, and in which directory; `None` when it is no child.
pub fn role() -> Option<(String, PathBuf)> {
    let role = std::env::var(ROLE).ok()?;
    Some((role, std::env::var_os(ROOT).unwrap().into()))
}
