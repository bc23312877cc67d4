//! The recommendation: what loses is not recommended, ours included, and what cannot be used names
//! its rule.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod anonymous;
mod faults;
mod large;
mod machines;
mod practices;
mod question;
mod raised;
mod restart;
mod rows;
mod shown_url;
mod space;
mod thresholds;
mod ties;

use crate::rows::{recommend, table};
use serde_json::{Value, json};
use sessile_advice::{RULES, RankedStore, RuleEffect, Site, SiteKind, SpaceBasis, site_kinds};
use sessile_core::Durability;
use sessile_results::Report;
use sessile_stores::registry::STORES;

use self::rows::{
    all_installed, all_installed_at, at_tier, best, made, named, results, row, rules, usual, why,
};

#[test]
fn our_engine_is_recommended_where_it_wins_and_not_where_it_loses() {
    let recommendation = recommend(&all_installed(), &[results(usual())]);
    assert_eq!(best(&recommendation), "sessile#disk", "{recommendation}");
    let losing = |speed: f64| {
        let rows = usual().into_iter().map(|mut row| {
            if row["store"] == "sessile" {
                row["ops_per_second"] = json!({ "median": speed, "low": speed, "high": speed });
            }
            row
        });
        recommend(&all_installed(), &[results(rows.collect())])
    };
    let slower = losing(20_000.0);
    let places: Vec<String> = slower.ranking.iter().map(RankedStore::title).take(3).collect();
    assert_eq!(places, ["redis", "sessile#disk", "sqlite"]);
    let too_slow = losing(10.0);
    assert_eq!(
        rules(named(&too_slow, "sessile#disk"), RuleEffect::Excludes),
        ["too-slow"],
        "{too_slow}"
    );
}

/// Shops were recommended PostgreSQL without fsync, and MySQL that had lost updates.
#[test]
fn where_a_restart_must_not_log_out_rows_of_tier_none_recommend_nothing() {
    let none = [results(at_tier(Durability::None, usual()))];
    let asked = recommend(&all_installed_at(Durability::None), &none);
    assert_eq!(asked.site.durability, Durability::Second);
    assert!(asked.best().is_none() && asked.question.is_none(), "{asked}");
    let text = asked.to_string();
    assert!(text.contains("Nothing is recommended: the results do not answer this"), "{text}");
    assert!(text.contains("measure sessile bench cycle --durability 1s"), "{text}");
    let site = Site { restart_may_log_out: true, ..all_installed_at(Durability::None) };
    let loose = recommend(&site, &none);
    assert_eq!(best(&loose), "sessile", "{loose}");
    // Nobody runs a database without syncs: in tier none it was not measured as it would run.
    assert_eq!(named(&loose, "postgres").ops_per_second, None, "{loose}");
    let both = recommend(&site, &[none[0].clone(), results(usual())]);
    assert_eq!(named(&both, "postgres").ops_per_second, Some(9_000.0), "{both}");
    assert!(why(&both, "postgres", "stronger-tier").unwrap().contains("judged in tier 1s"));
}

/// The fastest store was recommended, and each answer was a server or extension to install.
#[test]
fn what_a_site_has_stays_where_it_is_fast_enough_and_loses_nothing() {
    let with = |mut rows: Vec<Value>| {
        rows.extend([
            row("redis-four-trips", "default", 20_000.0),
            row("mysql-transaction", "default", 4_000.0),
        ]);
        rows
    };
    let results = [
        results(with(usual())),
        results(at_tier(Durability::None, usual())),
        results(at_tier(Durability::None, vec![row("files-flock", "default", 30_000.0)])),
    ];
    let kinds = site_kinds(&all_installed().installed, Durability::None);
    let told = |name: &str| {
        let kind = kinds.iter().find(|kind| kind.name == name).unwrap();
        recommend(&kind.site, &results)
    };
    let blog = told("blog");
    assert_eq!(best(&blog), "php-files", "{blog}");
    assert!(why(&blog, "php-files", "in-use").unwrap().contains("needs no server"), "{blog}");
    let shop = told("Shopware");
    assert_eq!(best(&shop), "phpredis#lock");
    // That a server is there does not say that somebody looks after it.
    let there = why(&shop, "phpredis#lock", "in-use").unwrap();
    assert!(there.ends_with("redis-server is there"), "{there}");
    let need = kinds.iter().find(|kind| kind.name == "Shopware").unwrap().description;
    assert!(need.contains("neither a restart nor a power cut"), "{need}");
    let three = told("Magento on three hosts");
    assert_eq!(best(&three), "redis", "Magento has neither of the two on Redis: {three}");
    assert!(!named(&three, "phpredis#lock").excluded, "900 of 20,000: {three}");
    let cms = told("Drupal or TYPO3");
    assert!(named(&cms, "pdo-postgres").ops_per_second.is_none(), "{cms}");
    // 1,200 locked requests a second are more than a quarter of 4,000.
    let busy = Site { requests_per_second: 400.0, cycles_per_request: 3.0, ..all_installed() };
    let busy = recommend(&busy, &results);
    assert_eq!(rules(named(&busy, "pdo-mysql"), RuleEffect::Excludes), ["too-slow"], "{busy}");
    // What loses nothing else comes next: it is faster, and has to be installed.
    let slow = Site { requests_per_second: 5_001.0, ..all_installed() };
    assert_eq!(best(&recommend(&slow, &results)), "sessile#disk");
}

