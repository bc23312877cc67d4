//! The recommendation: what loses is not recommended, ours included, and what cannot be used names its rule.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use sessile_bench::Report;
use sessile_bench::recommend::{Effect, Medium, RULES, Ranked, Recommendation, Site, kinds, recommend, table};
use sessile_core::Durability;
use sessile_stores::registry::STORES;

/// A measured row of `cycle`: store, variant, operations a second.
fn row(store: &str, variant: &str, speed: f64) -> Value {
    json!({
        "experiment": "cycle", "store": store, "url": "", "variant": variant, "op": "cycle", "workers": 8,
        "sessions": 10_000, "payload_bytes": 1500, "payload_spread": "fixed", "durability": "none",
        "kind": "embedded", "rounds": 5,
        "ops_per_second": { "median": speed, "low": speed * 0.98, "high": speed * 1.02 },
        "latency_us": { "min": 1.0, "p50": 1.0, "p90": 1.0, "p99": 9.0, "p999": 1.0, "max": 1.0 },
        "operations": 1000, "errors": 0, "first_error": null, "misses": 0, "lost": 0, "failed": null,
        "cpu_us_per_op": { "client": 1.0, "server": 0.0 }, "bytes_per_session": 2000,
    })
}

fn results(rows: Vec<Value>) -> Report {
    let report = json!({
        "schema": 1, "command": "sessile bench cycle", "seed": 1, "results": rows, "left_out": [], "warnings": [],
        "environment": { "cpu": "x", "cores": 2, "memory_bytes": 1, "kernel": "Linux", "system": "x",
            "disk_file_system": "ext4", "sessile": "0.1.0", "build": "release", "versions": {} },
        "settings": { "seconds": 0.5, "warm_up_seconds": 0.1, "ttl_seconds": 1440, "churn": 0, "confidence": 0.9 },
    });
    Report::from_json(&report.to_string()).unwrap()
}

/// As fast as these stores are on some machine: ours before all others.
fn usual() -> Vec<Value> {
    vec![
        row("sessile", "default", 500_000.0),
        row("sessile", "disk", 400_000.0),
        row("files", "default", 30_000.0),
        row("files", "shm", 60_000.0),
        row("sqlite", "default", 10_000.0),
        row("redis", "default", 50_000.0),
        row("mysql", "default", 8_000.0),
        row("postgres", "default", 9_000.0),
        row("memcached", "default", 55_000.0),
    ]
}

fn all_installed() -> Site {
    let servers = STORES.iter().filter_map(|entry| entry.capabilities.server).map(str::to_owned);
    Site { installed: servers.collect(), ..Site::default() }
}

fn named<'a>(recommendation: &'a Recommendation, title: &str) -> &'a Ranked {
    recommendation.ranking.iter().find(|ranked| ranked.title() == title).unwrap()
}

fn best(recommendation: &Recommendation) -> String {
    recommendation.best().unwrap().title()
}

fn rules(ranked: &Ranked, effect: Effect) -> Vec<&str> {
    ranked.fired(effect).map(|fired| fired.rule).collect()
}

#[test]
fn our_engine_is_recommended_where_it_wins_and_not_where_it_loses() {
    let site = all_installed();
    let recommendation = recommend(&site, &[results(usual())]);
    assert_eq!(best(&recommendation), "sessile#disk", "{recommendation}");
    let losing = |speed: f64| {
        let rows = usual().into_iter().map(|mut row| {
            if row["store"] == "sessile" {
                row["ops_per_second"] = json!({ "median": speed, "low": speed, "high": speed });
            }
            row
        });
        recommend(&site, &[results(rows.collect())])
    };
    let slower = losing(20_000.0);
    assert_eq!(best(&slower), "redis", "{slower}");
    let places: Vec<String> = slower.ranking.iter().filter(|it| !it.excluded).map(Ranked::title).take(3).collect();
    assert_eq!(places, ["redis", "files", "sessile#disk"], "{slower}");
    let too_slow = losing(10.0);
    assert_eq!(rules(named(&too_slow, "sessile#disk"), Effect::Excludes), ["too-slow"], "{too_slow}");
}

