//! `sessile bench ops --as-published`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod started;

use serde_json::Value;
use started::{sessile, stderr};

const BRIEF: [&str; 8] =
    ["--workers", "1", "--sessions", "50", "--duration", "0.05s", "--rounds", "2"];

#[test]
fn the_result_says_that_it_is_as_published_and_is_compared_with_none_that_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (published, corrected) = (file("published.json"), file("corrected.json"));
    for (path, flags) in [(&published, &["--as-published"][..]), (&corrected, &[][..])] {
        let stores = ["--stores", "memory,files,limit,null", "--export-json", path];
        let output = sessile(&[&["bench", "ops"][..], flags, &stores, &BRIEF].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let read = |path: &str| {
        serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let json = read(&published);
    assert_eq!(json["settings"]["as_published"], true);
    assert_eq!(read(&corrected)["settings"].get("as_published"), None);
    let rows = json["results"].as_array().unwrap();
    assert!(
        rows.iter().all(|row| row["misses"] == 0 && row["errors"] == 0 && row["store"] != "limit"),
        "{rows:#?}"
    );
    assert!(rows.iter().any(|row| row["op"] == "create" && row["store"] == "files"), "{rows:#?}");
    assert!(json["warnings"].to_string().contains("as published"), "{}", json["warnings"]);
    assert!(json["left_out"].to_string().contains("limit"), "{}", json["left_out"]);
    let output = sessile(&["bench", "compare", &corrected, &published]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("ops: it is not in NEW"), "{}", stderr(&output));
}

#[test]
fn only_ops_was_published_like_that() {
    for (experiment, store) in
        [("cycle", "memory"), ("lifecycle", "files"), ("languages", "perl"), ("rebuild", "all")]
    {
        let output = sessile(&["bench", experiment, "--as-published", "--stores", store]);
        assert_eq!(output.status.code(), Some(2), "{experiment}: {}", stderr(&output));
        let words = "unexpected argument '--as-published'";
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}
