//! `sessile bench gc` on servers that remove expired sessions: unknown figures are not printed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::process::Command;

use serde_json::Value;
use sessile_fixtures::ServerKind;

/// memcached does not tell what it removes, but its row said "0 in 0.25 s".
#[test]
fn a_server_that_cannot_be_asked_has_no_count_and_no_server_has_a_cost_of_removal() {
    for server in ["memcached", "redis-server"] {
        if ServerKind::by_name(server).and_then(ServerKind::find).is_none() {
            assert!(std::env::var_os("CI").is_none(), "{server} is not installed");
            return eprintln!("SKIPPED: {server} is not installed");
        }
    }
    let output = Command::new(env!("CARGO_BIN_EXE_sessile"))
        .env("SESSILE_BENCH_ALLOW_DEBUG", "1")
        .args([
            "bench",
            "gc",
            "--quick",
            "--sessions",
            "1100",
            "--duration",
            "0.3s",
            "--export-json",
            "-",
        ])
        .args(["--stores", "memcached,redis,files#shm"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let removal = |store: &str, op: &str| {
        let rows = json["results"].as_array().unwrap();
        let row = rows
            .iter()
            .find(|row| row["store"] == store && row["op"] == op && row["sessions"] == 1100);
        row.unwrap_or_else(|| panic!("{store} {op}: {rows:#?}"))["removal"].clone()
    };
    let unknown = removal("memcached", "begin-after-expiry");
    let parts = ["removed", "cpu_seconds", "longest_call_us"].map(|part| unknown[part].is_null());
    assert!(parts == [true; 3] && unknown["seconds"].as_f64() > Some(0.0), "{unknown}");
    let counted = removal("redis", "begin-while-sweeping");
    assert!(counted["removed"].as_u64() > Some(0), "{counted}");
    assert!(counted["cpu_seconds"].is_null() && counted["longest_call_us"].is_null(), "{counted}");
    let swept = removal("files", "begin-while-sweeping");
    assert_eq!(swept["removed"], 200, "two of eleven: {swept}");
    assert!(
        swept["cpu_seconds"].as_f64() > Some(0.0) && swept["longest_call_us"].as_f64() > Some(0.0),
        "{swept}"
    );
}
