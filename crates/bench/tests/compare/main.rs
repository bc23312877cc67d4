//! The comparison of two results, held to what it promises by thousands of made-up pairs of runs.
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
mod matching;

use sessile_bench::compare::{ComparedRow, Comparison, DriftBasis, THRESHOLD, Verdict};

use made_up::{Machine, NOISY, Noise, QUIET, compare, judged, with_references};

/// Pairs of runs in each case.
const TRIALS: u64 = 1_000;

/// Pairs of runs in which `files` became slower by a part; what was said of it.
fn trials(noise: Noise, slower: f64, rows: &[(&str, f64)]) -> Vec<ComparedRow> {
    let changed: Vec<(&str, f64)> = rows
        .iter()
        .map(|(store, speed)| {
            (*store, if *store == "files" { speed * (1.0 - slower) } else { *speed })
        })
        .collect();
    let one = |seed: u64| {
        let mut machine = Machine::new(seed, noise);
        let (old, new) = (machine.run(rows), machine.run(&changed));
        judged(&compare(&old, &new, THRESHOLD).unwrap(), "files")
    };
    (0..TRIALS).map(one).collect()
}

fn count(trials: &[ComparedRow], verdict: Verdict) -> usize {
    trials.iter().filter(|row| row.verdict == verdict).count()
}

#[test]
fn ten_percent_are_reported_and_nothing_is_not() {
    let rows = with_references(&[("files", 1e5)]);
    let (slowed, equal) = (trials(QUIET, 0.1, &rows), trials(QUIET, 0.0, &rows));
    let (found, alarms) = (count(&slowed, Verdict::Slower), count(&equal, Verdict::Slower));
    assert!(found >= 985, "{found} of 1000 slowdowns are reported");
    assert!(alarms <= 10, "{alarms} of 1000 are false alarms");
    let within = count(&equal, Verdict::Within);
    assert!(within >= 950, "of {within} of 1000 it is said that nothing has changed");
}

#[test]
fn where_a_slowdown_could_go_unseen_it_is_never_said_that_there_is_none() {
    let rows = with_references(&[("files", 1e5)]);
    for noise in [QUIET, NOISY, Noise { rounds: 5, ..QUIET }] {
        let slowed = trials(noise, 2.0 * THRESHOLD, &rows);
        let denied = count(&slowed, Verdict::Within);
        assert!(denied <= 10, "{denied} of 1000 slowdowns of 10 % are denied");
        let equal = count(&trials(noise, 0.0, &rows), Verdict::Slower);
        assert!(equal <= 10, "{equal} of 1000 are false alarms");
    }
    assert!(count(&trials(NOISY, 0.0, &rows), Verdict::Unclear) > 950);
}

#[test]
fn the_slowdown_that_a_row_would_see_is_seen_that_often() {
    let rows = with_references(&[("files", 1e5)]);
    let noise = Noise { rounds: 10, ..QUIET };
    let equal = trials(noise, 0.0, &rows);
    let mean = equal.iter().map(|row| row.would_see).sum::<f64>() / equal.len() as f64;
    let seen = count(&trials(noise, mean, &rows), Verdict::Slower);
    assert!(seen > 920, "{seen} of 1000 slowdowns of {mean:.3} are seen");
}

