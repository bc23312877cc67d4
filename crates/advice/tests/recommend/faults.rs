//! Which bad rows exclude a store: those of the site's own machine, build and tier, and of the
//! store itself.

use crate::rows::recommend;
use serde_json::{Value, json};
use sessile_advice::{RuleEffect, Site};
use sessile_core::Durability;
use sessile_results::Report;

use crate::rows::{
    all_installed, all_installed_at, at_tier, killed, made, named, results, row, rules, usual, why,
};

const RULE: &str = "measured-faults";

#[test]
fn a_store_that_lost_updates_is_excluded_however_fast_it_is() {
    let mut rows = usual();
    rows[1]["lost"] = json!(2);
    let recommendation = recommend(&all_installed(), &[results(rows)]);
    let engine = named(&recommendation, "sessile#disk");
    assert!(engine.excluded && rules(engine, RuleEffect::Excludes) == [RULE], "{recommendation}");
    assert!(recommendation.to_string().contains("2 lost updates"), "{recommendation}");
    assert_ne!(recommendation.best().unwrap().store, "sessile");
}

/// What a tier does not promise speaks against nobody; what it promises does, and so does a lock
/// that nobody gives back.
#[test]
fn a_store_is_excluded_for_what_a_kill_cost_it_beyond_its_tier_only() {
    let promised = json!({ "promise": "everything", "lost": 4, "lost_beyond": 4 });
    let rows = vec![
        killed("redis", "server-killed", (0, 0), json!({})),
        killed("postgres", "server-killed", (4, 0), promised),
        killed("mysql", "holder-killed", (0, 2), json!({ "lost": 0, "stuck": 2 })),
    ];
    let recommendation = recommend(&all_installed(), &[results(usual()), results(rows)]);
    let fault = |store: &str| why(&recommendation, store, RULE);
    assert_eq!(fault("redis"), None, "{recommendation}");
    let lost = fault("postgres").unwrap();
    assert!(
        lost.contains("faults server-killed: 4 acknowledged updates lost that were promised"),
        "{lost}"
    );
    assert!(fault("mysql").unwrap().contains("2 locks stuck"), "{recommendation}");
}

/// One lost update in any file of results excluded a store everywhere: in tiers, on machines and in
/// builds in which nothing had ever gone wrong, and for what a PHP handler of its name had failed
/// at.
#[test]
fn a_bad_row_of_another_question_excludes_nobody() {
    let lost = |tier: Durability| {
        let mut rows = at_tier(tier, vec![row("redis", "default", 50_000.0)]);
        rows[0]["lost"] = json!(7);
        rows
    };
    let faults_at = |tier: Durability, more: Vec<Report>| {
        let mut all = vec![results(at_tier(Durability::None, usual())), results(usual())];
        all.extend(more);
        let restart_may_log_out = tier == Durability::None;
        why(
            &recommend(&Site { restart_may_log_out, ..all_installed_at(tier) }, &all),
            "redis",
            RULE,
        )
    };
    let (none, second) = (Durability::None, Durability::Second);
    assert!(faults_at(second, vec![results(lost(second))]).unwrap().contains("7 lost updates"));
    assert_eq!(faults_at(second, vec![results(lost(none))]), None, "another tier");
    assert_eq!(faults_at(none, vec![results(lost(second))]), None, "another tier");
    for (pointer, value) in [
        ("/environment/cpu", json!("y")),
        ("/environment/cores", json!(64)),
        ("/environment/memory_bytes", json!(2)),
        ("/environment/disk_file_system", json!("xfs")),
        ("/environment/build", json!("debug")),
    ] {
        assert_eq!(faults_at(second, vec![made(lost(second), pointer, value)]), None, "{pointer}");
    }
    for experiment in ["lifecycle", "rebuild", "languages"] {
        let mut rows = lost(second);
        rows[0]["experiment"] = json!(experiment);
        assert_eq!(faults_at(second, vec![results(rows)]), None, "{experiment}");
    }
}

/// What is weighed and how long sweeps take is as little of another tier or machine as a fault is.
#[test]
fn space_and_sweeps_of_another_machine_or_tier_are_not_those_of_the_site() {
    let mut sweep = row("sqlite", "default", 400.0);
    (sweep["experiment"], sweep["op"], sweep["bytes_per_session"]) =
        (json!("gc"), json!("start"), json!(0));
    sweep["modes"] = json!({
        "plain_p50": 50.0, "sweeping_p50": 9e5, "sweeping": 100, "sweeping_p90": 2e6, "modes": 2
    });
    let mut heavy = row("sqlite", "default", 400.0);
    (heavy["experiment"], heavy["bytes_per_session"]) = (json!("ops"), json!(90_000));
    let elsewhere = || vec![sweep.clone(), heavy.clone()];
    let site = Site { sessions: 550_000, ..all_installed() };
    let usual = || {
        results(usual().into_iter().filter(|row| row["store"] != "sqlite").collect::<Vec<Value>>())
    };
    let told = |other: Report| {
        let recommendation = recommend(&site, &[usual(), other]);
        let felt = why(&recommendation, "sqlite", "sweeps-are-felt").is_some();
        (felt, named(&recommendation, "sqlite").bytes > 10_000_000_000)
    };
    assert_eq!(told(results(elsewhere())), (true, true));
    assert_eq!(told(results(at_tier(Durability::Commit, elsewhere()))), (false, false));
    assert_eq!(told(made(elsewhere(), "/environment/cpu", json!("y"))), (false, false));
}