#[test]
fn a_store_that_lost_updates_is_excluded_however_fast_it_is() {
    let mut rows = usual();
    rows[1]["lost"] = json!(2);
    let recommendation = recommend(&all_installed(), &[results(rows)]);
    let engine = named(&recommendation, "sessile#disk");
    assert!(engine.excluded && rules(engine, Effect::Excludes) == ["measured-faults"], "{recommendation}");
    assert!(recommendation.to_string().contains("2 lost updates"), "{recommendation}");
    assert_ne!(recommendation.best().unwrap().store, "sessile");
}

#[test]
fn several_web_servers_get_a_store_that_hosts_share_and_our_engine_is_excluded_by_name() {
    let site = Site { web_servers: 4, ..all_installed() };
    let recommendation = recommend(&site, &[results(usual())]);
    assert_eq!(best(&recommendation), "redis", "{recommendation}");
    for engine in recommendation.ranking.iter().filter(|ranked| ranked.store == "sessile") {
        assert!(rules(engine, Effect::Excludes).contains(&"not-shared-by-hosts"), "{engine:?}");
    }
    assert!(recommendation.notes.iter().any(|note| note.contains("--round-trip")), "{recommendation}");
    let shared = |ranked: &&Ranked| !ranked.excluded;
    assert!(recommendation.ranking.iter().filter(shared).all(|ranked| {
        let entry = STORES.iter().find(|entry| entry.name == ranked.store).unwrap();
        entry.capabilities.shared_by_hosts
    }));
    let with_affinity = recommend(&Site { affinity: true, ..site }, &[results(usual())]);
    let engine = named(&with_affinity, "sessile#disk");
    assert_eq!((engine.excluded, rules(engine, Effect::Against)), (false, vec!["host-is-lost"]), "{with_affinity}");
}

#[test]
fn where_a_restart_must_not_log_out_what_is_kept_in_memory_is_excluded() {
    let recommendation = recommend(&all_installed(), &[results(usual())]);
    for (title, rule) in [
        ("memcached", "lost-at-restart"),
        ("memory", "lost-at-restart"),
        ("sessile", "lost-at-reboot"),
        ("files#shm", "lost-at-reboot"),
    ] {
        let ranked = named(&recommendation, title);
        assert!(rules(ranked, Effect::Excludes).contains(&rule), "{title}: {ranked:?}");
    }
    let site = Site { restart_may_log_out: true, ..all_installed() };
    let recommendation = recommend(&site, &[results(usual())]);
    assert_eq!(best(&recommendation), "sessile", "{recommendation}");
    assert!(!named(&recommendation, "memcached").excluded);
}

#[test]
fn without_results_it_says_that_it_ranks_by_capabilities_and_how_to_measure() {
    let recommendation = recommend(&Site::default(), &[]);
    assert!(recommendation.question.is_none() && recommendation.best().is_some());
    assert!(recommendation.notes[0].contains("sessile bench cycle --json"), "{recommendation}");
    assert!(recommendation.ranking.iter().all(|ranked| ranked.ops_per_second.is_none() && !ranked.bytes_measured));
}

#[test]
fn what_was_not_measured_comes_after_what_was() {
    let recommendation = recommend(&all_installed(), &[results(vec![row("sqlite", "default", 10_000.0)])]);
    assert_eq!(best(&recommendation), "sqlite", "{recommendation}");
    assert!(recommendation.notes.iter().any(|note| note.starts_with("not measured")), "{recommendation}");
}

#[test]
fn a_server_that_would_have_to_be_installed_comes_after_what_is_there() {
    let mut rows = usual();
    rows[5] = row("redis", "default", 900_000.0);
    let recommendation = recommend(&Site::default(), &[results(rows.clone())]);
    assert_eq!(best(&recommendation), "sessile#disk", "{recommendation}");
    assert_eq!(rules(named(&recommendation, "redis"), Effect::Against), ["server-to-install"]);
    assert_eq!(best(&recommend(&all_installed(), &[results(rows)])), "redis");
}