/// The presets have five rounds, and three with `--quick`.
#[test]
fn five_rounds_are_too_few_for_ten_percent_25_are_not_and_the_output_says_so() {
    let rows = with_references(&[("files", 1e5)]);
    for (rounds, enough) in [(3, false), (5, false), (25, true)] {
        let trials = trials(Noise { rounds, ..QUIET }, 0.0, &rows);
        let seen = trials.iter().map(|row| row.would_see).sum::<f64>() / trials.len() as f64;
        assert_eq!(seen < 2.0 * THRESHOLD, enough, "{rounds} rounds would see {seen:.3}");
    }
    let mut machine = Machine::new(12, QUIET);
    let (old, new) = (machine.run(&rows), machine.run(&rows));
    let comparison = compare(&old, &new, THRESHOLD).unwrap();
    let would_see = (comparison.rows[0].would_see * 100.0).ceil();
    let text = comparison.to_string();
    let last: Vec<&str> = text.lines().rev().take(2).collect();
    assert_eq!(last[1], "rows: 0 SLOWER, 0 faster, 1 within 5 %, 0 cannot tell", "{text}");
    assert_eq!(
        last[0],
        format!("a slowdown of {would_see:.0} % would have been seen in every row"),
        "{text}"
    );
    let noise = Noise { rounds: 3, round: 2.0, ..QUIET };
    let mut machine = Machine::new(12, noise);
    let text = compare(&machine.run(&rows), &machine.run(&rows), THRESHOLD).unwrap().to_string();
    assert!(
        text.ends_with("\nnot even a slowdown of 99 % would have been seen in every row\n"),
        "{text}"
    );
}

#[test]
fn the_intervals_contain_the_truth_as_often_as_they_say() {
    let rows = with_references(&[("files", 1e5)]);
    for slower in [0.0, 0.3] {
        let trials = trials(QUIET, slower, &rows);
        let missed =
            trials.iter().filter(|row| row.low > 1.0 - slower || row.high < 1.0 - slower).count();
        assert!(missed <= 20, "{missed} of 1000 intervals of 99 % miss the truth");
    }
}

/// The promise rests on the assumed variance of rows: with three times as much the intervals miss
/// more often than they may. A better method also changes the printed text and
/// bench/METHODOLOGY.md.
#[test]
fn beyond_what_is_assumed_of_rows_intervals_miss_and_the_assumption_is_printed() {
    let rows = with_references(&[("files", 1e5)]);
    let trials = trials(Noise { fortune: 0.03, ..QUIET }, 0.0, &rows);
    let missed = trials.iter().filter(|row| row.low > 1.0 || row.high < 1.0).count();
    let alarms = count(&trials, Verdict::Slower);
    assert!(
        (100..=250).contains(&missed) && alarms <= 130,
        "{missed} of 1000 intervals miss, {alarms} are alarms"
    );
    let mut machine = Machine::new(6, QUIET);
    let (old, new) = (machine.run(&rows), machine.run(&rows));
    let comparison = compare(&old, &new, THRESHOLD).unwrap();
    let apart = comparison.rows[0].apart;
    assert!((0.008..0.02).contains(&apart), "{apart}");
    let printed = format!("as long as a row varies by no more than {:.1} %", apart * 100.0);
    assert!(comparison.to_string().contains(&printed), "{comparison}");
    assert!(!comparison.to_string().contains("fewer than 3 reference rows"), "{comparison}");
    let mut fewer = (old.clone(), new.clone());
    for report in [&mut fewer.0, &mut fewer.1] {
        report.results.retain(|row| row.store != "null");
    }
    let comparison = compare(&fewer.0, &fewer.1, THRESHOLD).unwrap();
    assert!(comparison.to_string().contains("fewer than 3 reference rows"), "{comparison}");
}

#[test]
fn a_threshold_is_printed_with_its_digits() {
    let rows = with_references(&[("files", 1e5)]);
    let run = Machine::new(7, QUIET).run(&rows);
    for (threshold, words) in
        [(0.001, "at least 0.1 %."), (0.07, "at least 7 %."), (0.5, "within 50 %")]
    {
        let text = compare(&run, &run, threshold).unwrap().to_string();
        assert!(text.contains(words) && !text.contains("within 0 %"), "{text}");
    }
}

fn thirty(seed: u64, noise: Noise) -> Comparison {
    let names: Vec<String> = (0..30).map(|number| format!("store{number}")).collect();
    let rows = with_references(
        &names.iter().map(|name| (name.as_str(), 1e5)).collect::<Vec<(&str, f64)>>(),
    );
    let mut machine = Machine::new(seed, noise);
    let (old, new) = (machine.run(&rows), machine.run(&rows));
    compare(&old, &new, THRESHOLD).unwrap()
}

