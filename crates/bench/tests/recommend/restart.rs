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
        ("redis", "lost-at-restart"),
        ("sessile", "lost-at-reboot"),
        ("files#shm", "lost-at-reboot"),
    ] {
        let ranked = named(&recommendation, title);
        assert!(rules(ranked, RuleEffect::Excludes).contains(&rule), "{title}: {ranked:?}");
    }
    let site = Site { restart_may_log_out: true, ..all_installed() };
    let recommendation = recommend(&site, &[results(usual())]);
    assert_eq!(best(&recommendation), "sessile", "{recommendation}");
    assert!(!named(&recommendation, "memcached").excluded);
}

/// Redis was recommended to shops that must not lose a cart, by the figures of one that keeps
/// nothing.
#[test]
fn a_store_that_keeps_sessions_in_a_stronger_tier_only_is_excluded_and_names_that_tier() {
    let weak = recommend(&all_installed(), &[results(usual())]);
    let said = why(&weak, "redis", RULE).unwrap();
    assert!(said.contains("in tier none") && said.contains("from tier 1s on"), "{said}");
    let strong =
        recommend(&all_installed_at(Durability::Second), &with(Durability::Second, vec![]));
    assert_eq!(
        (why(&strong, "redis", RULE), best(&strong).as_str()),
        (None, "sessile#disk"),
        "{strong}"
    );
    for durable in ["mysql", "postgres", "sqlite", "files", "sessile#disk"] {
        assert_eq!(why(&weak, durable, RULE), None, "{durable}");
    }
    let never = why(&strong, "memcached", RULE).unwrap();
    assert!(!never.contains("from tier"), "there is no tier in which it does: {never}");
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
    assert!(!said.contains("from tier"), "what it declares was refuted: {said}");
    assert_eq!(excluded_for(Durability::Second, vec![lost(Durability::None)]), None);
    // The most that was seen counts, in whichever order.
    let few = || results(at_tier(Durability::Second, vec![restarted("postgres", 2)]));
    for faults in [vec![few(), lost(Durability::Second)], vec![lost(Durability::Second), few()]] {
        assert!(excluded_for(Durability::Second, faults).unwrap().contains(" 96 sessions"));
    }
}

#[test]
fn updates_that_a_restart_cost_log_nobody_out_and_neither_does_the_death_of_a_worker() {
    // Whoever writes once a second to its log loses the changes of that second, and no session.
    let worker = killed("postgres", "writer-killed", (0, 0), json!({ "sessions_lost": 5 }));
    let all = with(Durability::None, vec![restarted("mysql", 0), worker, restarted("redis", 96)]);
    let recommendation = recommend(&all_installed(), &all);
    assert_eq!(why(&recommendation, "mysql", RULE), None, "{recommendation}");
    assert_eq!(why(&recommendation, "postgres", RULE), None, "{recommendation}");
    assert!(
        why(&recommendation, "redis", RULE).unwrap().contains("96 sessions"),
        "{recommendation}"
    );
    let site = Site { restart_may_log_out: true, ..all_installed() };
    assert_eq!(why(&recommend(&site, &all), "redis", RULE), None);
}