#[test]
fn figures_are_compared_within_one_question_only() {
    // Redis was measured with one session at one worker, and far faster so; that is another question.
    let mut other = row("redis", "default", 9e6);
    other["workers"] = json!(1);
    other["sessions"] = json!(1);
    let recommendation = recommend(&all_installed(), &[results(usual()), results(vec![other])]);
    assert_eq!(recommendation.question.as_ref().unwrap().workers, 8);
    assert_eq!(named(&recommendation, "redis").ops_per_second, Some(50_000.0));
    let mut tier = usual();
    tier.iter_mut().for_each(|row| row["durability"] = json!("commit"));
    assert!(recommend(&all_installed(), &[results(tier.clone())]).question.is_none());
    let site = Site { durability: Durability::Commit, ..all_installed() };
    let commit = recommend(&site, &[results(tier)]);
    assert!(rules(named(&commit, "sessile#disk"), Effect::Excludes).contains(&"promises-too-little"), "{commit}");
}

#[test]
fn space_is_that_of_the_measured_rows_or_of_the_formula() {
    let site = Site { sessions: 1_000_000, payload_bytes: 4_000, ..all_installed() };
    let measured = recommend(&site, &[results(usual())]);
    // 2 000 bytes with a payload of 1 500: 500 besides it.
    assert_eq!((named(&measured, "redis").bytes, named(&measured, "redis").bytes_measured), (4_500_000_000, true));
    assert_eq!(rules(named(&measured, "redis"), Effect::Against), ["much-memory"]);
    let formula = recommend(&site, &[]);
    assert_eq!(named(&formula, "redis").bytes, 5_024_000_000);
    assert_eq!(named(&formula, "files").bytes, 5_120_000_000, "whole pages");
    assert_eq!(named(&formula, "mysql").medium, Medium::ServerDisk);
}

#[test]
fn robots_speak_against_a_store_that_throws_out_when_it_is_full() {
    let site = Site { bots_percent: 70.0, restart_may_log_out: true, ..all_installed() };
    let recommendation = recommend(&site, &[results(usual())]);
    assert_eq!(rules(named(&recommendation, "memcached"), Effect::Against), ["pushes-out"], "{recommendation}");
}

#[test]
fn a_sweep_that_is_felt_speaks_against_a_store_with_many_sessions() {
    let mut gc = row("files", "default", 400.0);
    gc["experiment"] = json!("gc");
    gc["op"] = json!("begin-while-sweeping");
    gc["modes"] = json!({ "plain_p50": 50.0, "sweeping_p50": 9e5, "sweeping": 100, "sweeping_p90": 2e6, "modes": 2 });
    let results = [results(usual()), results(vec![gc])];
    let few = recommend(&all_installed(), &results);
    assert!(rules(named(&few, "files"), Effect::Against).is_empty(), "{few}");
    let many = recommend(&Site { sessions: 550_000, ..all_installed() }, &results);
    assert_eq!(rules(named(&many, "files"), Effect::Against), ["sweeps-are-felt"], "{many}");
    assert!(many.to_string().contains("2000 ms"), "{many}");
}

#[test]
fn two_that_do_not_differ_are_told_so() {
    let mut rows = usual();
    rows[5] = row("redis", "default", 395_000.0);
    let recommendation = recommend(&all_installed(), &[results(rows)]);
    let told = "sessile#disk and redis differ by less than their rounds do: either will do";
    assert!(recommendation.notes.iter().any(|note| note == told), "{recommendation}");
}

#[test]
fn the_table_has_a_row_for_each_kind_of_site_and_no_line_is_too_wide() {
    let kinds = kinds(&all_installed().installed);
    for results in [vec![], vec![results(usual())]] {
        let text = table(&kinds, &results);
        assert!(kinds.iter().all(|kind| text.contains(kind.name)), "{text}");
        assert_eq!(text.contains("nothing was measured"), results.is_empty(), "{text}");
    }
    let last = kinds.last().unwrap();
    assert_eq!(
        (last.name, best(&recommend(&last.site, &[results(usual())])).as_str()),
        ("several web servers", "redis")
    );
}

#[test]
fn what_is_made_of_two_stores_comes_after_what_is_one() {
    let site = Site { restart_may_log_out: true, ..all_installed() };
    let recommendation = recommend(&site, &[]);
    let two: Vec<&Ranked> = recommendation
        .ranking
        .iter()
        .filter(|it| it.fired(Effect::Against).any(|fired| fired.rule == "two-stores"))
        .collect();
    assert_eq!(two.iter().map(|it| it.store).collect::<Vec<&str>>(), ["route"], "{recommendation}");
}

#[test]
fn every_rule_has_a_name_of_its_own() {
    let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), RULES.len());
}
