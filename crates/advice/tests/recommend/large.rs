//! Sessions that a store would refuse or lose: by saves that were measured, and by a server's
//! defaults where none were.

use crate::rows::recommend;
use serde_json::{Value, json};
use sessile_advice::{RankedStore, RuleEffect, Site};
use sessile_core::Durability;
use sessile_results::Report;
use sessile_stores::registry::STORES;

use crate::rows::{all_installed_at, at_tier, best, made, named, results, row, rules, usual, why};

pub const RULE: &str = "session-too-large";
pub const MIB: u64 = 1 << 20;
/// What a memcached said of itself that was started with its defaults.
pub const LIMIT: u64 = 1_047_895;

/// A large save: what became of it, whether without an error, and the limit that an error named.
pub fn saved(
    store: &str,
    payload_bytes: u64,
    outcome: &str,
    silent: bool,
    limit: Option<u64>,
) -> Value {
    let mut row = row(store, "default", 0.0);
    (row["experiment"], row["op"], row["bytes_per_session"]) =
        (json!("oversize"), json!("save"), json!(0));
    (row["payload_bytes"], row["sessions"], row["workers"]) =
        (json!(payload_bytes), json!(1), json!(1));
    row["lost"] = json!(u64::from(outcome == "lost"));
    let after = match outcome {
        "stored" => "new",
        "refused" => "old",
        _ => "nothing",
    };
    row["oversize"] = json!({
        "outcome": outcome, "after": after, "silent": silent, "limit": limit, "read_us": 1.0,
        "message": null,
    });
    row
}

pub fn stored(store: &str, payload_bytes: u64) -> Value {
    saved(store, payload_bytes, "stored", true, None)
}

pub fn refused(store: &str, payload_bytes: u64, limit: Option<u64>) -> Value {
    saved(store, payload_bytes, "refused", false, limit)
}

/// Three web servers, and few sessions, which may be lost and are of this size.
pub fn site(payload_bytes: u64) -> Site {
    Site {
        web_servers: 3,
        sessions: 100,
        restart_may_log_out: true,
        payload_bytes,
        ..all_installed_at(Durability::None)
    }
}

/// The usual rows in the tier of these sites.
pub fn none() -> Report {
    results(at_tier(Durability::None, usual()))
}

pub fn told(store: &str, payload_bytes: u64, rows: Vec<Value>) -> Option<String> {
    why(&recommend(&site(payload_bytes), &[none(), results(rows)]), store, RULE)
}

/// Memcached was recommended for sessions of 2 MB, by results in which it had refused all from 1
/// MiB on.
#[test]
fn what_was_refused_excludes_a_store_for_sessions_that_are_no_smaller_and_says_what_to_set() {
    let memcached = || -> Vec<Value> {
        let refused = [1, 2, 4, 8].map(|times| refused("memcached", times * MIB, Some(LIMIT)));
        std::iter::once(stored("memcached", MIB / 2)).chain(refused).collect()
    };
    let recommendation = recommend(&site(2_000_000), &[none(), results(memcached())]);
    assert_eq!(
        rules(named(&recommendation, "memcached"), RuleEffect::Excludes),
        [RULE],
        "{recommendation}"
    );
    assert_eq!(best(&recommendation), "redis", "it would have been memcached: {recommendation}");
    assert_eq!(best(&recommend(&site(1_500), &[none(), results(memcached())])), "memcached");
    let said = why(&recommendation, "memcached", RULE).unwrap();
    let words = "a session of 1,048,576 bytes was refused by a limit of 1,047,895 bytes: start \
                 memcached with a larger -I";
    assert!(said.starts_with(words), "{said}");
    // Of smaller sessions the limit decides that was named, not the next size that was tried.
    assert!(told("memcached", LIMIT + 1, memcached()).is_some());
    assert_eq!(told("memcached", LIMIT, memcached()), None);
}

#[test]
fn a_refusal_that_names_no_limit_counts_from_its_own_size_on() {
    for store in ["postgres", "files"] {
        let rows = || vec![refused(store, 8 * MIB, None), refused(store, 4 * MIB, None)];
        assert_eq!(told(store, 4 * MIB - 1, rows()), None, "{store}");
        let said = told(store, 4 * MIB, rows()).unwrap();
        assert!(
            said.starts_with("a session of 4,194,304 bytes was refused: ") && !said.contains("-I"),
            "{said}"
        );
        assert_eq!(said.contains("raise what postgres takes"), store == "postgres", "{said}");
        assert!(
            told(store, 9 * MIB, rows()).unwrap().contains("4,194,304"),
            "the smallest one is told"
        );
    }
}

