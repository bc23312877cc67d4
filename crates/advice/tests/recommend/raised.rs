//! Sessions that a store takes whose server was told to: which setting that is, and whose server it
//! was.

use crate::rows::recommend;
use serde_json::{Value, json};

use crate::large::{LIMIT, MIB, RULE, none, refused, saved, site, stored, told};
use crate::rows::{best, results, row, why};

const TO_RAISE: &str = "server-limit-to-raise";
/// What a memcached said of itself that was started with `-I 8m`.
const LIMIT_8M: u64 = 8_387_927;

/// A row of a server that was told to take more.
fn raised(mut row: Value) -> Value {
    row["variant"] = json!("8m");
    row
}

/// A row of the user's own server, by a URL with this label.
fn own(mut row: Value, label: &str) -> Value {
    (row["variant"], row["durability"]) = (json!(label), json!("as configured"));
    row
}

/// Locked requests with payloads of this size.
fn cycled(store: &str, payload_bytes: u64) -> Value {
    let mut row = row(store, "default", 50.0);
    (row["payload_bytes"], row["sessions"]) = (json!(payload_bytes), json!(10));
    row
}

/// Why it is excluded, and what would have to be set; in whichever order the rows come.
fn excluded_or_raised(
    store: &str,
    payload_bytes: u64,
    mut rows: Vec<Value>,
) -> [Option<String>; 2] {
    let mut said = || {
        rows.reverse();
        let recommendation = recommend(&site(payload_bytes), &[none(), results(rows.clone())]);
        [RULE, TO_RAISE].map(|rule| why(&recommendation, store, rule))
    };
    let (backwards, forwards) = (said(), said());
    assert_eq!(forwards, backwards, "{store}, {payload_bytes} bytes");
    forwards
}

fn is_raised(said: &[Option<String>; 2], words: &str) -> bool {
    matches!(said, [None, Some(why)] if why.contains(words))
}

/// Rows of a memcached that was started with `-I 8m` spoke for nobody: the store was excluded,
/// whatever they had stored.
#[test]
fn a_store_whose_server_was_told_to_take_more_stays_and_says_what_it_must_be_told() {
    let rows = || -> Vec<Value> {
        let refused_8m = raised(refused("memcached", 8 * MIB, Some(LIMIT_8M)));
        let stored_8m = raised(stored("memcached", 2 * MIB));
        let stock = [1, 2, 4, 8].map(|times| refused("memcached", times * MIB, Some(LIMIT)));
        [stored("memcached", MIB / 2), stored_8m, refused_8m].into_iter().chain(stock).collect()
    };
    let recommendation = recommend(&site(2_000_000), &[none(), results(rows())]);
    assert_eq!(best(&recommendation), "memcached", "{recommendation}");
    let words = "start memcached with -I 8m or larger";
    for payload_bytes in [LIMIT + 1, 2_000_000, LIMIT_8M] {
        let said = excluded_or_raised("memcached", payload_bytes, rows());
        assert!(
            is_raised(&said, words) && is_raised(&said, "with its defaults 1,047,552 at most"),
            "{said:?}"
        );
    }
    let [excluded, to_raise] = excluded_or_raised("memcached", LIMIT_8M + 1, rows());
    assert!(excluded.unwrap().contains("with a larger -I") && to_raise.is_none());
    for payload_bytes in [1_500, LIMIT] {
        assert_eq!(
            excluded_or_raised("memcached", payload_bytes, rows()),
            [None, None],
            "its defaults will do"
        );
    }
    let alone = || vec![raised(stored("memcached", 2 * MIB))];
    assert_eq!(
        excluded_or_raised("memcached", MIB - 1_024, alone()),
        [None, None],
        "its defaults are known to do"
    );
    assert!(is_raised(&excluded_or_raised("memcached", MIB, alone()), words));
    let lost = || {
        vec![
            raised(stored("memcached", 4 * MIB)),
            raised(saved("memcached", 2 * MIB, "lost", true, None)),
        ]
    };
    let [excluded, to_raise] = excluded_or_raised("memcached", 3 * MIB, lost());
    assert!(excluded.unwrap().contains("lost silently") && to_raise.is_none());
    let mut reconnecting = stored("memcached", 2 * MIB);
    reconnecting["variant"] = json!("reconnect");
    assert!(
        told("memcached", 2 * MIB, vec![reconnecting]).is_some(),
        "of that nobody knows what it was told"
    );
    assert_eq!(
        told("redis", 2 * MIB, vec![raised(refused("redis", MIB, None))]),
        None,
        "that is no variant of redis"
    );
}

/// It was told to use another store, and the same server takes such sessions with another setting.
#[test]
fn what_a_server_with_its_defaults_lost_says_which_setting_it_would_take_it_by() {
    let lost = |store: &str, payload_bytes: u64, silent: bool| {
        saved(store, payload_bytes, "lost", silent, None)
    };
    let words = "; start memcached with a larger -I, which goes up to ";
    for (title, row) in [("php-memcached", "memcached-four-trips"), ("memcached", "memcached")] {
        for silent in [false, true] {
            let said = told(title, 2 * MIB, vec![lost(row, 2 * MIB, silent)]).unwrap();
            assert!(said.contains("lost") && said.contains(words), "{said}");
            assert!(said.contains("and measure it: sessile bench cycle"), "{said}");
        }
    }
    // A larger limit changed nothing, or would not.
    let with_8m = raised(lost("memcached", 2 * MIB, true));
    for rows in [
        vec![with_8m.clone(), lost("memcached", 2 * MIB, true)],
        vec![lost("memcached", MIB, true), with_8m],
        vec![own(lost("memcached", 2 * MIB, true), "mine")],
        vec![lost("memcached", MIB / 2, true)],
    ] {
        let said = told("memcached", 2 * MIB, rows).unwrap();
        assert!(said.ends_with("use a store that takes or refuses them"), "{said}");
    }
    let said = told("redis", 2 * MIB, vec![lost("redis", 2 * MIB, false)]).unwrap();
    assert!(said.ends_with("use a store that takes them"), "it has no such setting: {said}");
}

