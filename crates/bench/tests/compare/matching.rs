//! Which runs and rows of two results are compared, what is said of the others, and what is
//! refused.

use serde_json::{Value, json};
use sessile_bench::compare::{self, ComparedRow, Comparison, THRESHOLD, Verdict};
use sessile_bench::{Collection, LeftOutExperiment, Report};

use crate::made_up::{
    Machine, Noise, QUIET, REFERENCES, compare, report, row, whole, with_references,
};

#[test]
fn at_a_fixed_rate_latencies_are_compared_and_more_is_slower() {
    let samples = |p50: f64| -> Vec<Value> {
        let sample = |n: i32| {
            let (p50_us, p99_us) = (p50 + f64::from(n), 900.0 + f64::from(n));
            json!({ "ops_per_second": 500.0, "p50_us": p50_us, "p99_us": p99_us })
        };
        (0..15).map(sample).collect()
    };
    let run = |p50: f64| {
        let mut whole = whole(vec![
            row("files", samples(p50)),
            row("lmdb", samples(500.0)),
            row("limit", samples(500.0)),
        ]);
        whole["settings"]["rate"] = json!(500.0);
        Report::from_json(&whole.to_string()).unwrap()
    };
    let comparison = compare(&run(500.0), &run(600.0), THRESHOLD).unwrap();
    let found: Vec<(&str, Verdict)> =
        comparison.rows.iter().map(|row| (row.measure, row.verdict)).collect();
    assert_eq!(found, [("p50_us", Verdict::Slower), ("p99_us", Verdict::Within)], "{comparison}");
    assert!((comparison.rows[0].ratio - 1.2).abs() < 0.01 && comparison.rows[0].low > 1.0);
    let faster = compare(&run(600.0), &run(500.0), THRESHOLD).unwrap();
    assert_eq!(faster.rows[0].verdict, Verdict::Faster, "{faster}");
    let paced = run(500.0);
    let closed = Machine::new(1, QUIET).run(&REFERENCES);
    let refused = compare(&paced, &closed, THRESHOLD).unwrap_err().to_string();
    assert!(refused.contains("rate is 500 in OLD and none in NEW"), "{refused}");
}

#[test]
fn rows_that_are_missing_or_bad_are_told() {
    let mut machine = Machine::new(5, QUIET);
    let old = machine.run(&with_references(&[("files", 1e5), ("sqlite", 1e4), ("memory", 1e6)]));
    let mut new = machine.run(&with_references(&[("files", 1e5), ("memory", 1e6), ("redis", 1e4)]));
    new.results.iter_mut().filter(|row| row.store == "memory").for_each(|row| row.lost = 3);
    let comparison = compare(&old, &new, THRESHOLD).unwrap();
    let told: Vec<(&str, &str, bool)> = comparison
        .not_compared
        .iter()
        .map(|row| (row.row.store.as_str(), row.why.as_str(), row.broken))
        .collect();
    assert_eq!(
        told,
        [
            ("sqlite", "it is not in NEW", false),
            ("memory", "it is bad in NEW: 0 errors, 0 misses, 3 lost updates", true),
            ("redis", "it is not in OLD", false),
        ]
    );
    let nothing = compare(&old, &machine.run(&[("redis", 1e4)]), THRESHOLD).unwrap_err();
    assert!(nothing.to_string().contains("no store has a row in both"), "{nothing}");
}

fn of_experiment(experiment: &str, mut report: Report) -> Report {
    report.results.iter_mut().for_each(|row| row.experiment = experiment.to_owned());
    report
}

fn collection(runs: &[Report]) -> Collection {
    Collection { runs: runs.to_vec(), ..Collection::default() }
}