#[test]
fn a_larger_payload_that_was_stored_speaks_for_a_store() {
    let above_stock = MIB;
    assert!(told("memcached", above_stock, vec![]).unwrap().contains("with its defaults"));
    assert!(
        told("memcached", above_stock, vec![stored("memcached", MIB - 1)]).is_some(),
        "that was a smaller one"
    );
    assert_eq!(told("memcached", above_stock, vec![stored("memcached", MIB)]), None);
    // The server's own word is as good: it is more exact than what is known of all of them.
    assert!(told("memcached", LIMIT, vec![]).is_some());
    assert_eq!(told("memcached", LIMIT, vec![refused("memcached", 8 * MIB, Some(LIMIT))]), None);
    let (small, large) = (refused("redis", MIB, Some(LIMIT)), stored("redis", 8 * MIB));
    for rows in [vec![small.clone(), large.clone()], vec![large.clone(), small.clone()]] {
        assert_eq!(told("redis", 2 * MIB, rows.clone()), None, "another server took it");
        assert!(told("redis", 9 * MIB, rows).is_some());
    }
}

#[test]
fn what_was_lost_is_worse_than_what_was_refused_and_no_other_row_makes_up_for_it() {
    let lost = |silent| saved("redis", 2 * MIB, "lost", silent, None);
    let others = [refused("redis", MIB, Some(LIMIT)), stored("redis", 8 * MIB)];
    for other in others {
        for rows in [vec![lost(true), other.clone()], vec![other.clone(), lost(true)]] {
            let said = told("redis", 4 * MIB, rows).unwrap();
            assert!(
                said.starts_with("of 2,097,152 bytes")
                    && said.contains("lost silently, which is worse"),
                "{said}"
            );
        }
        let said = told("redis", 4 * MIB, vec![other, lost(false)]).unwrap();
        assert!(said.contains("was lost, which is worse than refused alone"), "{said}");
    }
    let said = told("redis", 4 * MIB, vec![lost(false)]).unwrap();
    assert!(said.contains("worse than refused alone") && !said.contains("silently"), "{said}");
    let said = told("redis", 4 * MIB, vec![lost(false), lost(true)]).unwrap();
    assert!(said.contains("silently"), "{said}");
    assert_eq!(
        told("redis", 2 * MIB - 1, vec![lost(true)]),
        None,
        "by this rule: a lost update counts by another"
    );
}

#[test]
fn large_saves_of_another_variant_or_machine_say_nothing() {
    let refusal = |store: &str| vec![refused(store, MIB, Some(LIMIT))];
    let mut variant = refusal("files");
    variant[0]["variant"] = json!("shm");
    assert_eq!(told("files", 2 * MIB, variant.clone()), None);
    assert!(told("files#shm", 2 * MIB, variant).is_some());
    let excluded = |other: Report| {
        let wanted = Site { payload_bytes: 2 * MIB, ..all_installed_at(Durability::Second) };
        let usual = results(at_tier(Durability::Second, usual()));
        why(&recommend(&wanted, &[usual, other]), "redis", RULE).is_some()
    };
    let second = || at_tier(Durability::Second, refusal("redis"));
    assert!(excluded(results(second())));
    assert!(excluded(results(refusal("redis"))), "a limit is that of every tier");
    assert!(!excluded(made(second(), "/environment/cpu", json!("y"))));
}

/// What `-I` could reach counted as what a server takes: it was recommended for sessions that it
/// refuses as it is installed.
#[test]
fn without_results_a_server_is_taken_for_one_with_its_defaults() {
    let excluded = |payload_bytes: u64| -> Vec<String> {
        let recommendation = recommend(&site(payload_bytes), &[]);
        let fired = recommendation
            .ranking
            .iter()
            .filter(|it| rules(it, RuleEffect::Excludes).contains(&RULE));
        fired.map(RankedStore::title).collect()
    };
    assert_eq!(excluded(MIB - 1_024), Vec::<String>::new());
    assert_eq!(excluded(MIB - 1_023), ["php-memcached", "php-memcached#nolock", "memcached"]);
    let said = why(&recommend(&site(2_000_000), &[]), "memcached", RULE).unwrap();
    assert!(said.contains("at most 1,047,552 bytes: start memcached with a larger -I"), "{said}");
    let never = why(&recommend(&site(2 << 30), &[]), "memcached", RULE).unwrap();
    assert!(never.starts_with("it takes sessions of at most") && !never.contains("-I"), "{never}");
}

#[test]
fn what_only_a_flag_of_the_url_refuses_is_told_with_the_flag_and_excludes_nobody() {
    let note = "payload-limit-to-raise";
    let fired =
        |payload_bytes: u64, store: &str| why(&recommend(&site(payload_bytes), &[]), store, note);
    for entry in STORES.iter().filter(|entry| !entry.decorates) {
        assert_eq!(fired(64 * MIB, entry.name), None, "{}", entry.name);
        let said = fired(64 * MIB + 1, entry.name).unwrap();
        assert!(
            said.contains("payload_bytes_max=67108865") && said.contains("67108864 bytes"),
            "{said}"
        );
    }
    let recommendation = recommend(&site(100 * MIB), &[]);
    assert!(!named(&recommendation, "redis").excluded, "{recommendation}");
    assert_eq!(fired(1 << 30, "redis"), None, "no flag raises what it takes at all");
}
