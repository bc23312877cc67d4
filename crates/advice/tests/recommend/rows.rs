//! Results as a run writes them, sites, and what a recommendation says of a store.

use serde_json::{Value, json};
use sessile_advice::{RankedStore, Recommendation, RuleEffect, Site, SiteKind};
use sessile_core::Durability;
use sessile_results::Report;
use sessile_stores::registry::STORES;

/// Of all stores.
pub fn recommend(site: &Site, results: &[Report]) -> Recommendation {
    sessile_advice::recommend(site, results, STORES)
}

/// Of all stores.
pub fn table(kinds: &[SiteKind], results: &[Report]) -> String {
    sessile_advice::table(kinds, results, STORES)
}

/// A measured row of `cycle`: store, variant, operations a second.
pub fn row(store: &str, variant: &str, speed: f64) -> Value {
    // Two rows scatter each in its own order.
    let mut rounds = [0.98, 1.02, 1.0, 0.99, 1.01];
    rounds.rotate_left((store.len() + variant.len()) % 5);
    let sample = |of: f64| json!({ "ops_per_second": speed * of, "p50_us": 1.0, "p99_us": 9.0 });
    json!({
        "experiment": "cycle", "store": store, "url": "", "variant": variant, "op": "cycle",
        "workers": 8,
        "sessions": 10_000, "payload_bytes": 1500, "payload_spread": "fixed", "durability": "1s",
        "kind": "embedded", "rounds": 5,
        "ops_per_second": { "median": speed, "low": speed * 0.98, "high": speed * 1.02 },
        "samples": rounds.map(sample),
        "latency_us": { "min": 1.0, "p50": 1.0, "p90": 1.0, "p99": 9.0, "p999": 1.0, "max": 1.0 },
        "operations": 1000, "errors": 0, "first_error": null, "misses": 0, "lost": 0,
        "failed": null,
        "cpu_us_per_op": { "client": 1.0, "server": 0.0 }, "bytes_per_session": 2000,
    })
}

/// A row of `faults` in a tier that promises nothing, in which all acknowledged updates were lost
/// and no session was: what else is different in it. Its updates lost and its errors make the row a
/// bad one.
pub fn killed(store: &str, op: &str, (lost, errors): (u64, u64), faults: Value) -> Value {
    let mut row = row(store, "default", 0.0);
    row["faults"] = json!({
        "kills": 1, "promise": "nothing", "lock_ttl_ms": null, "stuck_after_ms": 1000, "stuck": 0,
        "stuck_is_meant": false, "acknowledged": 900, "lost": 900, "lost_beyond": 0,
        "sessions_lost": 0,
        "sessions_lost_beyond": 0, "damaged": 0, "unreadable": 0, "refused": 3, "failed": 0,
        "down_us": 1.0,
    });
    for (name, value) in faults.as_object().unwrap() {
        row["faults"][name] = value.clone();
    }
    (row["experiment"], row["op"], row["lost"], row["errors"]) =
        (json!("faults"), json!(op), json!(lost), json!(errors));
    row
}

/// As fast as these stores are on some machine: ours before all others.
pub fn usual() -> Vec<Value> {
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

/// The same rows, measured in this tier.
pub fn at_tier(tier: Durability, mut rows: Vec<Value>) -> Vec<Value> {
    rows.iter_mut().for_each(|row| row["durability"] = json!(tier.name()));
    rows
}

pub fn results(rows: Vec<Value>) -> Report {
    made(rows, "", json!(null))
}

/// A result in which one thing is different: where that is, and what it is.
pub fn made(rows: Vec<Value>, pointer: &str, value: Value) -> Report {
    let mut report = json!({
        "schema": 1, "command": "sessile bench cycle", "seed": 1,
        "results": rows, "left_out": [], "warnings": [],
        "environment": { "cpu": "x", "cores": 2, "memory_bytes": 16_u64 << 30, "kernel": "Linux",
            "system": "x",
            "disk_file_system": "ext4", "sessile": "0.1.0", "build": "release", "versions": {} },
        "settings": { "seconds": 0.5, "warm_up_seconds": 0.1, "ttl_seconds": 1440,
            "processors_awake": false, "confidence": 0.9, "rate": null },
    });
    if !pointer.is_empty() {
        *report.pointer_mut(pointer).unwrap() = value;
    }
    Report::from_json(&report.to_string()).unwrap()
}

/// A site with all servers, in which a restart must not log out.
pub fn all_installed() -> Site {
    let servers = STORES.iter().filter_map(|entry| entry.capabilities.server).map(str::to_owned);
    let durability = Durability::Second;
    Site { installed: servers.collect(), durability, ..Site::default() }
}

pub fn all_installed_at(tier: Durability) -> Site {
    Site { durability: tier, ..all_installed() }
}

pub fn named<'a>(recommendation: &'a Recommendation, title: &str) -> &'a RankedStore {
    recommendation.ranking.iter().find(|ranked| ranked.title() == title).unwrap()
}

pub fn best(recommendation: &Recommendation) -> String {
    recommendation.best().unwrap().title()
}

pub fn rules(ranked: &RankedStore, effect: RuleEffect) -> Vec<&str> {
    ranked.fired(effect).map(|fired| fired.rule).collect()
}

/// Why a rule fired, if it did.
pub fn why(recommendation: &Recommendation, title: &str, rule: &str) -> Option<String> {
    named(recommendation, title)
        .rules
        .iter()
        .find(|fired| fired.rule == rule)
        .map(|fired| fired.why.clone())
}
