//! Before sessions are filled in somebody asks whether there is room for them: who has none is left out, with the reason, and the
//! others are measured.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::process::Command;

use serde_json::Value;

/// Only `scale` asked. The others filled until memory, `/dev/shm` or the disk was full, and took the rest of the machine along.
#[test]
fn who_has_no_room_is_left_out_with_the_reason_and_the_others_are_measured() {
    for (experiment, sessions) in
        [("cycle", "300 sessions"), ("ops", "300 sessions"), ("gc", "300 sessions"), ("expiry", " sessions")]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_sessile"))
            .env("SESSILE_BENCH_ALLOW_DEBUG", "1")
            .env("SESSILE_DISK", "/proc") // a file system that has no room, and says so
            .args(["bench", experiment, "--quick", "--sessions", "300", "--seconds", "0.1", "--rounds", "1"])
            .args(["--stores", "files#default,files#shm", "--json", "-"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{experiment}: {}", String::from_utf8_lossy(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let rows = json["results"].as_array().unwrap();
        assert!(!rows.is_empty() && rows.iter().all(|row| row["variant"] == "shm"), "{experiment}: {rows:#?}");
        let left: Vec<&Value> =
            json["left_out"].as_array().unwrap().iter().filter(|left| left["variant"] == "default").collect();
        let reason = left[0]["reason"].as_str().unwrap();
        assert!(reason.contains(sessions) && reason.contains("of 1500 bytes (fixed) need about "), "{reason}");
        assert!(reason.contains("0.0 MiB of the place of its sessions may be used; fewer --sessions"), "{reason}");
    }
}

/// The command says what it has left out and why, when that is all there was.
#[test]
fn when_nobody_has_room_nothing_is_measured_and_the_message_says_what_is_needed() {
    let output = Command::new(env!("CARGO_BIN_EXE_sessile"))
        .env("SESSILE_BENCH_ALLOW_DEBUG", "1")
        .args(["bench", "cycle", "--stores", "memory", "--workers", "1"])
        .args(["--sessions", "100000000", "--payload", "1000000"])
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("nothing is left to measure: memory: 100000000 sessions"), "{message}");
    assert!(message.contains(" GiB of memory may be used") || message.contains(" MiB of memory"), "{message}");
}
