//! What a restart leaves, by what a store declares of the tier and by what was measured in it.

use serde_json::{Value, json};
use sessile_bench::Report;
use sessile_bench::recommend::{RuleEffect, Site, recommend};
use sessile_core::Durability;

use crate::rows::{
    all_installed, all_installed_at, at_tier, best, killed, named, results, rules, usual, why,
};

const RULE: &str = "lost-at-restart";

/// The server was killed three times, and so many sessions were gone.
fn restarted(store: &str, sessions_lost: u64) -> Value {
    killed(store, "server-killed", (0, 0), json!({ "kills": 3, "sessions_lost": sessions_lost }))
}

fn with(tier: Durability, faults: Vec<Value>) -> Vec<Report> {
    vec![results(at_tier(tier, usual())), results(at_tier(tier, faults))]
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
        assert!(rules(ranked, RuleEffect::Excludes).contains(&rule), "{title}: {ranked:?}");
    }
    let site = Site { restart_may_log_out: true, ..all_installed() };
    let site = Site { durability: Durability::None, ..site };
    let recommendation = recommend(&site, &[results(at_tier(Durability::None, usual()))]);
    assert_eq!(best(&recommendation), "sessile", "{recommendation}");
    assert!(!named(&recommendation, "memcached").excluded);
}

/// Redis was recommended to shops that must not lose a cart, by the figures of one that keeps
/// nothing.
#[test]
fn a_store_is_judged_in_a_tier_that_keeps_sessions_over_a_restart() {
    let strong = recommend(&all_installed_at(Durability::None), &[results(usual())]);
    assert_eq!(best(&strong), "sessile#disk", "{strong}");
    for durable in ["redis", "mysql", "postgres", "sqlite", "files", "sessile#disk"] {
        assert_eq!(why(&strong, durable, RULE), None, "{durable}");
    }
    assert!(why(&strong, "memcached", RULE).is_some());
}

#[test]
fn sessions_that_a_measured_restart_cost_are_counted_in_the_tier_of_the_site_only() {
    let excluded_for = |tier: Durability, faults: Vec<Report>| {
        let mut all = with(tier, vec![]);
        all.extend(faults);
        why(&recommend(&all_installed_at(tier), &all), "postgres", RULE)
    };
    let lost = |tier: Durability| results(at_tier(tier, vec![restarted("postgres", 96)]));
    let said = excluded_for(Durability::Second, vec![lost(Durability::Second)]).unwrap();
    assert!(said.contains("3 times") && said.contains("96 sessions in tier 1s"), "{said}");
    assert_eq!(excluded_for(Durability::Second, vec![lost(Durability::None)]), None);
    // The most that was seen counts, in whichever order.
    let few = || results(at_tier(Durability::Second, vec![restarted("postgres", 2)]));
    for faults in [vec![few(), lost(Durability::Second)], vec![lost(Durability::Second), few()]] {
        assert!(excluded_for(Durability::Second, faults).unwrap().contains(" 96 sessions"));
    }
}

/// MySQL was second for several web servers, and had lost 13,894 acknowledged updates.
#[test]
fn updates_that_a_restart_cost_log_nobody_out_and_speak_against_a_store() {
    let updates = |store: &str, lost: u64| {
        killed(store, "server-killed", (0, 0), json!({ "kills": 5, "lost": lost }))
    };
    let worker = killed("postgres", "writer-killed", (0, 0), json!({ "sessions_lost": 5 }));
    let faults = vec![updates("mysql", 13_894), updates("postgres", 0), worker];
    let all = with(Durability::Second, faults);
    let recommendation = recommend(&all_installed(), &all);
    let updates = |store: &str| why(&recommendation, store, "loses-updates");
    assert!(updates("mysql").unwrap().contains("13 894 acknowledged updates in tier 1s"));
    assert_eq!((updates("postgres"), why(&recommendation, "mysql", RULE)), (None, None));
    assert_eq!(why(&recommendation, "postgres", RULE), None, "a worker's death: {recommendation}");
    let site = Site { restart_may_log_out: true, ..all_installed() };
    assert_eq!(why(&recommend(&site, &all), "mysql", "loses-updates"), None);
}