#[test]
fn several_web_servers_get_a_store_that_hosts_share_and_our_engine_is_excluded_by_name() {
    let site = Site { web_servers: 4, ..all_installed_at(Durability::Second) };
    let results = [results(at_tier(Durability::Second, usual()))];
    let recommendation = recommend(&site, &results);
    assert_eq!(best(&recommendation), "redis", "{recommendation}");
    for engine in recommendation.ranking.iter().filter(|ranked| ranked.store == "sessile") {
        assert!(rules(engine, RuleEffect::Excludes).contains(&"not-shared-by-hosts"), "{engine:?}");
    }
    assert!(
        recommendation.notes.iter().any(|note| note.contains("--round-trip")),
        "{recommendation}"
    );
    let shared = |ranked: &&RankedStore| !ranked.excluded;
    assert!(recommendation.ranking.iter().filter(shared).all(|ranked| {
        let entry = STORES.iter().find(|entry| entry.name == ranked.store);
        entry.is_none_or(|entry| entry.capabilities.shared_by_hosts)
    }));
    let with_affinity = recommend(&Site { affinity: true, ..site }, &results);
    let engine = named(&with_affinity, "sessile#disk");
    assert_eq!(
        (engine.excluded, rules(engine, RuleEffect::Against)),
        (false, vec!["host-is-lost", "handler-to-install"]),
        "{with_affinity}"
    );
}

#[test]
fn without_results_it_says_that_it_ranks_by_capabilities_and_how_to_measure() {
    let recommendation = recommend(&Site::default(), &[]);
    assert!(recommendation.question.is_none() && recommendation.best().is_some());
    assert!(
        recommendation.notes[0].contains("sessile bench cycle --export-json"),
        "{recommendation}"
    );
    assert!(
        recommendation.ranking.iter().all(
            |ranked| ranked.ops_per_second.is_none() && ranked.bytes_are == SpaceBasis::Formula
        )
    );
}

#[test]
fn what_was_not_measured_comes_after_what_was() {
    let recommendation =
        recommend(&all_installed(), &[results(vec![row("sqlite", "default", 10_000.0)])]);
    assert_eq!(best(&recommendation), "sqlite", "{recommendation}");
    assert!(
        recommendation.notes.iter().any(|note| note.starts_with("not measured")),
        "{recommendation}"
    );
}

/// The number of objections was compared first: a store that nobody had measured won against a
/// measured one with one.
#[test]
fn what_was_not_measured_comes_after_what_was_and_has_an_objection() {
    let site = Site { installed: Vec::new(), ..Site::default() };
    let recommendation = recommend(&site, &[results(vec![row("mysql", "default", 10_000.0)])]);
    assert_eq!(
        rules(named(&recommendation, "mysql"), RuleEffect::Against),
        ["server-to-install", "handler-to-install"]
    );
    assert_eq!(best(&recommendation), "mysql", "{recommendation}");
    assert_ne!(best(&recommend(&site, &[])), "mysql", "without results nothing is unmeasured");
}

