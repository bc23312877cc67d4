//! From where on something counts: by measured rows, not by numbers that somebody thought of.

use crate::rows::recommend;
use serde_json::{Value, json};
use sessile_advice::{RuleEffect, Site, THRESHOLDS};
use sessile_results::Report;

use crate::rows::{all_installed, made, named, results, row, rules, usual, why};

/// Requests that swept among so many sessions: a tenth of them took longer than this.
fn swept(sessions: u64, p90_us: f64) -> Value {
    let mut gc = row("sqlite", "default", 400.0);
    (gc["experiment"], gc["op"]) = (json!("gc"), json!("begin-while-sweeping"));
    (gc["sessions"], gc["bytes_per_session"]) = (json!(sessions), json!(0));
    gc["modes"] = json!({
        "plain_p50": 50.0, "sweeping_p50": 9e5, "sweeping": 100, "sweeping_p90": p90_us, "modes": 2
    });
    gc
}

/// With 100,000 sessions a sweep counted against a store, however few had been measured and however
/// short it was.
#[test]
fn a_sweep_that_is_felt_is_told_from_the_number_of_sessions_on_that_was_measured() {
    let felt = |sessions: u64, sweeps: Vec<Value>| {
        let site = Site { sessions, ..all_installed() };
        why(&recommend(&site, &[results(usual()), results(sweeps)]), "sqlite", "sweeps-are-felt")
    };
    let (few, many) = (swept(1_000, 4e3), swept(50_000, 2e6));
    assert_eq!(
        felt(49_999, vec![few.clone(), many.clone()]),
        None,
        "4 ms are not felt, and of 50,000 it has fewer"
    );
    for sweeps in [vec![few.clone(), many.clone()], vec![many.clone(), few.clone()]] {
        let said = felt(50_000, sweeps).unwrap();
        assert!(said.contains("with 50,000 sessions") && said.contains("2000 ms"), "{said}");
    }
    assert_eq!(felt(10_000_000, vec![few.clone()]), None, "what was not measured is not told");
    let short = |sessions| {
        let site = Site { sessions, ..all_installed() };
        let all = [results(usual()), results(vec![few.clone()])];
        why(&recommend(&site, &all), "sqlite", "sweeps-are-short")
    };
    let said = short(4_000).unwrap();
    assert_eq!(short(4_001), None, "a sweep of a shop was called short by one of a blog");
    assert!(
        said.contains("with 1,000 sessions") && said.contains("4.0 ms"),
        "it is told all the same: {said}"
    );
    let said = felt(10_000_000, vec![swept(550_000, 3e6), many]).unwrap();
    assert!(said.contains("with 550,000 sessions") && said.contains("3000 ms"), "{said}");
}

/// A run at so many requests a second of each of eight workers, in which `sqlite` did so many of
/// all of them.
fn paced(rate: f64, done: f64) -> Report {
    made(vec![row("sqlite", "default", done)], "/settings/rate", json!(rate))
}

/// 10,000 requests a second of `sqlite` were measured in a closed loop.
fn fired(wanted: f64, runs: Vec<Report>) -> Vec<(&'static str, String)> {
    fired_at(&Site { requests_per_second: wanted, ..all_installed() }, runs)
}

fn fired_at(site: &Site, runs: Vec<Report>) -> Vec<(&'static str, String)> {
    let mut all = vec![results(usual())];
    all.extend(runs);
    let recommendation = recommend(site, &all);
    let of_load = |rule: &str| matches!(rule, "too-slow" | "falls-behind");
    let rules = named(&recommendation, "sqlite").rules.iter().filter(|fired| of_load(fired.rule));
    rules.map(|fired| (fired.rule, fired.why.clone())).collect()
}

