//! Free space is checked before sessions are filled in and before samples create more. A store
//! without space is left out with the reason; the others are measured.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::os::unix::fs::MetadataExt;
use std::process::{Command, Output};

use serde_json::Value;

const SESSILE: &str = env!("CARGO_BIN_EXE_sessile");
const OPS: [&str; 5] = ["ops", "--sessions", "20", "--stores", "files#default"];
/// The exit code of a shell that cannot mount.
const NO_MOUNT: i32 = 77;

/// Rows, and contenders that were left out.
fn measured(output: &Output) -> (Vec<Value>, Vec<Value>) {
    let json: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (json["results"].as_array().unwrap().clone(), json["left_out"].as_array().unwrap().clone())
}

/// With a full disk: procfs has no space.
fn without_disk(arguments: &[&str]) -> (Vec<Value>, Vec<Value>) {
    let output = Command::new(SESSILE)
        .env("SESSILE_BENCH_ALLOW_DEBUG", "1")
        .env("SESSILE_DISK", "/proc")
        .arg("bench")
        .args(arguments)
        .args(["--export-json", "-", "--quick", "--duration", "0.1s"])
        .output()
        .unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    measured(&output)
}

/// With a tmpfs of these options as `{disk}`; `None` if it cannot be mounted.
fn on_small_disk(options: &str, arguments: &[&str]) -> Option<(Vec<Value>, Vec<Value>)> {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    // In its own mount namespace, which ends with it.
    let namespace = if std::fs::metadata("/proc/self").unwrap().uid() == 0 { "-m" } else { "-rm" };
    let script = format!("mount -t tmpfs -o {options} none \"$0\" || exit {NO_MOUNT}; exec \"$@\"");
    let output = Command::new("unshare")
        .env("SESSILE_BENCH_ALLOW_DEBUG", "1")
        .env("SESSILE_DISK", place.path())
        .args([namespace, "sh", "-c", &script])
        .arg(place.path())
        .args([SESSILE, "bench"])
        .args(
            arguments
                .iter()
                .map(|argument| argument.replace("{disk}", &place.path().display().to_string())),
        )
        .args(["--export-json", "-", "--workers", "1"])
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "unshare: {error}");
            println!("skipped: room on a small disk (unshare: {error})");
            return None;
        }
    };
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(NO_MOUNT) || message.starts_with("unshare: ") {
        assert!(std::env::var_os("CI").is_none(), "{message}");
        println!("skipped: room on a small disk ({})", message.trim());
        return None;
    }
    Some(measured(&output))
}

/// Only `scale` checked. The other experiments filled the memory, `/dev/shm` or the disk, and with
/// it the whole machine.
#[test]
fn who_has_no_room_is_left_out_with_the_reason_and_the_others_are_measured() {
    for (experiment, sessions, less) in [
        ("cycle", "300 sessions", "; fewer --sessions"),
        ("ops", "300 sessions", "; fewer --sessions"),
        ("gc", "300 sessions", "; fewer --sessions"),
        ("faults", "50 sessions", "; fewer --rounds"),
    ] {
        let mut arguments = vec![experiment, "--stores", "files#default,files#shm"];
        arguments.extend(match experiment {
            "faults" => ["--workers", "2", "--rounds", "2"],
            _ => ["--sessions", "300", "--rounds", "1"],
        });
        let (rows, left_out) = without_disk(&arguments);
        assert!(
            !rows.is_empty() && rows.iter().all(|row| row["variant"] == "shm"),
            "{experiment}: {rows:#?}"
        );
        let left: Vec<&Value> =
            left_out.iter().filter(|left| left["variant"] == "default").collect();
        let reason = left[0]["reason"].as_str().unwrap();
        assert!(
            reason.contains(sessions) && reason.contains("of 1500 bytes (fixed) need about "),
            "{reason}"
        );
        assert!(
            reason.contains("0.0 MiB of the place of its sessions may be used; ")
                && reason.contains(less),
            "{reason}"
        );
    }
}

/// A store given by URL was checked against memory, wherever its sessions are.
#[test]
fn a_store_of_the_users_is_asked_for_room_where_its_url_says() {
    // The disk takes 163 of them.
    let stores = "files:{disk}/sessions#theirs,files#shm";
    let arguments =
        ["cycle", "--stores", stores, "--sessions", "300", "--rounds", "1", "--duration", "0.1s"];
    let Some((rows, left_out)) = on_small_disk("size=1m", &arguments) else { return };
    let variants: Vec<&Value> = rows.iter().map(|row| &row["variant"]).collect();
    assert_eq!(variants, ["shm"], "{rows:#?}");
    let left: Vec<&Value> = left_out.iter().filter(|left| left["variant"] == "theirs").collect();
    let reason = left[0]["reason"].as_str().unwrap();
    assert!(
        reason.contains(" 0.8 MiB of the place of its sessions may be used")
            && !reason.contains('/'),
        "{reason}"
    );
}

