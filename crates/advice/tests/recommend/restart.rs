//! What a restart leaves, by what a store declares of the tier and by what was measured in it.

use crate::rows::recommend;
use serde_json::{Value, json};
use sessile_advice::{RuleEffect, Site};
use sessile_core::Durability;
use sessile_results::Report;

use crate::rows::{
    all_installed, all_installed_at, at_tier, best, killed, named, results, rules, usual, why,
};

const RULE: &str = "lost-at-restart";

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

/// SIGKILL leaves what was given to the kernel: of all systems only PostgreSQL lost something in
/// tier `1s`, and only it was objected to.
#[test]
fn what_a_kill_cost_within_the_tier_is_told_and_speaks_against_nobody() {
    let lost = json!({ "kills": 5, "lost": 13_894, "sessions_lost": 2 });
    let all = with(
        Durability::Second,
        vec![
            killed("postgres", "server-killed", (0, 0), lost.clone()),
            killed("postgres", "server-killed", (0, 0), json!({ "lost": 1 })),
            killed("mysql", "writer-killed", (0, 0), lost.clone()),
        ],
    );
    let recommendation = recommend(&all_installed(), &all);
    let told = |store: &str| why(&recommendation, store, "lost-within-tier");
    let said = told("postgres").unwrap();
    assert!(said.contains("5 times") && said.contains("13,894 acknowledged updates"), "{said}");
    assert!(said.contains("2 sessions that tier 1s does not promise"), "{said}");
    assert_eq!(told("mysql"), None, "a worker's death: {recommendation}");
    let without = recommend(&all_installed(), &with(Durability::Second, vec![]));
    let objections = |of: &sessile_advice::Recommendation| {
        rules(named(of, "postgres"), RuleEffect::Against).len()
    };
    assert_eq!(objections(&recommendation), objections(&without));
    let of_none = vec![killed("postgres", "server-killed", (0, 0), lost)];
    let mut other_tier = with(Durability::Second, vec![]);
    other_tier.push(results(at_tier(Durability::None, of_none)));
    assert_eq!(
        why(&recommend(&all_installed(), &other_tier), "postgres", "lost-within-tier"),
        None
    );
}

/// Shops were told that PHP's files do not offer a tier, which reads as if a restart emptied them.
#[test]
fn phps_files_are_left_to_sites_that_may_lose_what_a_power_cut_takes_and_kills_show_it() {
    let faults = killed("files-flock", "all-killed", (0, 0), json!({ "kills": 3, "lost": 0 }));
    let mut all = with(Durability::Second, vec![]);
    all.push(results(at_tier(Durability::None, vec![faults])));
    let recommendation = recommend(&all_installed(), &all);
    let said = why(&recommendation, "php-files", "lost-at-power-cut").unwrap();
    assert!(said.contains("a power cut costs it what was written last; no restart does"), "{said}");
    assert!(
        said.contains("(faults: killed 3 times, it had lost 0 updates and sessions)"),
        "{said}"
    );
    assert_eq!(why(&recommendation, "php-files", RULE), None);
    let apcu = named(&recommendation, "apcu");
    let apcu = rules(apcu, RuleEffect::Excludes);
    assert_eq!(apcu, [RULE, "promises-too-little"], "a restart of PHP empties it");
}

/// Redis with a log on the disk was said to have no disk in the way.
#[test]
fn no_disk_is_in_the_way_only_in_the_tier_none() {
    let loose = |tier| Site { restart_may_log_out: true, ..all_installed_at(tier) };
    let said = |tier| why(&recommend(&loose(tier), &[]), "redis", "in-memory").is_some();
    assert_eq!([said(Durability::None), said(Durability::Second)], [true, false]);
}

/// The engine in shared memory was judged by rows of tier `1s` that no run can have.
#[test]
fn shared_memory_is_of_tier_none_whatever_its_store_can_do_on_a_disk() {
    let site = Site { restart_may_log_out: true, ..all_installed_at(Durability::Second) };
    let recommendation = recommend(&site, &[results(usual())]);
    let excludes = |title| rules(named(&recommendation, title), RuleEffect::Excludes);
    assert_eq!(excludes("sessile"), ["promises-too-little"], "{recommendation}");
    assert_eq!(excludes("files#shm"), ["promises-too-little"], "{recommendation}");
    assert!(excludes("sessile#disk").is_empty());
}