#[test]
fn a_server_that_would_have_to_be_installed_comes_after_what_is_there() {
    let mut rows = usual();
    rows[5] = row("redis", "default", 900_000.0);
    let (tier, results) = (Durability::Second, [results(at_tier(Durability::Second, rows))]);
    let recommendation = recommend(&Site { durability: tier, ..Site::default() }, &results);
    assert_eq!(best(&recommendation), "sessile#disk", "{recommendation}");
    assert_eq!(
        rules(named(&recommendation, "redis"), RuleEffect::Against),
        ["server-to-install", "handler-to-install"]
    );
    assert_eq!(best(&recommend(&all_installed_at(tier), &results)), "redis");
}

#[test]
fn figures_are_compared_within_one_question_only() {
    // Redis was measured with one session at one worker, and far faster so; that is another
    // question.
    let mut other = row("redis", "default", 9e6);
    other["workers"] = json!(1);
    other["sessions"] = json!(1);
    let recommendation = recommend(&all_installed(), &[results(usual()), results(vec![other])]);
    assert_eq!(recommendation.question.as_ref().unwrap().workers, 8);
    assert_eq!(named(&recommendation, "redis").ops_per_second, Some(50_000.0));
    let tier = at_tier(Durability::Commit, usual());
    assert!(recommend(&all_installed(), &[results(tier.clone())]).question.is_none());
    let commit = recommend(&all_installed_at(Durability::Commit), &[results(tier)]);
    assert!(
        rules(named(&commit, "memcached"), RuleEffect::Excludes).contains(&"promises-too-little"),
        "{commit}"
    );
}

/// Results of a fast machine and of a slow one were ranked as if they were of one.
#[test]
fn figures_of_another_machine_or_of_processors_kept_awake_are_another_question() {
    for (pointer, value) in [
        ("/environment/cpu", json!("y")),
        ("/environment/cores", json!(64)),
        ("/environment/disk_file_system", json!("xfs")),
        ("/environment/build", json!("debug")),
        ("/settings/processors_awake", json!(true)),
    ] {
        let other = made(vec![row("sqlite", "default", 9e6)], pointer, value);
        let recommendation = recommend(&all_installed(), &[results(usual()), other]);
        assert_eq!(
            named(&recommendation, "sqlite").ops_per_second,
            Some(10_000.0),
            "{pointer}: {recommendation}"
        );
        let warned = !recommendation.warnings.is_empty();
        assert_eq!(
            warned,
            ["cpu", "cores", "disk_file_system"].iter().any(|part| pointer.ends_with(part)),
            "{pointer}: {recommendation}"
        );
    }
}

#[test]
fn a_store_that_was_measured_twice_has_answered_once() {
    // Of two questions that are equally far the one counts that more stores have answered, not more
    // rows.
    let twice: Vec<Value> = std::iter::repeat_n(row("sqlite", "default", 9e6), 20).collect();
    let two = made(twice, "/settings/processors_awake", json!(true));
    let recommendation = recommend(&all_installed(), &[two, results(usual())]);
    assert!(!recommendation.question.as_ref().unwrap().processors_awake, "{recommendation}");
}

#[test]
fn how_the_results_were_made_is_told_where_that_explains_a_difference() {
    let told = |pointer: &str, value: Value, words: &str| {
        let other = made(vec![row("sqlite", "default", 9e3)], pointer, value);
        let recommendation = recommend(&all_installed(), &[results(usual()), other]);
        assert!(
            recommendation.notes.iter().any(|note| note.contains(words)),
            "{words}: {recommendation}"
        );
    };
    told(
        "/settings/seconds",
        json!(0.1),
        "samples are 0.5 s long in result 1 and 0.1 s in result 2",
    );
    told("/environment/kernel", json!("Linux 7"), "the kernel is another one");
    let mut interrupted = results(usual());
    interrupted.interrupted = true;
    let recommendation = recommend(&all_installed(), &[interrupted]);
    assert!(
        recommendation.notes.iter().any(|note| note.contains("result 1 was interrupted")),
        "{recommendation}"
    );
    let debug = recommend(&all_installed(), &[made(usual(), "/environment/build", json!("debug"))]);
    assert!(debug.notes.iter().any(|note| note.contains("a debug build")), "{debug}");
}