/// Results of `bench all` were refused, and that is how results are kept.
#[test]
fn what_is_an_experiment_in_both_is_compared_and_what_only_one_has_is_named() {
    let rows = with_references(&[("files", 1e5)]);
    let slowed = with_references(&[("files", 7e4)]);
    let mut machine = Machine::new(8, QUIET);
    let (cycle, ops) = (machine.run(&rows), of_experiment("ops", machine.run(&rows)));
    let mut paced = machine.run(&rows);
    paced.settings.rate = Some(250.0);
    let swept = of_experiment("gc", report(vec![row("files", Vec::new())]));
    let old = collection(&[cycle, paced, ops, swept.clone()]);
    let slow_ops = of_experiment("ops", machine.run(&slowed));
    let mut new = collection(&[
        slow_ops,
        swept,
        machine.run(&rows),
        of_experiment("perl", machine.run(&rows)),
    ]);
    let (experiment, reason) =
        ("cycle --rate 250 --workers 8".to_owned(), "it failed: no room".to_owned());
    new.left_out.push(LeftOutExperiment { experiment, reason });
    let comparison = compare::compare(&old, &new, THRESHOLD).unwrap();
    let found: Vec<(String, Verdict)> =
        comparison.rows.iter().map(|row| (row.row.run(), row.verdict)).collect();
    assert_eq!(
        found,
        [("cycle".to_owned(), Verdict::Within), ("ops".to_owned(), Verdict::Slower)],
        "{comparison}"
    );
    let alone: Vec<(&str, &str)> = comparison
        .runs_not_compared
        .iter()
        .map(|run| (run.experiment.as_str(), run.why.as_str()))
        .collect();
    assert_eq!(
        alone,
        [
            ("cycle --rate 250", "it is not in NEW: it failed: no room"),
            ("perl", "it is not in OLD")
        ]
    );
    assert_eq!(
        (comparison.measured_once.as_slice(), comparison.not_compared.len()),
        (&["gc".to_owned()][..], 0)
    );
    let text = comparison.to_string();
    for words in [
        "== cycle\n",
        "== ops\n",
        "yardstick of ops (",
        "not compared: perl: it is not in OLD",
        "gc: measured once",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // A form is compared with the same form, in whichever order they were measured.
    let turned = collection(&[old.runs[1].clone(), old.runs[0].clone()]);
    let comparison = compare::compare(&old, &turned, THRESHOLD).unwrap();
    assert_eq!(comparison.runs(), ["cycle", "cycle --rate 250"], "{comparison}");
    // The runs that both have, also when one of them is a file of one experiment.
    let one = Collection::from(new.runs[0].clone());
    for (old, new, side) in [(&old, &one, "NEW"), (&one, &old, "OLD")] {
        let comparison = compare::compare(old, new, THRESHOLD).unwrap();
        assert_eq!(comparison.runs(), ["ops"], "{comparison}");
        let text = comparison.to_string();
        assert!(
            text.contains(&format!(
                "not compared: cycle, cycle --rate 250, gc: it is not in {side}"
            )),
            "{text}"
        );
        assert!(!text.contains("=="), "{text}");
    }
}

/// The machine was slower while `cycle` ran, and not while `ops` did.
#[test]
fn each_experiment_has_its_own_yardstick_and_all_their_rows_share_one_chance_of_a_false_alarm() {
    let rows = with_references(&[("files", 1e5)]);
    let slow: Vec<(&str, f64)> = rows.iter().map(|(store, speed)| (*store, speed * 0.7)).collect();
    let mut machine = Machine::new(9, Noise { drift: 0.0, ..QUIET });
    let old = collection(&[machine.run(&rows), of_experiment("ops", machine.run(&rows))]);
    let new = collection(&[machine.run(&slow), of_experiment("ops", machine.run(&rows))]);
    let both = compare::compare(&old, &new, THRESHOLD).unwrap();
    assert!(
        both.rows.len() == 2 && both.rows.iter().all(|row| row.verdict == Verdict::Within),
        "{both}"
    );
    let moved = both.notes.iter().find(|note| note.contains("another one"));
    assert!(moved.is_some_and(|note| note.starts_with("cycle: ")), "{both}");
    let alone = compare(&old.runs[0], &new.runs[0], THRESHOLD).unwrap();
    let width = |row: &ComparedRow| row.high / row.low;
    assert!(width(&both.rows[0]) > width(&alone.rows[0]), "{both}{alone}");
}

/// With eight workers on two processors this machine has become slower, with one it has not. What
/// has one worker was held against both.
#[test]
fn a_row_is_held_against_reference_rows_at_as_many_workers_and_where_there_are_none_that_is_said() {
    let mut machine = Machine::new(11, Noise { drift: 0.0, ..QUIET });
    let mut run = |part: f64| {
        let mut report = machine.run(&with_references(&[("files", 1e5)]));
        let mut eight = machine.run(&[("files", 1e5 * part), ("lmdb", 4e5 * part)]);
        eight.results.iter_mut().for_each(|row| row.workers = 8);
        report.results.extend(eight.results);
        report
    };
    let (mut old, mut new) = (run(1.0), run(0.7));
    let at = |comparison: &Comparison, workers: usize| {
        comparison.rows.iter().find(|row| row.row.workers == workers).unwrap().clone()
    };
    let comparison = compare(&old, &new, THRESHOLD).unwrap();
    let (one, eight) = (at(&comparison, 1), at(&comparison, 8));
    assert!(
        one.yardstick_rows == 3 && eight.yardstick_rows == 1 && eight.yardstick_same_workers,
        "{comparison}"
    );
    assert!((eight.ratio - 1.0).abs() < 0.1 && eight.verdict != Verdict::Slower, "{comparison}");
    assert!(!comparison.to_string().contains("no reference row at"), "{comparison}");
    for report in [&mut old, &mut new] {
        report.results.retain(|row| row.store != "lmdb" || row.workers == 1);
    }
    let comparison = compare(&old, &new, THRESHOLD).unwrap();
    assert!(
        (at(&comparison, 8).yardstick_rows, at(&comparison, 8).yardstick_same_workers)
            == (3, false),
        "{comparison}"
    );
    let text = comparison.to_string();
    let marked: Vec<&str> = text.lines().filter(|line| line.trim_end().ends_with(" *")).collect();
    assert!(marked.len() == 1 && marked[0].contains("cycle@8"), "{text}");
    assert!(text.contains("* no reference row at 8 workers: "), "{text}");
}

#[test]
fn many_rows_with_one_reason_are_one_line() {
    let names: Vec<String> = (0..20).map(|number| format!("store{number}")).collect();
    let rows: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 1e5)).collect();
    let mut machine = Machine::new(10, QUIET);
    let (old, new) = (machine.run(&rows), machine.run(&rows[..5]));
    let comparison = compare(&old, &new, THRESHOLD).unwrap();
    let text = comparison.to_string();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("not compared")).collect();
    assert!(
        lines.len() == 1 && lines[0].ends_with("and 3 more (--json names them): it is not in NEW"),
        "{lines:?}"
    );
    assert_eq!(comparison.not_compared.len(), 15);
}

