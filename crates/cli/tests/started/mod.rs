//! Starts the command and reads its output. Debug builds measure here. Has no tests.

use std::process::{Command, Output};

pub fn sessile(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessile"));
    command.args(arguments).env("SESSILE_BENCH_ALLOW_DEBUG", "1").output().unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[allow(dead_code, reason = "not every file looks at it")]
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