fn says_that_rows_scatter(comparison: &Comparison) -> bool {
    comparison.notes.iter().any(|note| note.starts_with("rows of stores differ as if"))
}

#[test]
fn many_rows_raise_no_more_alarms_than_one() {
    let comparisons: Vec<Comparison> = (0..300).map(|seed| thirty(seed, QUIET)).collect();
    let alarms = comparisons.iter().filter(|it| it.slower().count() > 0).count();
    assert!(alarms <= 6, "{alarms} of 300 comparisons raise a false alarm");
    let scattered = comparisons.iter().filter(|it| says_that_rows_scatter(it)).count();
    assert!(scattered <= 20, "of {scattered} of 300 it is said that rows scatter");
}

/// Where rows vary by three times of what is assumed the promise does not hold. Most of these
/// comparisons say so.
#[test]
fn beyond_what_is_assumed_many_rows_raise_false_alarms_and_most_of_these_come_with_a_note() {
    let comparisons: Vec<Comparison> =
        (0..300).map(|seed| thirty(seed, Noise { fortune: 0.03, ..QUIET })).collect();
    let alarmed: Vec<&Comparison> =
        comparisons.iter().filter(|it| it.slower().count() > 0).collect();
    assert!(
        (60..=140).contains(&alarmed.len()),
        "{} of 300 comparisons raise a false alarm",
        alarmed.len()
    );
    let told = alarmed.iter().filter(|it| says_that_rows_scatter(it)).count();
    assert!(told * 4 >= alarmed.len() * 3, "{told} of {} say that rows scatter", alarmed.len());
}

/// A machine that is another one each second: what moves a round by 15 % moves both programs alike.
#[test]
fn two_programs_in_the_same_rounds_are_held_against_each_other_round_by_round() {
    let noise = Noise { rounds: 50, ..QUIET };
    let tried = |slower: f64, together: bool| {
        let one = |seed: u64| {
            let [mut old, new] = Machine::new(seed, noise).run_against(
                "files",
                [1e5, 1e5 * (1.0 - slower)],
                0.15,
                1,
            );
            if !together {
                old.settings.against = Some("of another run".to_owned());
            }
            judged(&compare(&old, &new, THRESHOLD).unwrap(), "files")
        };
        (0..TRIALS).map(one).collect::<Vec<ComparedRow>>()
    };
    let (slowed, equal) = (tried(0.1, true), tried(0.0, true));
    assert!(slowed.iter().all(|row| row.basis == DriftBasis::SameRounds));
    let (found, alarms) = (count(&slowed, Verdict::Slower), count(&equal, Verdict::Slower));
    assert!(found >= 985, "{found} of 1000 slowdowns are reported");
    assert!(alarms <= 10, "{alarms} of 1000 are false alarms");
    let apart = count(&tried(0.1, false), Verdict::Slower);
    assert!(apart < 100, "{apart} of 1000 are found where rounds do not belong together");
}