/// `ops` checked the space for filling, but not for `create`, which wrote until the disk or the
/// memory was full.
#[test]
fn samples_make_no_more_sessions_than_there_is_room_for() {
    // Four fifths of 4 MiB may be used, for 800 sessions; a sample has time for thousands.
    let Some((rows, left_out)) =
        on_small_disk("size=4m", &[&OPS[..], &["--duration", "0.5s", "--rounds", "3"]].concat())
    else {
        return;
    };
    // It was a failed row, for which `recommend` excluded the store.
    assert_eq!(
        rows.iter().map(|row| &row["op"]).collect::<Vec<&Value>>(),
        ["read", "change"],
        "{rows:#?}"
    );
    assert!(rows.iter().all(|row| row["errors"] == 0 && row["failed"].is_null()), "{rows:#?}");
    assert!(left_out.len() == 1 && left_out[0]["workers"] == 1, "{left_out:#?}");
    let why = left_out[0]["reason"].as_str().unwrap();
    assert!(why.starts_with("create: a sample of 0.5 s makes more than the "), "{why}");
}

/// A directory or a server of ours that could not be made was a failed row, and no store can help
/// it.
#[test]
fn a_store_whose_private_place_cannot_be_made_is_left_out() {
    // Without a check of the room before.
    let (rows, left_out) =
        without_disk(&["contention", "--stores", "files#default,files#shm", "--rounds", "1"]);
    assert!(!rows.is_empty() && rows.iter().all(|row| row["variant"] == "shm"), "{rows:#?}");
    assert!(left_out.len() == 1 && left_out[0]["variant"] == "default", "{left_out:#?}");
    let why = left_out[0]["reason"].as_str().unwrap();
    assert!(why.starts_with("no fresh directory: "), "{why}");
}

/// The socket of a server in a directory with a long name was cut off.
#[test]
fn a_store_whose_server_has_no_place_for_its_socket_is_left_out() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let disk = dir.path().join("d".repeat(90));
    std::fs::create_dir(&disk).unwrap();
    let output = Command::new(SESSILE)
        .env("SESSILE_BENCH_ALLOW_DEBUG", "1")
        .env("SESSILE_DISK", &disk)
        .args(["bench", "cycle", "--quick", "--stores", "memory,redis", "--workers", "1"])
        .args(["--sessions", "10", "--rounds", "1", "--duration", "0.05s", "--export-json", "-"])
        .output()
        .unwrap();
    let (rows, left_out) = measured(&output);
    assert!(rows.len() == 1 && output.status.success(), "{rows:#?}");
    let reasons = left_out.iter().filter(|left| left["store"] == "redis");
    let reasons: Vec<&str> = reasons.map(|left| left["reason"].as_str().unwrap()).collect();
    assert!(
        reasons.iter().all(|why| {
            why.contains("a unix socket takes 107; set SESSILE_DISK to a shorter directory")
                || why.contains("is not installed") && std::env::var_os("CI").is_none()
        }) && !reasons.is_empty(),
        "{left_out:#?}"
    );
}

/// Failing quickly also uses up the ids of a sample: that was reported as a lack of space, without
/// the errors.
#[test]
fn errors_of_a_store_are_told_and_not_called_a_lack_of_room() {
    // Space for 5,000 sessions and inodes for some hundred: ids are prepared for 60,000.
    let arguments = [&OPS[..], &["--duration", "1s", "--rounds", "1"]].concat();
    let Some((rows, _)) = on_small_disk("size=32m,nr_inodes=400", &arguments) else { return };
    let create = rows.iter().find(|row| row["op"] == "create").unwrap();
    assert!(
        create["errors"].as_u64().unwrap() > 0 && create["first_error"].is_string(),
        "{create:#?}"
    );
    assert!(
        !create["failed"].as_str().unwrap_or_default().contains("there is room"),
        "{create:#?}"
    );
}

#[test]
fn sessions_that_a_store_has_no_time_to_make_need_no_room() {
    // Ids are prepared for 3,200 sessions, and 1,600 may exist; in 20 ms some hundred are created.
    let Some((rows, left_out)) =
        on_small_disk("size=8m", &[&OPS[..], &["--duration", "0.01s", "--rounds", "2"]].concat())
    else {
        return;
    };
    assert!(left_out.is_empty(), "{left_out:#?}");
    let create = rows.iter().find(|row| row["op"] == "create").unwrap();
    assert!(
        create["errors"] == 0 && create["failed"].is_null() && create["rounds"] == 2,
        "{create:#?}"
    );
}

/// If all are left out, the command says why.
#[test]
fn when_nobody_has_room_nothing_is_measured_and_the_message_says_what_is_needed() {
    let output = Command::new(SESSILE)
        .env("SESSILE_BENCH_ALLOW_DEBUG", "1")
        .args(["bench", "cycle", "--stores", "memory", "--workers", "1"])
        .args(["--sessions", "100000000", "--payload", "1000000"])
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("nothing is left to measure: memory: 100000000 sessions"),
        "{message}"
    );
    assert!(
        message.contains(" GiB of memory may be used") || message.contains(" MiB of memory"),
        "{message}"
    );
}