/// Rows of a URL have no tier, so they counted for nobody: whose own memcached has a larger `-I`
/// was told that it has not.
#[test]
fn what_the_users_own_server_takes_counts_for_its_store_whatever_its_label_is() {
    let stock = || refused("memcached", MIB, Some(LIMIT));
    for label in ["default", "mine", "8m"] {
        let rows = vec![
            stock(),
            raised(stored("memcached", 4 * MIB)),
            own(stored("memcached", 2 * MIB), label),
        ];
        let said = excluded_or_raised("memcached", 2 * MIB, rows);
        assert!(is_raised(&said, "keep the -I of memcached"), "{said:?}");
        let said = excluded_or_raised(
            "memcached",
            2 * MIB,
            vec![stock(), own(cycled("memcached", 2 * MIB), label)],
        );
        assert!(is_raised(&said, "which takes 2,097,152 bytes"), "{said:?}");
    }
    let small = vec![own(stored("memcached", MIB / 2), "mine")];
    assert_eq!(
        excluded_or_raised("memcached", MIB / 2, small),
        [None, None],
        "its defaults would do"
    );
    let refusal = own(refused("memcached", 2 * MIB, Some(LIMIT)), "mine");
    let said = told("memcached", 2 * MIB, vec![stock(), refusal.clone()]).unwrap();
    assert!(said.starts_with(
        "a session of 2,097,152 bytes was refused by the server that was measured by its URL"
    ));
    let said = excluded_or_raised(
        "memcached",
        2 * MIB,
        vec![refusal, raised(stored("memcached", 4 * MIB))],
    );
    assert!(is_raised(&said, "with -I 8m or larger"), "{said:?}");
    // Whose own takes less than one with its defaults.
    let lowered = vec![
        own(refused("memcached", MIB / 2, Some(400_000)), "mine"),
        stored("memcached", MIB / 2),
    ];
    let said = excluded_or_raised("memcached", MIB / 2, lowered);
    assert!(is_raised(
        &said,
        "by a limit of 400,000 bytes, and one with its defaults takes it: start memcached"
    ));
    let lost = own(saved("redis", 2 * MIB, "lost", true, None), "mine");
    assert!(told("redis", 2 * MIB, vec![lost]).unwrap().contains("lost silently"));
    let on_no_server = own(refused("files", MIB, None), "default");
    assert_eq!(
        told("files", 2 * MIB, vec![on_no_server]),
        None,
        "which of its directories that was nobody knows"
    );
}

#[test]
fn only_locked_requests_in_which_nothing_went_wrong_show_that_a_payload_is_taken() {
    let with = |field: &str, value: Value| {
        let mut row = own(cycled("memcached", 2 * MIB), "mine");
        row[field] = value;
        told("memcached", 2 * MIB, vec![row]).is_none()
    };
    assert!(with("first_error", Value::Null));
    for (field, value) in [
        ("errors", json!(1)),
        ("failed", json!("it failed")),
        ("payload_spread", json!("lognormal")),
        ("payload_bytes", json!(2 * MIB - 1)),
        ("op", json!("peek")),
        ("experiment", json!("rebuild")),
        ("workload", json!("shop")),
        ("store", json!("redis")),
    ] {
        assert!(!with(field, value.clone()), "{field}: {value}");
    }
}

/// MariaDB was recommended for sessions of 20 MB, which it refuses unless somebody has raised its
/// limit.
#[test]
fn the_packets_of_a_database_with_its_defaults_bound_a_session() {
    let stock = 16 * MIB - 1_024;
    assert_eq!(excluded_or_raised("mysql", stock, vec![]), [None, None]);
    let [excluded, to_raise] = excluded_or_raised("mysql", stock + 1, vec![]);
    let said = excluded.unwrap();
    let words =
        "at most 16,776,192 bytes (MySQL: 64 MiB): start mariadbd with a larger max_allowed_packet";
    assert!(said.contains(words) && said.contains("--sessions 10 --payload 16776193"), "{said}");
    assert_eq!(to_raise, None);
    let said = told("mysql", 64 * MIB + 1, vec![]).unwrap();
    assert!(
        said.contains("max_allowed_packet") && !said.contains("sessile bench"),
        "it has no such payloads: {said}"
    );
    let said = excluded_or_raised("mysql", 20 * MIB, vec![own(cycled("mysql", 20 * MIB), "mine")]);
    assert!(is_raised(&said, "keep the max_allowed_packet of mariadbd"), "{said:?}");
    let said =
        excluded_or_raised("mysql", 20 * MIB + 1, vec![own(cycled("mysql", 20 * MIB), "mine")]);
    assert!(said[0].is_some() && said[1].is_none(), "{said:?}");
}
