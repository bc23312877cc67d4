//! What reads and judges results builds no client of a server: docs/decisions/0040.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

/// Crates that measuring needs and reading does not.
const CLIENTS: [&str; 8] = [
    "heed",
    "mysql",
    "mysql_common",
    "postgres-protocol",
    "redis",
    "rusqlite",
    "sessile-engine",
    "sessile-fixtures",
];

fn built_for(package: &str) -> Vec<String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["tree", "--locked", "--offline", "--edges", "normal", "--prefix", "none"]);
    let output = command.args(["--format", "{lib}", "--package", package]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.trim().replace('_', "-")).collect()
}

#[test]
fn reading_and_judging_results_builds_no_client_of_a_server() {
    let clients: Vec<String> = CLIENTS.iter().map(|name| name.replace('_', "-")).collect();
    for package in ["sessile-results", "sessile-advice", "sessile-report"] {
        let built = built_for(package);
        let found: Vec<&String> = built.iter().filter(|name| clients.contains(name)).collect();
        assert!(found.is_empty() && built.len() > 5, "{package} builds {found:?} of {built:?}");
    }
    assert!(built_for("sessile-bench").iter().any(|name| clients.contains(name)));
}