fn names(fired: &[(&'static str, String)]) -> Vec<&'static str> {
    fired.iter().map(|(rule, _)| *rule).collect()
}

#[test]
fn a_quarter_of_a_closed_loop_is_room_where_no_rate_was_measured() {
    assert!(fired(2_500.0, vec![]).is_empty());
    let little = fired(2_501.0, vec![]);
    assert_eq!(names(&little), ["too-slow"]);
    assert!(
        little[0].1.contains("25 % of the 10,000 that were measured")
            && !little[0].1.contains("fixed rate"),
        "{little:?}"
    );
    assert_eq!(names(&fired(10_001.0, vec![])), ["too-slow"]);
}

#[test]
fn a_rate_that_was_kept_up_with_is_room_and_one_that_was_not_excludes() {
    let kept = || paced(500.0, 3_900.0); // of 4,000
    let behind = || paced(1_000.0, 5_000.0); // of 8,000
    assert!(fired(4_000.0, vec![kept()]).is_empty(), "it was done");
    let little = fired(4_001.0, vec![kept(), behind()]);
    assert_eq!(names(&little), ["too-slow"]);
    assert!(
        little[0].1.contains("40 % of the 10,000")
            && little[0].1.contains("kept up with was 4,000"),
        "{little:?}"
    );
    for runs in [vec![kept(), behind()], vec![behind(), kept()]] {
        let excluded = fired(8_000.0, runs);
        assert_eq!(names(&excluded), ["too-slow", "falls-behind"]);
        assert!(
            excluded[1].1.contains("of 8,000 requests a second at a fixed rate 5,000 were done"),
            "{excluded:?}"
        );
    }
    // Less than 95 % of 4,000, in a moment in which the machine stood still: it kept up with twice
    // as many.
    for runs in [
        vec![paced(500.0, 3_700.0), paced(1_000.0, 8_000.0)],
        vec![paced(1_000.0, 8_000.0), paced(500.0, 3_700.0)],
    ] {
        assert!(fired(4_000.0, runs).is_empty());
    }
    assert_eq!(names(&fired(4_000.0, vec![paced(500.0, 3_700.0)])), ["too-slow", "falls-behind"]);
    let all = vec![paced(1_100.0, 5_000.0), paced(500.0, 3_700.0), paced(1_000.0, 8_000.0)];
    assert_eq!(names(&fired(8_800.0, all)), ["too-slow", "falls-behind"]);
}

#[test]
fn rates_with_servers_at_another_distance_are_another_question() {
    assert_eq!(names(&fired(4_000.0, vec![paced(500.0, 100.0)])), ["too-slow", "falls-behind"]);
    let mut far = paced(500.0, 100.0);
    far.settings.round_trip_us = Some(300.0);
    assert_eq!(names(&fired(4_000.0, vec![far])), ["too-slow"]);
    let mut peeked = paced(500.0, 100.0);
    peeked.results[0].question.op = "peek".to_owned();
    assert_eq!(names(&fired(4_000.0, vec![peeked])), ["too-slow"], "a peek is no locked request");
}

/// A rate that a store had kept up with among a hundred small sessions was room for a million large
/// ones, and one that it had not kept up with among a million excluded it for a hundred.
#[test]
fn a_rate_speaks_for_no_harder_load_than_was_measured_and_against_no_lighter_one() {
    let site = Site { requests_per_second: 4_000.0, sessions: 100_000, ..all_installed() };
    let at = |sessions: usize, payload_bytes: usize, done: f64| {
        let mut run = paced(500.0, done);
        (run.results[0].question.sessions, run.results[0].question.payload_bytes) =
            (sessions, payload_bytes);
        run
    };
    let told = |runs: Vec<Report>| names(&fired_at(&site, runs));
    let (room, little, excluded) = (vec![], vec!["too-slow"], vec!["too-slow", "falls-behind"]);
    for (sessions, payload, kept_up, behind) in [
        (100_000, 1_500, &room, &excluded),
        (99_999, 1_500, &little, &excluded),
        (25_000, 1_500, &little, &excluded),
        (400_000, 1_500, &room, &excluded),
        (400_004, 1_500, &room, &little),
        (100_000, 1_499, &little, &excluded),
        (100_000, 1_501, &room, &little),
        (1_000, 9_000, &little, &little),
    ] {
        let (done, half) = (at(sessions, payload, 4_000.0), at(sessions, payload, 2_000.0));
        assert_eq!(
            told(vec![done]),
            *kept_up,
            "kept up with: {sessions} sessions of {payload} bytes"
        );
        assert_eq!(
            told(vec![half]),
            *behind,
            "not kept up with: {sessions} sessions of {payload} bytes"
        );
    }
    // A store that did twice as much of the same work has not fallen behind. Easier work says
    // nothing about that.
    let twice = |sessions: usize, payload_bytes: usize| {
        let mut run = paced(1_000.0, 8_000.0);
        (run.results[0].question.sessions, run.results[0].question.payload_bytes) =
            (sessions, payload_bytes);
        vec![run, at(10_000, 1_500, 2_000.0)]
    };
    assert_eq!(told(twice(10_000, 1_500)), little);
    assert_eq!(told(twice(9_999, 1_500)), excluded);
    assert_eq!(told(twice(10_000, 1_499)), excluded);
}

#[test]
fn rates_of_other_spreads_and_ages_and_too_much_for_fewer_workers_are_another_question() {
    let site = Site { requests_per_second: 4_000.0, ..all_installed() };
    let told = |change: fn(&mut Report)| -> Vec<&'static str> {
        let both = [3_900.0, 100.0].map(|done| {
            let mut run = paced(500.0, done);
            change(&mut run);
            names(&fired_at(&site, vec![run])).into_iter().next_back().unwrap_or("room")
        });
        both.to_vec()
    };
    assert_eq!(told(|_| ()), ["room", "falls-behind"]);
    assert_eq!(
        told(|run| run.results[0].question.payload_spread = "lognormal".to_owned()),
        ["too-slow"; 2]
    );
    assert_eq!(
        told(|run| (run.results[0].question.workers, run.settings.rate) = (4, Some(1_000.0))),
        ["room", "too-slow"]
    );
    assert_eq!(
        told(|run| (run.results[0].question.workers, run.settings.rate) = (16, Some(250.0))),
        ["room", "falls-behind"]
    );
}

#[test]
fn much_memory_is_a_quarter_of_what_the_measured_machine_has() {
    // 2,000 bytes a session were measured.
    let site = Site { sessions: 1_000_000, ..all_installed() };
    let said = |gib: u64| {
        let report = made(usual(), "/environment/memory_bytes", json!(gib << 30));
        let recommendation = recommend(&site, &[report]);
        assert!(
            !rules(named(&recommendation, "files"), RuleEffect::Against).contains(&"much-memory"),
            "it is on a disk"
        );
        why(&recommendation, "redis", "much-memory")
    };
    assert_eq!(said(8), None);
    let told = said(7).unwrap();
    assert!(
        told.contains("1.9 GiB of memory") && told.contains("more than 25 % of the 7.0 GiB"),
        "{told}"
    );
    let unmeasured = why(&recommend(&site, &[]), "redis", "much-memory").unwrap();
    assert!(unmeasured.contains("2.4 GiB") && !unmeasured.contains('%'), "{unmeasured}");
}

/// A machine of 64 GiB was measured, in another tier or by `gc` alone, and memory was judged by one
/// of 8 GiB.
#[test]
fn how_much_memory_a_machine_has_is_known_from_results_that_say_nothing_of_speed() {
    let site = Site { sessions: 1_000_000, ..all_installed() };
    let of =
        |gib: u64| made(vec![swept(1_000, 4e3)], "/environment/memory_bytes", json!(gib << 30));
    let said = |reports: &[Report]| {
        let recommendation = recommend(&site, reports);
        assert!(recommendation.question.is_none(), "{recommendation}");
        why(&recommendation, "redis", "much-memory")
    };
    assert_eq!(said(&[of(64), of(64)]), None);
    assert!(said(&[of(4)]).unwrap().contains("25 % of the 4.0 GiB"));
    assert!(
        !said(&[of(64), of(4)]).unwrap().contains('%'),
        "of two machines nobody knows which is meant"
    );
}

#[test]
fn what_is_a_judgement_stands_in_the_document_with_its_reason() {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/RECOMMEND.md"))
            .unwrap();
    for threshold in THRESHOLDS {
        let line = format!("| {} | {threshold} | {} |", threshold.name, threshold.why);
        assert!(text.lines().any(|known| known == line), "bench/RECOMMEND.md lacks: {line}");
    }
    let names: std::collections::BTreeSet<&str> =
        THRESHOLDS.iter().map(|threshold| threshold.name).collect();
    assert_eq!(names.len(), THRESHOLDS.len());
}

/// It was an objection, and a store that can be swept from cron came after all others.
#[test]
fn sweeps_that_are_felt_are_told_and_do_not_count_against_a_store() {
    let site = Site { sessions: 50_000, ..all_installed() };
    let recommendation = recommend(&site, &[results(usual()), results(vec![swept(50_000, 2e6)])]);
    let of_effect = |effect| rules(named(&recommendation, "sqlite"), effect);
    assert!(of_effect(RuleEffect::Note).contains(&"sweeps-are-felt"), "{recommendation}");
    assert!(!of_effect(RuleEffect::Against).contains(&"sweeps-are-felt"), "{recommendation}");
}

/// A site of robots creates sessions all the time, and only changes of sessions were looked at.
#[test]
fn who_creates_too_slowly_for_robots_is_excluded() {
    let created = |speed: f64, tier: &str| {
        let mut row = row("sqlite", "default", speed);
        (row["experiment"], row["op"], row["durability"]) =
            (json!("ops"), json!("create"), json!(tier));
        results(vec![row])
    };
    let excluded = |bots_percent: f64, created: Report| {
        let site = Site { bots_percent, requests_per_second: 200.0, ..all_installed() };
        why(&recommend(&site, &[results(usual()), created]), "sqlite", "creates-too-slowly")
    };
    // 200 / (0.6 + 0.4 * 5) = 77 new sessions a second.
    let said = excluded(60.0, created(300.0, "1s")).unwrap();
    assert!(said.starts_with("77 new sessions a second are wanted, which are 26 %"), "{said}");
    assert!(excluded(60.0, created(310.0, "1s")).is_none());
    assert!(excluded(0.0, created(300.0, "1s")).is_none(), "visitors come back");
    assert!(excluded(60.0, created(300.0, "none")).is_some(), "no faster in a stronger tier");
    assert!(excluded(60.0, created(300.0, "commit")).is_none(), "a stronger tier may be slower");
}

/// The verdict had the p99 of clients that never wait, which no site is. Later it had that of all
/// rounds together: one stall of a shared machine in one round was the store's p99.
#[test]
fn the_p99_is_that_of_a_rate_as_high_as_the_sites_where_one_was_measured() {
    let p99 = |wanted: f64, runs: &[Report]| {
        let site = Site { requests_per_second: wanted, ..all_installed() };
        let mut all = vec![results(usual())];
        all.extend_from_slice(runs);
        named(&recommend(&site, &all), "sqlite").p99().unwrap()
    };
    let at = |rate: f64, done: f64, us: f64| {
        let mut run = paced(rate, done);
        let figures = &mut run.results[0].figures;
        figures.latency_us.p99 = 7e7;
        figures.samples.iter_mut().for_each(|sample| sample.p99_us = us);
        figures.samples[1].p99_us = 7e7;
        run
    };
    let runs = [at(500.0, 4_000.0, 250.0), at(250.0, 2_000.0, 120.0), at(1_000.0, 5_000.0, 9e5)];
    assert_eq!(p99(1_500.0, &runs), "120 at 2,000/s");
    assert_eq!(p99(2_500.0, &runs), "250 at 4,000/s");
    assert_eq!(p99(4_500.0, &runs), "9.00 saturated", "it fell behind at 8,000");
    assert_eq!(p99(1_500.0, &[]), "9.00 saturated");
}