/// It said that nothing was measured, whatever the results were.
#[test]
fn results_that_cannot_be_ranked_by_are_told_with_the_flag_that_fits() {
    let told = |report: Report, words: &str| {
        let recommendation = recommend(&all_installed(), &[report]);
        let note = &recommendation.notes[0];
        assert!(recommendation.question.is_none() && note.contains(words), "{words}: {note}");
        assert!(!note.contains("nothing was measured"), "{note}");
    };
    let with = |field: &str, value: Value| -> Vec<Value> {
        let mut rows = usual();
        rows.iter_mut().for_each(|row| row[field] = value.clone());
        rows
    };
    told(
        results(with("durability", json!("none"))),
        "in tier 1s the results are of tier none: measure",
    );
    told(
        made(usual(), "/settings/rate", json!(500.0)),
        "at a fixed rate all stores are as fast as the rate",
    );
    // It said to give `--durability as configured`, which is no tier.
    told(
        results(with("durability", json!("as configured"))),
        "the results are of tier as configured: measure sessile bench cycle --durability 1s",
    );
    told(results(with("experiment", json!("gc"))), "no sound row of cycle or scale: measure");
    told(results(with("lost", json!(1))), "no sound row of cycle or scale: measure");
}

/// Redis in tier `none` stood above databases in `1s`, and only a rule below the ranking said so.
#[test]
fn the_ranking_says_in_which_tier_each_store_is_judged() {
    let site = Site { restart_may_log_out: true, ..all_installed_at(Durability::None) };
    let both = [results(usual()), results(at_tier(Durability::None, usual()))];
    let recommendation = recommend(&site, &both);
    let tiers = ["redis", "mysql"].map(|title| named(&recommendation, title).tier);
    assert_eq!(tiers, [Some("none"), Some("1s")]);
    let json = serde_json::to_value(&recommendation).unwrap();
    assert!(json["ranking"].as_array().unwrap().iter().all(|it| it["tier"].is_string()));
    let text = recommendation.to_string();
    let cells = |title: &str| -> Vec<String> {
        let of_ranking = |line: &&str| line.split_whitespace().nth(1) == Some(title);
        let line = text.lines().find(of_ranking).unwrap();
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!((&cells("redis")[2], &cells("mysql")[2]), (&"none".into(), &"1s".into()), "{text}");
    let strict = recommend(&all_installed_at(Durability::Commit), &[]);
    assert_eq!(named(&strict, "memcached").tier, None, "it has none that the site needs");
}

#[test]
fn the_table_has_a_row_for_each_kind_of_site_and_no_line_is_too_wide() {
    let site_kinds = site_kinds(&all_installed().installed, Durability::None);
    let none = || results(at_tier(Durability::None, usual()));
    for results in [vec![], vec![results(usual()), none()]] {
        let text = table(&site_kinds, &results);
        assert!(site_kinds.iter().all(|kind| text.contains(kind.name)), "{text}");
        assert_eq!(text.contains("nothing was measured"), results.is_empty(), "{text}");
    }
    // Sites that a restart may log out are judged in the tier that was asked for.
    let tiers = |kind: &SiteKind| recommend(&kind.site, &[]).site.durability;
    let tiers: Vec<Durability> = site_kinds.iter().map(tiers).collect();
    let (none, second) = (Durability::None, Durability::Second);
    assert_eq!(tiers, [none, none, second, second, second, none, none]);
}

/// The tier was ignored and the notes were dropped.
#[test]
fn the_table_is_for_the_tier_that_was_asked_for_and_has_the_notes() {
    let site_kinds = site_kinds(&all_installed().installed, Durability::Commit);
    assert!(site_kinds.iter().all(|kind| kind.site.durability == Durability::Commit));
    let text = table(&site_kinds, &[results(usual())]);
    assert!(
        text.contains("note: not ranked by speed")
            && text.contains("in tier commit the results are of tier 1s"),
        "{text}"
    );
    assert!(text.contains("note: blog: start a session only when"), "{text}");
    assert!(!text.contains("TYPO3: start a session only when"), "both do: {text}");
}

#[test]
fn what_is_made_of_other_stores_is_not_ranked() {
    let recommendation = recommend(&Site { restart_may_log_out: true, ..all_installed() }, &[]);
    for entry in STORES {
        let ranked = recommendation.ranking.iter().any(|it| it.store == entry.name);
        assert_eq!(ranked, !entry.decorates, "{}: {recommendation}", entry.name);
    }
}

#[test]
fn every_rule_has_a_name_of_its_own() {
    let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), RULES.len());
}
