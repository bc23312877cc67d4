//! The verbs that judge results: `bench compare` and `recommend`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod started;

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};
use started::{sessile, stderr, stdout};

/// A real result of three stores and a reference row.
fn measured(dir: &Path) -> Value {
    let file = dir.join("measured.json");
    let brief = "bench cycle --stores memory,files,sqlite,limit --workers 1 --sessions 50 \
                 --duration 0.05s --rounds 3 --payload 100 --export-json";
    let words = brief.split(' ').chain([file.to_str().unwrap()]);
    let output = sessile(&words.collect::<Vec<&str>>());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    for row in json["results"].as_array().unwrap() {
        let samples = row["samples"].as_array().unwrap();
        assert_eq!(samples.len(), 3, "each round leaves its sample");
        let middle = row["ops_per_second"]["median"].as_f64().unwrap();
        assert!(
            samples
                .iter()
                .any(|sample| sample["ops_per_second"] == middle && sample["p99_us"].is_number())
        );
    }
    json
}

fn write(dir: &Path, name: &str, json: &Value) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, json.to_string()).unwrap();
    path
}

fn compare(old: &Path, new: &Path) -> Output {
    sessile(&["bench", "compare", old.to_str().unwrap(), new.to_str().unwrap()])
}

/// A slower row of another run is none: the machine may have been slower.
#[test]
fn files_of_all_and_of_one_experiment_are_set_side_by_side_and_only_a_bad_row_is_exit_code_1() {
    let dir = tempfile::tempdir().unwrap();
    let cycle = measured(dir.path());
    let mut ops = cycle.clone();
    for row in ops["results"].as_array_mut().unwrap() {
        row["experiment"] = json!("ops");
    }
    let all = |name: &str, ops: &Value| {
        write(dir.path(), name, &json!({ "schema": 1, "runs": [cycle, ops] }))
    };
    let (one, old) = (write(dir.path(), "one.json", &cycle), all("old.json", &ops));
    ops["results"][1]["ops_per_second"]["median"] = json!(1);
    let slower = compare(&old, &all("slower.json", &ops));
    assert_eq!(slower.status.code(), Some(0), "{}{}", stdout(&slower), stderr(&slower));
    let told = stdout(&slower);
    assert!(told.contains("== cycle\n") && told.contains("== ops\n"), "{told}");
    assert!(told.contains("cannot tell") && told.contains("--baseline"), "{told}");
    assert!(told.lines().all(|line| line.len() <= 100), "{told}");

    let compared = compare(&old, &one);
    assert_eq!(compared.status.code(), Some(0), "{}", stderr(&compared));
    assert!(stdout(&compared).contains("not compared: ops: it is not in NEW"));

    ops["results"][1]["misses"] = json!(3);
    let bad = compare(&old, &all("bad.json", &ops));
    assert_eq!(bad.status.code(), Some(1));
    let message = stderr(&bad);
    assert!(
        message.starts_with("sessile: ops: files cycle@1: it is bad in NEW: 0 errors, 3 misses"),
        "{message}"
    );
}

#[test]
fn what_cannot_be_compared_is_exit_code_2_and_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let json = measured(dir.path());
    let old = write(dir.path(), "old.json", &json);
    let changed = |name: &str, field: &str, value: Value| {
        let mut json = json.clone();
        *json.pointer_mut(field).unwrap() = value;
        write(dir.path(), name, &json)
    };
    let table = [
        (dir.path().join("nowhere.json"), "cannot be read"),
        (changed("schema.json", "/schema", json!(2)), "schema 2"),
        (changed("empty.json", "/results", json!([])), "no row is in both"),
        (write(dir.path(), "other.json", &json!({ "stores": [] })), "no result of sessile bench"),
    ];
    for (new, words) in table {
        let output = compare(&old, &new);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{new:?}: {message}");
        assert!(
            message.contains(words) && message.trim().lines().count() == 1,
            "{new:?}: {message}"
        );
    }
}

