//! The comparison of two results. What it promises of two programs in the same rounds is held to
//! thousands of made-up runs.
//!
//! The seed is fixed; what disturbs the runs is assumed. `slowed_store` tries the same on real
//! runs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod made_up;

use made_up::{Machine, NOISE, compare};
use sessile_results::compare::{Comparison, Interval, Measure, Verdict};
use sessile_results::{Report, comparability_notes};

/// Pairs of runs in each case.
const TRIALS: u64 = 1_000;
const SPEED: f64 = 1e5;

/// Two programs in the same rounds, of which one may be slower by a part.
fn trials(slower: f64, stores: usize) -> Vec<Comparison> {
    let names: Vec<String> = (0..stores).map(|number| format!("store{number}")).collect();
    let one = |seed: u64| {
        let [old, new] =
            Machine::new(seed, NOISE).run_with_baseline(&names, [SPEED, SPEED * (1.0 - slower)]);
        compare(&old, &new).unwrap()
    };
    (0..TRIALS).map(one).collect()
}

fn intervals(trials: &[Comparison]) -> Vec<Interval> {
    trials.iter().flat_map(|it| it.rows.iter().map(|row| row.interval.unwrap())).collect()
}

fn count(intervals: &[Interval], verdict: Verdict) -> usize {
    intervals.iter().filter(|interval| interval.verdict == verdict).count()
}

/// The machine is another one each second, and where its memory lies makes a store faster or slower
/// by several per cent as long as it lives.
#[test]
fn ten_percent_are_reported_and_nothing_is_not() {
    let (equal, slowed) = (intervals(&trials(0.0, 1)), intervals(&trials(0.1, 1)));
    let missed = equal.iter().filter(|interval| interval.low > 1.0 || interval.high < 1.0).count();
    assert!(missed <= 20, "{missed} of 1000 intervals of 99 % miss the truth");
    let alarms = count(&equal, Verdict::Slower);
    assert!(alarms <= 5, "{alarms} of 1000 are false alarms");
    let (found, denied) = (count(&slowed, Verdict::Slower), count(&slowed, Verdict::Within));
    assert!(found >= 950 && denied == 0, "{found} of 1000 are reported, {denied} denied");
    assert!(equal.iter().all(|interval| interval.setups == 10));
}

#[test]
fn the_slowdown_that_a_row_would_see_is_seen_that_often() {
    let equal = intervals(&trials(0.0, 1));
    let mean = equal.iter().map(|row| row.would_see).sum::<f64>() / equal.len() as f64;
    let seen = count(&intervals(&trials(mean, 1)), Verdict::Slower);
    assert!(seen > 900, "{seen} of 1000 slowdowns of {mean:.3} are seen");
}

#[test]
fn many_rows_raise_no_more_alarms_than_one() {
    let alarms = trials(0.0, 10).iter().filter(|it| it.slower().count() > 0).count();
    assert!(alarms <= 10, "{alarms} of 1000 comparisons raise a false alarm");
}

#[test]
fn what_was_set_up_once_has_a_ratio_and_no_verdict() {
    let [mut old, mut new] =
        Machine::new(1, NOISE).run_with_baseline(&["files".to_owned()], [SPEED, SPEED / 2.0]);
    for report in [&mut old, &mut new] {
        report.results[0].figures.samples.iter_mut().for_each(|sample| sample.setup = 0);
    }
    let comparison = compare(&old, &new).unwrap();
    assert!(comparison.rows[0].interval.is_none() && comparison.faults().is_empty());
    assert!(comparison.to_string().contains("25 --rounds or more"), "{comparison}");
}

/// As a gate, what the other program could not measure passed.
#[test]
fn in_the_same_rounds_what_has_no_counterpart_is_a_fault() {
    let names = ["files", "memory"].map(str::to_owned);
    let [mut old, new] = Machine::new(2, NOISE).run_with_baseline(&names, [SPEED, SPEED]);
    old.results[0].outcome.errors = 3;
    let faults = compare(&old, &new).unwrap().faults();
    assert!(faults.len() == 1 && faults[0].starts_with("cycle: files cycle@1: it was bad in OLD"));
    old.results[0].outcome.errors = 0;
    old.results[1].figures.samples[..6].iter_mut().for_each(|sample| sample.ops_per_second = 0.0);
    let faults = compare(&old, &new).unwrap().faults();
    assert!(faults.len() == 1 && faults[0].contains("memory cycle@1: nothing was done"));
}