#[test]
fn a_result_without_samples_of_its_rounds_is_refused_with_the_way_out() {
    let old = report(vec![row("files", Vec::new())]);
    let refused = compare(&old, &old, THRESHOLD).unwrap_err().to_string();
    assert!(refused.contains("its 0 rounds") && refused.contains("--rounds"), "{refused}");
}

/// It was told to measure with more rounds, which gc refuses.
#[test]
fn what_is_not_measured_in_rounds_is_refused_without_advice_that_fails() {
    let mut swept = row("files", Vec::new());
    swept["experiment"] = json!("gc");
    let old = report(vec![swept]);
    let refused = compare(&old, &old, THRESHOLD).unwrap_err().to_string();
    assert!(refused.contains("gc is measured once") && !refused.contains("--rounds"), "{refused}");
}

#[test]
fn what_is_no_result_is_refused() {
    for (text, words) in [
        ("", "not JSON"),
        ("{}", "no result of sessile bench"),
        ("{\"schema\": 1}", "no result"),
        ("{\"schema\": 7, \"results\": []}", "schema 7"),
        ("{\"schema\": 1, \"results\": [{}]}", "not a whole result"),
    ] {
        let refused = Report::from_json(text).unwrap_err().to_string();
        assert!(refused.contains(words), "{text}: {refused}");
    }
}