/// Where its memory lies makes a store faster or slower by several per cent as long as it lives. Of
/// two that were set up once 200 rounds do not tell that from another program; ten setups do.
#[test]
fn two_programs_are_held_against_each_other_by_setups_whatever_fortune_a_setup_has() {
    let noise = Noise { rounds: 200, fortune: 0.03, ..QUIET };
    let tried = |slower: f64, setups: usize| {
        let one = |seed: u64| {
            let speeds = [1e5, 1e5 * (1.0 - slower)];
            let [old, new] = Machine::new(seed, noise).run_against("files", speeds, 0.15, setups);
            compare(&old, &new, THRESHOLD).unwrap()
        };
        (0..TRIALS).map(one).collect::<Vec<Comparison>>()
    };
    let missed = |trials: &[Comparison]| {
        let rows = trials.iter().map(|it| judged(it, "files"));
        rows.filter(|row| row.low > 1.0 || row.high < 1.0).count()
    };
    let verdicts = |trials: &[Comparison], verdict: Verdict| {
        count(&trials.iter().map(|it| judged(it, "files")).collect::<Vec<ComparedRow>>(), verdict)
    };
    let (equal, slowed) = (tried(0.0, 10), tried(0.1, 10));
    assert!(missed(&equal) <= 20, "{} of 1000 intervals of 99 % miss the truth", missed(&equal));
    assert!(verdicts(&equal, Verdict::Slower) <= 5 && verdicts(&slowed, Verdict::Within) == 0);
    let found = verdicts(&slowed, Verdict::Slower);
    assert!(found >= 950, "{found} of 1000 slowdowns are reported");
    let row = judged(&equal[0], "files");
    assert_eq!((row.setups, row.apart), (10, 0.0));
    let text = equal[0].to_string();
    assert!(
        text.contains("setup by setup")
            && text.contains("as setups have nothing to do with each other.\n"),
        "{text}"
    );
    let once = tried(0.0, 1);
    assert!(missed(&once) > 100, "{} of 1000 intervals of 99 % miss the truth", missed(&once));
    let text = once[0].to_string();
    assert!(
        text.contains("fewer than 5 setups (from 25 --rounds on")
            && text.contains("no more than 1.0 %"),
        "{text}"
    );
}

/// The change slows every store by an amount of its own. Intervals that grow with how far rows lie
/// apart hide that.
#[test]
fn a_change_that_slows_each_store_by_another_amount_is_reported() {
    let names: Vec<String> = (0..30).map(|number| format!("store{number}")).collect();
    let rows = |part: fn(usize) -> f64| {
        let stores =
            names.iter().enumerate().map(|(number, name)| (name.as_str(), 1e5 * part(number)));
        with_references(&stores.collect::<Vec<(&str, f64)>>())
    };
    let mut machine = Machine::new(13, QUIET);
    let old = machine.run(&rows(|_| 1.0));
    let new = machine.run(&rows(|number| 0.88 - 0.01 * number as f64));
    let comparison = compare(&old, &new, THRESHOLD).unwrap();
    assert!(
        comparison.slower().count() >= 29 && says_that_rows_scatter(&comparison),
        "{comparison}"
    );
}

/// The machine is 30 % slower in NEW. Without the reference rows each store would be.
#[test]
fn a_slower_machine_is_no_slower_store() {
    let rows = with_references(&[("files", 1e5)]);
    let mut machine = Machine::new(3, Noise { drift: 0.0, ..QUIET });
    let slow: Vec<(&str, f64)> = rows.iter().map(|(store, speed)| (*store, speed * 0.7)).collect();
    let (old, new) = (machine.run(&rows), machine.run(&slow));
    let comparison = compare(&old, &new, THRESHOLD).unwrap();
    assert_eq!(judged(&comparison, "files").verdict, Verdict::Within, "{comparison}");
    assert!(comparison.notes.iter().any(|note| note.contains("another one")), "{comparison}");
}

#[test]
fn without_reference_rows_the_other_stores_speak_for_the_machine_and_that_is_said() {
    let stores = [("files", 1e5), ("sqlite", 2e4), ("sessile", 1e6), ("memory", 3e6)];
    let mut machine = Machine::new(4, QUIET);
    let (old, new) = (machine.run(&stores), machine.run(&stores));
    let comparison = compare(&old, &new, THRESHOLD).unwrap();
    assert!(comparison.rows.iter().all(|row| row.basis == DriftBasis::OtherStores), "{comparison}");
    assert!(comparison.to_string().contains("all stores together cannot be seen"), "{comparison}");
    let (old, new) = (machine.run(&stores[..1]), machine.run(&stores[..1]));
    let comparison = compare(&old, &new, THRESHOLD).unwrap();
    assert_eq!(judged(&comparison, "files").verdict, Verdict::Unclear, "{comparison}");
}
