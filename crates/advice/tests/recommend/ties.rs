//! Which stores the rounds tell from the best one.

use crate::rows::recommend;
use serde_json::{Value, json};
use sessile_advice::{RankedStore, Site};
use sessile_core::Durability;

use crate::rows::{all_installed, all_installed_at, at_tier, results, row, usual};

#[test]
fn two_that_do_not_differ_are_told_so() {
    let mut rows = usual();
    rows[5] = row("redis", "default", 395_000.0);
    let results = results(at_tier(Durability::Second, rows));
    let recommendation = recommend(&all_installed_at(Durability::Second), &[results]);
    let told = "the rounds do not tell redis from sessile#disk: take either, or measure with more \
                --rounds";
    assert!(recommendation.notes.iter().any(|note| note == told), "{recommendation}");
}

/// A row with these rounds.
fn rounds(store: &str, variant: &str, rates: &[f64]) -> Value {
    let mut measured = row(store, variant, rates[rates.len() / 2]);
    let sample = |rate: &f64| json!({ "ops_per_second": rate, "p50_us": 1.0, "p99_us": 1.0 });
    measured["samples"] = rates.iter().map(sample).collect();
    measured
}

fn tied(rows: Vec<Value>) -> Vec<String> {
    let recommendation = recommend(&all_installed(), &[results(rows)]);
    let tied = recommendation.ranking.iter().filter(|it| it.tied);
    tied.map(RankedStore::title).collect()
}

/// Only lowest, median and highest were compared by a test, and never the rounds of a row.
#[test]
fn ties_follow_from_the_rounds_and_not_from_their_range() {
    let best = rounds("sqlite", "default", &[1_000.0, 1_010.0, 990.0, 1_005.0, 995.0]);
    let slower = rounds("sessile", "disk", &[900.0, 910.0, 890.0, 905.0, 895.0]);
    let wide = rounds("sessile", "disk", &[500.0, 1_400.0, 900.0, 1_200.0, 700.0]);
    assert_eq!(tied(vec![best.clone(), slower]), Vec::<String>::new());
    assert_eq!(tied(vec![best.clone(), wide]), ["sessile#disk"]);
    let two = rounds("sessile", "disk", &[800.0, 800.0]);
    assert_eq!(tied(vec![best, two]), ["sessile#disk"], "two rounds tell nothing");
}

/// Those after the best stood as if in order, whether or not the rounds told them apart.
#[test]
fn those_after_the_best_are_in_order_only_where_the_rounds_tell_them_apart() {
    let next = |second: &[f64], third: &[f64]| {
        let rows = vec![
            rounds("sqlite", "default", &[9_000.0, 9_010.0, 8_990.0, 9_005.0, 8_995.0]),
            rounds("sessile", "disk", second),
            rounds("redis", "default", third),
        ];
        recommend(&all_installed(), &[results(rows)]).next().unwrap()
    };
    let second = [1_000.0, 1_010.0, 990.0, 1_005.0, 995.0];
    assert_eq!(next(&second, &[900.0, 910.0, 890.0, 905.0, 895.0]), "sessile#disk, redis");
    assert_eq!(next(&second, &[1_006.0, 992.0, 985.0, 1_008.0, 1_001.0]), "sessile#disk or redis");
    // One that has more against it comes later, however fast it is.
    let unlocked = rounds("redis-setex", "default", &second);
    let rows = vec![
        rounds("files-flock", "default", &[9_000.0, 9_010.0, 8_990.0, 9_005.0, 8_995.0]),
        rounds("redis-four-trips", "default", &second),
        unlocked,
    ];
    let loose = Site { restart_may_log_out: true, ..all_installed_at(Durability::None) };
    let recommendation = recommend(&loose, &[results(at_tier(Durability::None, rows))]);
    assert_eq!(recommendation.next().as_deref(), Some("phpredis#lock, phpredis"));
    let one = recommend(&all_installed(), &[results(vec![row("memcached", "default", 1.0)])]);
    assert_eq!(one.next(), None, "nothing is recommended");
}

/// Of many comparisons one in twenty finds a difference that is none: the more rivals, the further
/// apart rounds must be.
#[test]
fn the_more_rivals_the_further_apart_rounds_must_be() {
    let best = rounds("sqlite", "default", &[1_000.0, 1_012.0, 988.0, 1_006.0, 994.0]);
    let rival = rounds("sessile", "disk", &[974.0, 950.0, 968.0, 956.0, 962.0]);
    assert_eq!(tied(vec![best.clone(), rival.clone()]), Vec::<String>::new(), "alone it is slower");
    let far =
        |store: &str, variant: &str| rounds(store, variant, &[300.0, 310.0, 305.0, 302.0, 308.0]);
    let others = [far("redis", "default"), far("mysql", "default"), far("postgres", "default")];
    let mut rows = vec![best, rival];
    rows.extend(others);
    assert_eq!(tied(rows), ["sessile#disk"], "one of four comparisons");
}