#[test]
fn of_two_files_ratios_are_shown_and_what_they_cannot_tell() {
    let mut machine = Machine::new(3, NOISE);
    let names = ["files", "sqlite", "memory"];
    let old = machine.run(&names.map(str::to_owned), SPEED);
    let mut new = machine.run(&["files", "memory", "redis"].map(str::to_owned), SPEED / 2.0);
    new.results[1].outcome.lost = 3;
    let comparison = compare(&old, &new).unwrap();
    let text = comparison.to_string();
    assert_eq!(comparison.rows.len(), 1, "{text}");
    assert!((0.4..0.6).contains(&comparison.rows[0].ratio), "{text}");
    assert!(text.contains("which part it is they cannot tell") && !text.contains("SLOWER"));
    let told: Vec<(&str, bool)> =
        comparison.not_compared.iter().map(|row| (row.what.as_str(), row.broken)).collect();
    assert_eq!(
        told,
        [
            ("cycle: sqlite cycle@1", false),
            ("cycle: memory cycle@1", true),
            ("cycle: redis cycle@1", false)
        ]
    );
    assert_eq!(
        comparison.faults(),
        ["cycle: memory cycle@1: it is bad in NEW: 0 errors, 0 misses, 3 lost updates"]
    );
    let nothing = compare(&old, &machine.run(&["redis".to_owned()], SPEED)).unwrap_err();
    assert!(nothing.to_string().contains("no row is in both"), "{nothing}");
}

/// The ratios of two machines were shown without a word.
#[test]
fn what_differs_between_two_machines_builds_and_servers_is_one_note() {
    let mut old = Machine::new(3, NOISE).run(&["files".to_owned()], SPEED);
    let notes = |old: &Report, new: &Report| compare(old, new).unwrap().notes;
    let mut new = old.clone();
    (new.environment.commit, new.environment.sessile) = ("3f2".into(), "9.9.9".into());
    assert_eq!(notes(&old, &new), [""; 0], "another program is what is compared");
    let machine = &mut new.environment;
    (machine.cpu, machine.cores, machine.build_flags) = ("other".into(), 64, "-O0".into());
    let of = |flags: &str| [("redis-server".to_owned(), flags.to_owned())].into();
    machine.servers = of("--appendonly yes");
    (old.environment.cpu, old.environment.servers) = ("one".into(), of("--appendonly no"));
    let notes = notes(&old, &new);
    assert_eq!(notes.len(), 1, "{notes:?}");
    for words in [
        "the processor is another one: one in OLD, other in NEW",
        "; the number of processors is another one: ",
        " in OLD, 64 in NEW",
        "; the build is another one: ",
        "; the command line of redis-server is another one: --appendonly no in OLD, ",
    ] {
        assert!(notes[0].contains(words), "{words}: {notes:?}");
    }
    // The parts of a series have tiers of their own, and so have their servers.
    let tier = |report: &mut Report, tier: &str| {
        report.results.iter_mut().for_each(|row| row.question.durability = tier.to_owned());
    };
    tier(&mut old, "none");
    tier(&mut new, "1s");
    let notes = comparability_notes(&[("OLD", &old), ("NEW", &new)]);
    assert!(!notes.concat().contains("command line"), "{notes:?}");
}

#[test]
fn at_a_fixed_rate_latencies_are_compared_and_at_another_nothing_is() {
    let mut old = Machine::new(4, NOISE).run(&["files".to_owned()], SPEED);
    old.settings.rate = Some(500.0);
    let mut new = old.clone();
    new.results[0].figures.latency_us.p99 *= 3.0;
    let rows = compare(&old, &new).unwrap().rows;
    let found: Vec<(Measure, f64)> = rows.iter().map(|row| (row.measure, row.ratio)).collect();
    assert_eq!(found, [(Measure::P50, 1.0), (Measure::P99, 3.0)]);
    new.settings.rate = None;
    let refused = compare(&old, &new).unwrap_err().to_string();
    assert!(refused.contains("cycle --rate 500: it is not in NEW"), "{refused}");
    let mut far = old.clone();
    far.settings.round_trip_us = Some(300.0);
    let refused = compare(&old, &far).unwrap_err().to_string();
    assert!(refused.contains("round trip in us is none in OLD and 300 in NEW"), "{refused}");
}
