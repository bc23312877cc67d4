//! What the sessions of a site take: measured, derived or by the formula, and where those bytes
//! are.

use crate::rows::recommend;
use serde_json::json;
use sessile_advice::{RuleEffect, Site, SpaceBasis, StorageMedium};
use sessile_core::Durability;

use crate::rows::{all_installed, named, results, row, rules, usual, why};

#[test]
fn derived_space_is_in_whole_pages_and_from_the_nearest_payload() {
    let site = |payload_bytes: u64| Site { payload_bytes, ..all_installed() };
    let mut files = usual();
    files[4]["bytes_per_session"] = json!(4_500);
    let results = [results(files)];
    let of = |payload: u64| {
        let recommendation = recommend(&site(payload), &results);
        let ranked = named(&recommendation, "sqlite");
        (ranked.bytes, ranked.bytes_are)
    };
    assert_eq!(of(1_500), (45_000_000, SpaceBasis::Measured));
    assert_eq!(of(4_000), (45_000_000, SpaceBasis::Derived), "one page as before");
    assert_eq!(of(5_000), (85_960_000, SpaceBasis::Derived), "two pages");
    let mut large = row("sqlite", "default", 1.0);
    large["experiment"] = json!("ops");
    large["payload_bytes"] = json!(100_000);
    large["bytes_per_session"] = json!(200_000);
    // As many sessions as the site has, so that only the payload tells which row is nearer.
    let both = [results[0].clone(), crate::rows::results(vec![large])];
    let recommendation = recommend(&site(100_000), &both);
    let ranked = named(&recommendation, "sqlite");
    assert_eq!((ranked.bytes, ranked.bytes_are), (2_000_000_000, SpaceBasis::Measured));
    let many = recommend(&Site { sessions: 50_000, ..site(1_500) }, &results);
    assert_eq!(
        named(&many, "sqlite").bytes_are,
        SpaceBasis::Derived,
        "from a fifth of the sessions"
    );
}

/// Which of two results was given first decided how large a store is.
#[test]
fn of_equally_near_rows_the_largest_space_counts_in_whichever_order() {
    let weighed = |experiment: &str, bytes: u64| {
        let mut row = row("sqlite", "default", 1.0);
        (row["experiment"], row["bytes_per_session"]) = (json!(experiment), json!(bytes));
        results(vec![row])
    };
    for all in [
        [weighed("ops", 2_100), weighed("cycle", 3_600)],
        [weighed("cycle", 3_600), weighed("ops", 2_100)],
    ] {
        let recommendation = recommend(&all_installed(), &all);
        assert_eq!(named(&recommendation, "sqlite").bytes, 36_000_000, "{recommendation}");
    }
}

#[test]
fn space_is_that_of_the_measured_rows_or_of_the_formula() {
    let site = Site { sessions: 1_000_000, payload_bytes: 4_000, ..all_installed() };
    let measured = recommend(&site, &[results(usual())]);
    // 2 000 bytes with a payload of 1 500: 500 besides it.
    assert_eq!(
        (named(&measured, "redis").bytes, named(&measured, "redis").bytes_are),
        (4_500_000_000, SpaceBasis::Derived)
    );
    assert_eq!(
        rules(named(&measured, "redis"), RuleEffect::Against),
        ["handler-to-install", "much-memory"]
    );
    let formula = recommend(&site, &[]);
    assert_eq!(named(&formula, "redis").bytes, 5_024_000_000);
    assert_eq!(named(&formula, "files").bytes, 5_120_000_000, "whole pages");
    assert_eq!(named(&formula, "mysql").medium, StorageMedium::ServerDisk);
}

/// The memory by which MySQL and PostgreSQL had grown was shown as space on the disk of the server,
/// "measured".
#[test]
fn the_measured_space_of_a_server_on_a_disk_is_said_to_be_memory() {
    let site = all_installed();
    let told = "the space of postgres, mysql is memory, by which the server has grown";
    let measured = recommend(&site, &[results(usual())]);
    for (title, medium, bytes_in) in [
        ("mysql", StorageMedium::ServerDisk, StorageMedium::Memory),
        ("postgres", StorageMedium::ServerDisk, StorageMedium::Memory),
        ("redis", StorageMedium::Memory, StorageMedium::Memory),
        ("files", StorageMedium::Disk, StorageMedium::Disk),
        ("sessile#disk", StorageMedium::Disk, StorageMedium::Disk),
    ] {
        let ranked = named(&measured, title);
        assert_eq!((ranked.medium, ranked.bytes_in), (medium, bytes_in), "{title}");
    }
    let text = measured.to_string();
    assert!(text.contains("the server's memory"), "{text}");
    assert!(measured.notes.iter().any(|note| note.starts_with(told)), "{measured}");
    // Nothing was weighed: the formula is about the disk.
    let formula = recommend(&site, &[]);
    assert_eq!(named(&formula, "postgres").bytes_in, StorageMedium::ServerDisk);
    let text = formula.to_string();
    assert!(text.contains("the server's disk") && !text.contains("the server's memory"), "{text}");
    assert!(!formula.notes.iter().any(|note| note.starts_with("the space of")), "{formula}");
}

/// Robots spoke against memcached and APCu, whether or not the sessions fit.
#[test]
fn a_server_that_evicts_is_told_how_much_memory_the_sessions_need_beyond_its_default() {
    let of = |sessions: u64, title: &str| {
        let site = Site { sessions, bots_percent: 70.0, ..all_installed() };
        let mut memcached = row("memcached", "default", 55_000.0);
        memcached["durability"] = json!("none");
        let loose = Site { restart_may_log_out: true, durability: Durability::None, ..site };
        let recommendation = recommend(&loose, &[results(vec![memcached])]);
        let against = rules(named(&recommendation, title), RuleEffect::Against);
        assert!(!against.contains(&"pushes-out"), "{recommendation}");
        why(&recommendation, title, "pushes-out")
    };
    // 2,000 bytes a session were measured.
    assert_eq!(of(33_554, "memcached"), None, "they fit, robots or not");
    let said = of(33_555, "memcached").unwrap();
    assert!(said.starts_with("raise -m to 65 MiB or more: "), "{said}");
    assert!(said.contains("it is 64 MiB by default, and when that is full live"), "{said}");
    // The formula has 2,524 bytes.
    assert_eq!(of(13_294, "apcu"), None);
    let said = of(13_295, "apcu").unwrap();
    assert!(said.starts_with("raise apc.shm_size to 33 MiB or more: "), "{said}");
    assert!(said.contains("it is 32 MiB by default"), "{said}");
    assert_eq!(of(1_000_000, "redis"), None, "it refuses new ones");
}
