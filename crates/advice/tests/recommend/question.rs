//! Which of the questions that results answer is the one that is closest to the site.

use crate::rows::recommend;
use serde_json::{Value, json};
use sessile_advice::Site;
use sessile_results::Report;

use crate::rows::{all_installed, named, results, usual};

fn with(mut rows: Vec<Value>, field: &str, value: &Value) -> Vec<Value> {
    rows.iter_mut().for_each(|row| row[field] = value.clone());
    rows
}

/// A site with sessions of 100,000 bytes was judged by measurements of 1,500 bytes, silently, even
/// where 100,000 bytes were measured.
#[test]
fn speed_comes_from_payloads_like_those_of_the_site_and_is_labelled_where_there_are_none() {
    let (small, large) =
        (|| results(usual()), || results(with(usual(), "payload_bytes", &json!(100_000))));
    let chosen = |payload_bytes: u64, all: &[Report]| {
        let recommendation = recommend(&Site { payload_bytes, ..all_installed() }, all);
        let note = recommendation.notes.iter().find(|note| note.contains("--payload")).cloned();
        (recommendation.question.unwrap().payload_bytes, note)
    };
    for both in [[small(), large()], [large(), small()]] {
        assert_eq!(chosen(90_000, &both), (100_000, None));
        assert_eq!(chosen(1_600, &both), (1_500, None));
    }
    let note = "measured with 1500 bytes a session; measure with --payload 3000";
    assert_eq!(chosen(3_000, &[small()]), (1_500, Some(note.to_owned())));
    assert_eq!(chosen(2_999, &[small()]).1, None);
    let uneven = results(with(usual(), "payload_spread", &json!("lognormal")));
    let text = recommend(&all_installed(), &[uneven]).to_string();
    assert!(text.contains("sessions of 1500 bytes (lognormal), tier 1s"), "{text}");
}

/// Its own advice did not help: stores of one host had answered the question without a network, and
/// outnumbered the servers that were measured over one.
#[test]
fn several_web_servers_are_judged_by_rows_over_a_network_whatever_else_was_measured() {
    let servers = || {
        usual().into_iter().filter(|row| {
            matches!(row["store"].as_str(), Some("redis" | "mysql" | "postgres" | "memcached"))
        })
    };
    let mut far = results(with(
        servers().collect(),
        "ops_per_second",
        &json!({ "median": 3e3, "low": 3e3, "high": 3e3 }),
    ));
    far.settings.round_trip_us = Some(300.0);
    let site = Site { web_servers: 4, ..all_installed() };
    let recommendation = recommend(&site, &[results(usual()), far]);
    assert_eq!(
        named(&recommendation, "postgres").ops_per_second,
        Some(3_000.0),
        "{recommendation}"
    );
    assert!(
        !recommendation.notes.iter().any(|note| note.contains("--round-trip")),
        "{recommendation}"
    );
    let of_one_host: Vec<Value> =
        usual().into_iter().filter(|row| row["store"] == "files").collect();
    let recommendation = recommend(&site, &[results(of_one_host)]);
    assert!(recommendation.question.is_none(), "{recommendation}");
    assert!(
        recommendation.notes[0].contains("of no store that several hosts can share"),
        "{recommendation}"
    );
}
