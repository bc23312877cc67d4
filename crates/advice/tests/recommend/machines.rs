//! Results of several machines, given together.

use crate::rows::{recommend, table};
use serde_json::{Value, json};
use sessile_advice::site_kinds;
use sessile_core::Durability;
use sessile_results::Report;

use crate::rows::{all_installed, made, results, row, usual};

/// A result of another experiment, in which one thing of the machine is different.
fn of_gc(pointer: &str, value: Value) -> Report {
    let mut gc = row("sqlite", "default", 400.0);
    (gc["experiment"], gc["op"], gc["bytes_per_session"]) = (json!("gc"), json!("begin"), json!(0));
    made(vec![gc], pointer, value)
}

/// Only results of `cycle` were looked at: those of `gc`, `faults` or `oversize` from another
/// machine were dropped, or counted together with the others where nothing was ranked by speed, and
/// nobody was told.
#[test]
fn results_of_several_machines_are_a_warning_whatever_they_measured() {
    let same = || of_gc("", json!(null));
    for (pointer, value) in [
        ("/environment/cpu", json!("y")),
        ("/environment/cores", json!(64)),
        ("/environment/memory_bytes", json!(8_u64 << 30)),
        ("/environment/disk_file_system", json!("xfs")),
    ] {
        let other = || of_gc(pointer, value.clone());
        let warned = |reports: &[Report]| recommend(&all_installed(), reports).warnings;
        let with_speed = warned(&[results(usual()), same(), other()]);
        let [warning] = with_speed.as_slice() else { panic!("{pointer}: {with_speed:?}") };
        let first = "x with 2 processors, 17,179,869,184 bytes of memory and ext4";
        assert!(
            warning.starts_with(&format!("the results are of 2 machines, {first} (results: 2); ")),
            "{warning}"
        );
        assert!(
            warning.ends_with(&format!("; judged by those of {first}, and by none of another")),
            "{warning}"
        );
        let without = warned(&[same(), other()]);
        assert!(without.len() == 1 && without[0].ends_with("counts together"), "{without:?}");
        let empty = made(Vec::new(), pointer, value.clone());
        assert!(
            warned(&[results(usual()), same(), empty]).is_empty(),
            "what has no rows says nothing"
        );
    }
    for pointer in ["/environment/kernel", "/environment/sessile"] {
        let recommendation =
            recommend(&all_installed(), &[results(usual()), of_gc(pointer, json!("y"))]);
        assert!(recommendation.warnings.is_empty(), "{pointer}: {recommendation}");
    }
}

#[test]
fn a_warning_stands_before_what_is_recommended_and_once_below_the_table() {
    let both = [results(usual()), of_gc("/environment/cpu", json!("y"))];
    let text = recommend(&all_installed(), &both).to_string();
    let (before, after) = text.split_once("Recommended: ").unwrap();
    assert!(
        before.contains("\nwarning: the results are of 2 machines")
            && !after.contains("of 2 machines"),
        "{text}"
    );
    let text = table(&site_kinds(&all_installed().installed, Durability::Second), &both);
    assert_eq!(text.matches("\nwarning: the results are of 2 machines").count(), 1, "{text}");
    assert!(text.find("\nwarning: ").unwrap() < text.find("\nnote: ").unwrap(), "{text}");
}
