//! The command: exit codes, and one clear error for each bad input.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod started;

use std::process::Command;

use started::{sessile, stderr, stdout};

/// Fast, and enough for a figure.
const BRIEF: [&str; 8] =
    ["--sessions", "50", "--duration", "0.05s", "--rounds", "2", "--payload", "100"];

#[test]
fn bad_input_gets_one_clear_error_and_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let missing = format!("files:{}/missing/deeper", dir.path().display());
    let table: &[(&[&str], i32, &str)] = &[
        (&["--stores", "mongo"], 2, "unknown store"),
        (&["--stores", "secret@host/0"], 2, "unknown store; known"),
        (&["--stores", "mongo://host/"], 2, "known schemes"),
        (&["--stores", "files:relative"], 2, "absolute"),
        (&["--stores", "redis://host:notaport/"], 2, "malformed"),
        (&["--stores", "memory:?nonsense=1"], 2, "unknown option"),
        (&["--stores", "memory#nonsense"], 2, "no variant"),
        (&["--stores", "memory,memory"], 2, "twice"),
        (&["--stores", "memory", "--workers", "0"], 2, "--workers"),
        (&["--stores", "memory", "--sessions", "0"], 2, "--sessions"),
        (&["--stores", "memory", "--rounds", "0"], 2, "--rounds"),
        (&["--stores", "memory", "--duration", "0s"], 2, "--duration"),
        (&["--stores", "memory", "--duration", "nan"], 2, "--duration"),
        (&["--stores", "memory", "--rate", "0"], 2, "--rate"),
        (&["--stores", "memory", "--rate", "0.5", "--duration", "1s"], 2, "--duration 1s"),
        (&["--stores", "memory", "--op", "write"], 2, "cycle or peek"),
        (&["--stores", "memory", "--sessions", "10,20"], 2, "--sessions"),
        (&["--stores", "memory", "--profile", "/nowhere/x.json"], 3, "cannot read"),
        (&["--stores", "memory", "--profile", "/dev/null"], 2, "no profile"),
        (&["--stores", "memory", "--durability", "commit"], 2, "tier"),
        (&["--stores", "memory", "--durability", "sometimes"], 2, "none, 1s or commit"),
        (&["--stores", "memory:?payload_bytes_max=1000", "--payload", "2000"], 2, "over the limit"),
        (
            &["--stores", "memory", "--export-json", "/same", "--export-markdown", "/same"],
            2,
            "same file",
        ),
        (&["--stores", "memory", "--export-json", "/proc/nowhere/x.json"], 3, "cannot write"),
        (&["--stores", "redis+unix:/nowhere/socket"], 3, "redis+unix"),
        (&["--stores", &missing], 3, "files"),
        (&["--stores", "memory", "--no-such-flag"], 2, "--no-such-flag"),
    ];
    for (arguments, code, words) in table {
        let output = sessile(&[&["bench", "cycle", "--quick"], *arguments].concat());
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {message}");
        assert!(message.contains(words), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty(), "{arguments:?} printed figures");
        let own = !message.starts_with("error:"); // the parser's errors come with a usage line
        assert!(!own || message.trim().lines().count() == 1, "{arguments:?}: {message}");
    }
}

#[test]
fn a_debug_build_refuses_to_print_figures() {
    if cfg!(debug_assertions) {
        let output = Command::new(env!("CARGO_BIN_EXE_sessile"))
            .args(["bench", "cycle", "--stores", "null"])
            .output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("debug build"));
    }
}