#[test]
fn a_recommendation_is_made_from_flags_and_results_and_asks_nobody_without_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let results = write(dir.path(), "old.json", &measured(dir.path()));
    let results = ["--results", results.to_str().unwrap()];
    // They are of tier none.
    let loose = ["recommend", "--installed", "none", "--restart-may-log-out", "yes"];
    let output = sessile(&[&loose[..], &results[..]].concat());
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        text.contains("by the measured rows of cycle: 1 workers") && text.contains("Recommended: "),
        "{text}"
    );
    assert!(text.contains("excluded: memory: one-process: "), "{text}");

    // A file of `bench all` holds several runs.
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(results[1]).unwrap()).unwrap();
    let all = write(dir.path(), "all.json", &json!({ "schema": 1, "runs": [report] }));
    let from_all = sessile(&[&loose[..], &["--results", all.to_str().unwrap()]].concat());
    assert_eq!(stdout(&from_all), text, "{}", stderr(&from_all));

    let flags =
        ["recommend", "--web-servers", "3", "--installed", "redis", "--durability", "1s", "--json"];
    let json: Value = serde_json::from_slice(&sessile(&flags).stdout).unwrap();
    let best = &json["ranking"][0];
    assert_eq!(
        (&best["store"], &best["excluded"], &json["recommended"]),
        (&json!("phpredis"), &json!(false), &json!("phpredis#lock")),
        "{json:#}"
    );
    let engine =
        json["ranking"].as_array().unwrap().iter().find(|it| it["store"] == "sessile").unwrap();
    assert_eq!(
        (&engine["excluded"], &engine["rules"][0]["rule"]),
        (&json!(true), &json!("not-shared-by-hosts"))
    );
    assert!(json["notes"][0].as_str().unwrap().contains("nothing was measured"), "{json:#}");

    let table = stdout(&sessile(&["recommend", "--table", "--installed", "redis"]));
    assert!(
        table.contains("Magento on three hosts") && table.contains("not-shared-by-hosts"),
        "{table}"
    );
    let commit = stdout(&sessile(&["recommend", "--table", "--durability", "commit"]));
    assert!(commit.contains("tier commit") && !commit.contains("tier none"), "{commit}");
}

#[test]
fn a_recommendation_from_nonsense_is_exit_code_2() {
    let table: &[(&[&str], &str)] = &[
        (&["--installed", "mongo"], "no store with a server"),
        (&["--results", "/nowhere/x.json"], "cannot be read"),
        (&["--anonymous", "101"], "0 to 100"),
        (&["--restart-may-log-out", "perhaps"], "yes or no"),
        (&["--requests-per-second", "1e300"], "0 to 1000000000"),
        (&["--web-servers", "0"], "--web-servers"),
        (&["--table", "--json"], "--table"),
    ];
    for (arguments, words) in table {
        let output = sessile(&[&["recommend"], *arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(words), "{arguments:?}: {}", stderr(&output));
    }
}

/// A store that could not be opened was "left out", and the exit code was 0.
#[test]
fn an_experiment_that_fails_is_told_and_is_exit_code_3_and_the_others_are_measured() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("all.json");
    let nobody = format!("redis+unix:{}", dir.path().join("nobody").display());
    let stores = format!("php#default,{nobody}");
    let flags = ["bench", "all", "--quick", "--only", "languages,oversize", "--stores", &stores];
    let output = sessile(&[&flags[..], &["--export-json", file.to_str().unwrap()]].concat());
    let said = stderr(&output);
    let json: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(json["parts"][0]["experiment"], "oversize");
    assert_eq!(json["parts"][0]["state"], "failed", "{json:#}");
    assert!(
        said.contains("oversize: FAILED: ") && stdout(&output).contains("FAILED: oversize: "),
        "{said}"
    );
    assert!(json["left_out"].to_string().contains("it failed: "), "{json:#}");
    assert_eq!(output.status.code(), Some(3), "{said}");
    if json["parts"][1]["state"] == "left-out" {
        assert!(std::env::var_os("CI").is_none(), "PHP is not installed");
        return println!("SKIPPED: {}", json["parts"][1]["reason"]);
    }
    assert_eq!(json["parts"][1]["state"], "done", "{json:#}");
    assert!(said.contains("there is no result of oversize: "), "{said}");
}

/// Errors of opening a store were "left out", and the exit code was 0; one store that was too small
/// took the experiment from all others.
#[test]
fn an_unknown_option_fails_an_experiment_and_a_store_that_is_too_small_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("all.json");
    let run = |only: &str, stores: &str| {
        let flags = [
            "bench",
            "all",
            "--quick",
            "--only",
            only,
            "--stores",
            stores,
            "--export-json",
            file.to_str().unwrap(),
        ];
        let output = sessile(&flags);
        (output, serde_json::from_str::<Value>(&std::fs::read_to_string(&file).unwrap()).unwrap())
    };
    let place = dir.path().join("sessions").display().to_string();
    let (output, json) = run("oversize", &format!("memory,files:{place}?colour=red"));
    assert_eq!(json["parts"][0]["state"], "failed", "{json:#}");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));

    let (output, json) =
        run("contention", &format!("files#shm,files:{place}?payload_bytes_max=1000#small"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(json["runs"][0]["left_out"][0]["variant"], "small", "{json:#}");
    let stores: Vec<&Value> =
        json["runs"][0]["results"].as_array().unwrap().iter().map(|row| &row["store"]).collect();
    assert!(!stores.is_empty() && stores.iter().all(|store| *store == "files"), "{stores:?}");
}