#[test]
fn a_measurement_ends_in_json_on_standard_output_and_success() {
    let output = sessile(
        &[
            &[
                "bench",
                "cycle",
                "--stores",
                "memory,null,limit",
                "--workers",
                "1,2",
                "--export-json",
                "-",
            ],
            &BRIEF[..],
        ]
        .concat(),
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = json["results"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["store"].as_str().unwrap()).collect();
    assert_eq!(names, ["memory", "null", "limit"]);
    assert!(rows.iter().all(|row| row["ops_per_second"]["median"].as_f64().unwrap() > 0.0));
    assert!(rows.iter().all(|row| row["errors"] == 0 && row["misses"] == 0 && row["lost"] == 0));
    assert_eq!(json["left_out"].as_array().unwrap().len(), 3, "each is left out above one worker");
    assert_eq!(
        json["environment"]["build"],
        if cfg!(debug_assertions) { "debug" } else { "release" }
    );
}

#[test]
fn every_reference_row_and_store_measures_without_a_fault() {
    for experiment in ["ops", "cycle", "scale"] {
        let output = sessile(
            &[&["bench", experiment, "--workers", "1,3", "--export-json", "-"], &BRIEF[..]]
                .concat(),
        );
        assert_eq!(output.status.code(), Some(0), "{experiment}: {}", stderr(&output));
    }
}

#[test]
fn every_store_and_reference_row_serves_the_requests_of_a_workload() {
    for workload in ["shop", "bots"] {
        let flags = [
            "bench",
            "cycle",
            "--workload",
            workload,
            "--workers",
            "1,3",
            "--sessions",
            "50",
            "--rounds",
            "2",
        ];
        let output =
            sessile(&[&flags[..], &["--duration", "0.05s", "--export-json", "-"]].concat());
        assert_eq!(output.status.code(), Some(0), "{workload}: {}", stderr(&output));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let rows = json["results"].as_array().unwrap();
        assert!(
            rows.iter().all(|row| row["workload"] == workload && row["op"] == "request"),
            "{json}"
        );
        let out: Vec<&str> = json["left_out"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|left| left["workers"].is_null())
            .map(|left| left["store"].as_str().unwrap())
            .collect();
        // Its slots are of one size, and its table has a fixed one.
        assert!(out.contains(&"limit"), "{out:?}");
    }
}

#[test]
fn results_of_different_workloads_are_not_compared() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    for (name, workload) in [("plain", None), ("bots", Some("bots")), ("shop", Some("shop"))] {
        let mut flags = vec![
            "bench",
            "cycle",
            "--stores",
            "memory",
            "--workers",
            "1",
            "--sessions",
            "50",
            "--rounds",
            "2",
        ];
        flags.extend(workload.into_iter().flat_map(|workload| ["--workload", workload]));
        let json = path(name);
        let output =
            sessile(&[&flags[..], &["--duration", "0.05s", "--export-json", &json]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    for (old, new) in [("plain", "bots"), ("bots", "shop")] {
        let output = sessile(&["bench", "compare", &path(old), &path(new)]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("is not in NEW"), "{}", stderr(&output));
    }
    let page = sessile(&["bench", "report", &path("plain"), &path("bots"), "--output", "-"]);
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    let section = |id: &str| {
        page.split("<section id=\"")
            .find(|part| part.starts_with(id))
            .unwrap_or_default()
            .to_owned()
    };
    assert!(
        section("workloads").contains("Workload bots")
            && section("workloads").contains("Requests a second")
    );
    assert!(
        !section("cycle").contains("Requests a second,")
            && section("cycle").contains("Cycles a second,")
    );
}

#[test]
fn a_measurement_of_nothing_says_why() {
    let flags = ["bench", "scale", "--stores", "limit,memory", "--sessions", "100000000"];
    let output = sessile(&[&flags[..], &["--payload", "1000000"]].concat()); // 91 TiB
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("memory: 100000000 sessions"), "{}", stderr(&output));
}

/// A page whose cache entry exceeded memcached's limit was built for each visitor, because the
/// error was ignored.
#[test]
fn what_memcached_refuses_is_told_from_what_is_lost_and_a_route_stores_it() {
    if sessile_fixtures::ServerKind::by_name("memcached").and_then(|kind| kind.find()).is_none() {
        assert!(std::env::var_os("CI").is_none(), "memcached is not installed");
        return eprintln!("SKIPPED: memcached is not installed");
    }
    let stores = "memory,memcached,memcached#8m,route#sqlite,memcached-ignored";
    let output =
        sessile(&["bench", "oversize", "--quick", "--stores", stores, "--export-json", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = json["results"].as_array().unwrap();
    let outcomes = |store: &str, variant: &str| -> Vec<(String, String)> {
        let of = rows.iter().filter(|row| row["store"] == store && row["variant"] == variant);
        let word =
            |row: &serde_json::Value, name| row["oversize"][name].as_str().unwrap().to_owned();
        of.map(|row| (word(row, "outcome"), word(row, "after"))).collect()
    };
    let [stored, refused, lost] = [("stored", "new"), ("refused", "old"), ("lost", "nothing")]
        .map(|(a, b)| (a.to_owned(), b.to_owned()));
    let then = |first: usize, later: &(String, String)| {
        [vec![stored.clone(); first], vec![later.clone(); 5 - first]].concat()
    };
    assert_eq!(outcomes("memory", "default"), then(5, &stored));
    assert_eq!(outcomes("memcached", "default"), then(1, &refused));
    assert_eq!(outcomes("memcached", "8m"), then(4, &refused));
    assert_eq!(outcomes("memcached-ignored", "default"), then(1, &lost));
    assert_eq!(outcomes("route", "sqlite"), then(5, &stored));
    let silent = rows
        .iter()
        .filter(|row| row["oversize"]["outcome"] == "lost" && row["oversize"]["silent"] == true);
    assert_eq!(silent.count(), 4);
    let refused = rows.iter().filter(|row| row["oversize"]["outcome"] == "refused");
    assert!(
        refused.clone().count() > 0
            && refused.clone().all(|row| row["oversize"]["limit"].as_u64() > Some(1_000_000))
    );
}

#[test]
fn what_perl_cannot_measure_is_said_with_the_reason() {
    let cases: [(&[&str], &str); 2] = [
        (&["--stores", "memory"], "leave --stores out"),
        (&["--workers", "2"], "unexpected argument"),
    ];
    for (arguments, words) in cases {
        let output = sessile(&[&["bench", "perl"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(words), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn the_users_own_directory_is_left_as_it_was_found() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("files:{}#mine", dir.path().display());
    let before = sessions_in(dir.path());
    let output = sessile(
        &[
            &["bench", "cycle", "--stores", &url, "--workers", "2", "--export-json", "-"],
            &BRIEF[..],
        ]
        .concat(),
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(!text.contains(&dir.path().display().to_string()), "the result names a directory");
    assert!(text.contains("\"mine\""));
    assert_eq!(sessions_in(dir.path()), before, "sessions of the benchmark remain");
}

#[test]
fn created_sessions_leave_the_users_directory_too() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("files:{}", dir.path().display());
    let before = sessions_in(dir.path());
    let output = sessile(
        &[&["bench", "ops", "--stores", &url, "--workers", "2", "--export-json", "-"], &BRIEF[..]]
            .concat(),
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(sessions_in(dir.path()), before, "sessions that `create` made remain");
}

#[test]
fn a_refused_call_leaves_no_empty_result() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    let output =
        sessile(&["bench", "cycle", "--stores", "mongo", "--export-json", json.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!json.exists());
}

fn sessions_in(dir: &std::path::Path) -> u64 {
    let url = format!("files:{}", dir.display());
    let store = sessile_stores::open(&url, &sessile_stores::Context::default()).unwrap();
    store.stat().unwrap().sessions
}

#[test]
fn the_feature_table_names_every_store_in_both_forms() {
    let text = String::from_utf8(sessile(&["stores", "--all"]).stdout).unwrap();
    let json: serde_json::Value =
        serde_json::from_slice(&sessile(&["stores", "--json"]).stdout).unwrap();
    let stores = json["stores"].as_array().unwrap();
    assert_eq!(stores.len(), sessile_stores::registry::STORES.len());
    for store in stores {
        assert!(text.contains(store["name"].as_str().unwrap()));
        assert_eq!(store["capabilities"]["https"], true);
    }
    assert!(text.contains("Rows with * are from documentation"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 130), "legible in a terminal");
}

#[test]
fn the_environment_is_told_as_results_tell_it_and_names_no_place() {
    let output = sessile(&["bench", "environment"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let recorded: serde_json::Value =
        serde_json::from_str(include_str!("../../../bench/record/cycle-again.json")).unwrap();
    let keys = |json: &serde_json::Value| {
        json.as_object().unwrap().keys().cloned().collect::<Vec<String>>()
    };
    let told = keys(&json);
    // The record may be older than some of them. No server is started for this.
    let recorded = keys(&recorded["environment"]).into_iter();
    let gone: Vec<String> =
        recorded.filter(|key| key != "servers" && !told.contains(key)).collect();
    assert_eq!(gone, Vec::<String>::new());
    assert!(["commit", "build_flags", "disk_mount_options"].iter().all(|key| json[key] != ""));
    assert_eq!(json["build"], if cfg!(debug_assertions) { "debug" } else { "release" });
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.contains(env!("CARGO_MANIFEST_DIR")) && !text.contains("/tmp"), "{text}");
}

#[test]
fn completions_know_the_verbs_but_not_the_hidden_one() {
    let text = String::from_utf8(sessile(&["completion", "fish"]).stdout).unwrap();
    assert!(text.contains("contention") && !text.contains("bench-worker"));
}

#[test]
fn a_worker_ends_when_its_parent_is_gone() {
    let output = sessile(&["bench-worker"]); // standard input is empty at once
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

/// `sessile stores --json | head -1` once ended with a panic and exit code 101: the reader has gone
/// before everything is written.
#[test]
fn a_closed_pipe_ends_quietly() {
    for arguments in [
        &["stores", "--json"][..],
        &["stores", "--all"],
        &["stores"],
        &["completion", "bash"],
        &["--help"],
        &["bench", "environment"],
        &["recommend", "--table", "--installed", "none"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sessile"));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command.args(arguments).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stderr(&output), "", "{arguments:?}");
    }
}

#[test]
fn help_of_a_verb_is_what_the_verb_says_itself() {
    for words in [&["gc"][..], &["doctor"], &["bench", "cycle"], &[]] {
        let asked = sessile(&[&["help"][..], words].concat());
        let itself = sessile(&[words, &["--help"]].concat());
        assert_eq!(asked.status.code(), Some(0), "{words:?}: {}", stderr(&asked));
        assert_eq!(stdout(&asked), stdout(&itself), "{words:?}");
    }
    let unknown = sessile(&["help", "nothing"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("'nothing'"), "{}", stderr(&unknown));
}
