//! The page must show failed and lossy rows, published rows without a partner, and missing
//! experiments and contenders; and figures must not look better than they are.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod drawn;

use drawn::{page, section, small, with};
use sessile_results::{
    Collection, Figures, LeftOutExperiment, PartState, Question, SeriesPart, Subject,
};
use sessile_results::{CpuUs, Overflow, Rebuild, Row, WebFigures};

const WHY: &str = "the server went away at noon";

/// The page before the first section.
fn top(page: &str) -> &str {
    &page[..page.find("<section").unwrap()]
}

/// The tables and text of a section, without charts.
fn without_charts(section: &str) -> String {
    section
        .split("<svg")
        .map(|part| part.split_once("</svg>").map_or(part, |(_, rest)| rest))
        .collect()
}

/// A row that takes no lock, and says so, was drawn with a cross for the updates that it lost.
#[test]
fn updates_that_a_row_without_a_lock_lost_are_no_fault() {
    let lost = |store: &str| {
        let page =
            with("cycle", |row| (row.subject.store, row.outcome.lost) = (store.to_owned(), 7));
        section(&page, "cycle").contains("7 lost")
    };
    assert_eq!((lost("redis-setex"), lost("redis-four-trips")), (false, true));
}

/// Processor time stood nowhere where cycles were measured at a fixed rate only.
#[test]
fn resources_are_those_of_ops_where_cycles_were_only_paced() {
    let mut results = small();
    results.runs.retain(|run| {
        let experiment = run.results[0].question.experiment.as_str();
        experiment == "ops" || experiment == "cycle" && run.settings.rate.is_some()
    });
    let page = page(&results);
    assert!(section(&page, "resources").contains("space of a session (ops)"), "{page}");
}

/// Two builds were one machine, and each experiment that lacked a contender counted it anew.
#[test]
fn another_commit_is_another_machine_and_a_contender_is_missing_once() {
    let mut results = small();
    let machines = |results: &Collection| top(&page(results)).matches(" logical ").count();
    let before = machines(&results);
    results.runs[0].environment.commit = "another".to_owned();
    assert_eq!(machines(&results), before + 1);
    let left = results.runs.iter().find_map(|run| run.left_out.first().cloned()).unwrap();
    results.runs.iter_mut().for_each(|run| run.left_out = vec![left.clone()]);
    let page = page(&results);
    assert!(top(&page).contains("1 contender"), "{}", top(&page));
    assert_eq!(section(&page, "left-out").matches(&left.reason).count(), 1, "{}", left.reason);
}

/// These sections showed sound rows only, so a failed contender was invisible.
#[test]
fn a_failed_row_is_named_with_its_reason_wherever_its_figures_would_stand() {
    for (experiment, sections) in [
        ("cycle", ["warnings", "resources"].as_slice()),
        ("ops", &["warnings"]),
        ("scale", &["scale"]),
        ("lifecycle", &["lifecycle"]),
        ("languages", &["languages"]),
        ("gc", &["gc"]),
        ("contention", &["contention"]),
    ] {
        let page = with(experiment, |row| row.outcome.failed = Some(WHY.into()));
        for id in sections {
            assert!(without_charts(section(&page, id)).contains(WHY), "{experiment} in {id}");
            assert!(!section(&self::page(&small()), id).contains(WHY));
        }
    }
}

#[test]
fn a_contender_that_failed_everywhere_is_still_named_in_each_chart_of_it() {
    let mut results = small();
    for row in results
        .runs
        .iter_mut()
        .flat_map(|run| &mut run.results)
        .filter(|row| row.subject.title() == "mysql")
    {
        row.outcome.failed = Some(WHY.into());
    }
    let page = page(&results);
    let paced = section(&page, "paced");
    let charts = paced.split("<svg").skip(1).map(|part| part.split_once("</svg>").unwrap().0);
    let mut over_a_socket = charts.filter(|chart| chart.contains(">redis<"));
    assert!(over_a_socket.clone().count() > 0);
    assert!(
        over_a_socket.all(|chart| chart.contains(">mysql<") && chart.contains("--bad")),
        "{paced}"
    );
    let lines = section(&page, "resources").split("<tr>").filter(|line| line.contains(">mysql<"));
    assert!(lines.clone().count() > 0 && lines.clone().all(|line| line.contains(WHY)));
}

#[test]
fn lost_updates_are_marked_in_curves_and_counted_beside_them() {
    for (experiment, id) in [("scale", "scale"), ("lifecycle", "lifecycle")] {
        let sound = page(&small());
        let bad = |page: &str| section(page, id).matches("stroke=\"var(--bad)\"").count();
        let faulty = with(experiment, |row| {
            row.outcome.lost = 7;
            row.outcome.first_error = Some("a counter was too low".into());
        });
        assert!(bad(&faulty) > bad(&sound), "{id}: no cross");
        let words = without_charts(section(&faulty, id));
        assert!(words.contains("7 lost; the first: a counter was too low"), "{id}: {words}");
    }
}

#[test]
fn an_axis_of_factors_says_so_and_sizes_stand_at_their_distance() {
    let page = page(&small());
    assert!(section(&page, "paced").contains("p99 from when a request was due (logarithmic)"));
    assert!(section(&page, "scale").contains("sessions in the store (logarithmic)"));
    assert!(section(&page, "gc").contains("both logarithmic"));
}

/// What does not lock is faster, and loses updates.
#[test]
fn charts_are_of_handlers_that_lock_and_the_table_is_of_all() {
    let page = page(&small());
    let shown = section(&page, "lifecycle");
    let charts: String =
        shown.split("<svg").skip(1).map(|it| it.split("</svg>").next().unwrap()).collect();
    assert!(charts.contains("phpredis#lock") && !charts.contains(">phpredis<"), "{charts}");
    assert!(shown.contains(">apcu<") && !charts.contains(">apcu<"), "{shown}");
}

#[test]
fn what_a_full_memory_held_is_said_with_how_often_it_was_counted() {
    let page = page(&small());
    let shown = section(&page, "lifecycle");
    assert!(
        shown.contains("held 18,600 sessions when they were counted, in steps of 200"),
        "{shown}"
    );
    // A memory that refuses further sessions has lost none, and its count is exact.
    let exact = Overflow { megabytes: 85, held: 500, made: 500, ..Overflow::default() };
    let exact = with("lifecycle", |row| {
        row.question.op = "overflow".into();
        row.web = Some(WebFigures { overflow: Some(exact), ..WebFigures::default() });
    });
    assert!(
        section(&exact, "lifecycle").contains("held 500 sessions when they were counted. Of 500")
    );
    let failed = with("lifecycle", |row| {
        (row.question.op, row.web, row.outcome.failed) = ("overflow".into(), None, Some(WHY.into()))
    });
    assert!(section(&failed, "lifecycle").contains("until it is full: failed: the server"));
}

#[test]
fn what_rebuild_did_not_measure_is_no_nought_and_its_times_are_said_to_be_made_up() {
    let mut results = small();
    let row = |store: &str, rebuild| Row {
        question: Question { experiment: "rebuild".into(), ..Question::default() },
        subject: Subject { variant: "default".into(), store: store.into(), ..Subject::default() },
        figures: Figures {
            cpu_us_per_op: CpuUs { client: 120.0, server: 0.0 },
            ..Figures::default()
        },
        rebuild,
        ..Row::default()
    };
    let broken = row("broken", None).into_failed(WHY.into());
    let kept = Rebuild { keeps: true, views: 40, save_us: 0.0, ..Rebuild::default() };
    results.runs[0].results.extend([row("keeps", Some(kept)), broken]);
    let page = page(&results);
    let shown = section(&page, "rebuild");
    assert!(shown.contains("ten passes of md5") && shown.contains(WHY), "{shown}");
    let line = |name: &str| {
        shown.split("<tr>").find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}"))
    };
    assert_eq!(line("time of the server").matches("not measured").count(), 2);
    assert!(line("time of the load generator").contains("120 \u{b5}s"));
    assert!(line("to build it").contains("not once") && line("to save it").contains("not once"));
}

#[test]
fn a_published_row_without_a_partner_keeps_its_place() {
    let mut results = small();
    for run in results.runs.iter_mut().filter(|run| !run.settings.as_published) {
        run.results.retain(|row| row.question.experiment != "ops" || row.subject.store != "redis");
    }
    let page = page(&results);
    let ops = section(&page, "ops");
    let table = &ops[ops.find("Operations a second, corrected and as published").unwrap()..];
    let lines: Vec<&str> = table.split("<tr>").filter(|line| line.contains(">redis<")).collect();
    assert_eq!(lines.len(), 3, "three operations: {table}");
    assert!(lines.iter().all(|line| line.contains("no corrected row")), "{lines:?}");
    assert!(
        ops.contains(">mysql<")
            && section(&self::page(&small()), "ops").find("no corrected row").is_none()
    );
}

#[test]
fn another_file_system_is_another_machine() {
    let machines = |results: &Collection| page(results).matches("<dl class=\"machine\">").count();
    let mut results = small();
    let before = machines(&results);
    results.runs[0].environment.disk_file_system = "xfs".into();
    assert_eq!(machines(&results), before + 1);
    assert!(top(&page(&results)).contains("disk xfs"));
}

#[test]
fn a_part_of_the_results_says_at_the_top_what_is_missing() {
    let whole = page(&small());
    let none = "No result of <strong>rebuild</strong>";
    assert!(top(&whole).contains(none), "{}", top(&whole));
    assert!(!top(&whole).contains("interrupted"));

    let mut results = small();
    results.runs.retain(|run| {
        run.results
            .iter()
            .all(|row| !["gc", "scale", "languages"].contains(&row.question.experiment.as_str()))
    });
    let left = |experiment: &str, reason: &str| LeftOutExperiment {
        experiment: experiment.into(),
        reason: reason.into(),
    };
    results.left_out = vec![
        left("gc", "a signal came before it"),
        left("scale", "a signal came before it"),
        left("languages", "perl is not installed."),
        // Another result has it.
        left("cycle", "there was no time for it"),
    ];
    results.interrupted = true;
    results.runs[1].interrupted = true;
    let empty = sessile_results::Report { results: Vec::new(), ..results.runs[0].clone() };
    results.runs.push(sessile_results::Report {
        command: "sessile bench oversize --quick".into(),
        ..empty
    });
    let page = page(&results);
    let top = top(&page);
    for words in [
        "The measurement was interrupted</strong>: rounds or contenders of ops are missing",
        "gc, scale</strong>: a signal came before it.",
        "languages</strong>: perl is not installed.<",
        "Not a single row</strong> came of <code>sessile bench oversize --quick",
        "No result of <strong>rebuild",
        "href=\"#left-out\"",
    ] {
        assert!(top.contains(words), "{words}: {top}");
    }
    assert!(!top.contains("no time for it"), "{top}");
}

/// A killed process leaves a partial result, which must not look complete.
#[test]
fn a_series_that_did_not_come_to_its_end_says_so_and_a_form_of_an_experiment_counts_for_itself() {
    let mut results = small();
    let part = |flags: &str, state| SeriesPart {
        experiment: "ops".into(),
        flags: flags.into(),
        state,
        reason: None,
    };
    results.parts = vec![part("", PartState::Done), part("--as-published", PartState::Running)];
    let reason = "not measured yet when this was written";
    results.left_out =
        vec![LeftOutExperiment { experiment: "ops --as-published".into(), reason: reason.into() }];
    results.runs.retain(|run| !run.settings.as_published);
    let page = page(&results);
    assert!(top(&page).contains("The measurement has not come to its end"), "{}", top(&page));
    assert!(
        top(&page).contains(&format!("ops --as-published</strong>: {reason}.")),
        "{}",
        top(&page)
    );
    assert!(section(&page, "ops").contains(&format!("Not run: {reason}")));

    // The rest in another run completes it.
    results.parts = vec![part("--as-published", PartState::Done)];
    let whole = self::page(&results);
    assert!(
        !top(&whole).contains("as-published") && !top(&whole).contains("come to its end"),
        "{}",
        top(&whole)
    );
}

/// The paced form of the experiment was measured, so the failure of the plain form was not
/// reported.
#[test]
fn a_form_that_failed_is_named_though_another_form_of_the_experiment_was_measured() {
    let mut results = small();
    results.runs.retain(|run| {
        let cycle = run.results.iter().any(|row| row.question.experiment == "cycle");
        !cycle || run.settings.rate.is_some()
    });
    let left = |experiment: &str, reason: &str| LeftOutExperiment {
        experiment: experiment.into(),
        reason: reason.into(),
    };
    results.left_out = vec![
        left("cycle", "it failed: no room"),
        left("cycle --rate 250 --workers 8", "a signal came"),
    ];
    let page = page(&results);
    assert!(top(&page).contains("cycle</strong>: it failed: no room."), "{}", top(&page));
    assert!(
        !top(&page).contains("a signal came"),
        "it was measured at other rates: {}",
        top(&page)
    );
    assert!(section(&page, "cycle").contains("Not run: it failed: no room"));
}

/// With `cycle --rate` alone `cycle` did not seem to be missing.
#[test]
fn a_form_alone_does_not_stand_for_its_experiment() {
    let mut results = small();
    results.runs.retain(|run| {
        let form = run.settings.rate.is_some() || run.settings.as_published;
        form || run
            .results
            .iter()
            .all(|row| !["cycle", "ops"].contains(&row.question.experiment.as_str()))
    });
    let page = page(&results);
    assert!(
        top(&page).contains("No result of <strong>ops, cycle, rebuild</strong>"),
        "{}",
        top(&page)
    );
    assert!(
        section(&page, "cycle").contains("Not run") && !section(&page, "paced").contains("Not run")
    );
}

/// The reason was searched by all flags of the command that the page proposes.
#[test]
fn the_section_of_a_form_gives_its_reason_whatever_its_flags_are() {
    let mut results = small();
    results.runs.retain(|run| {
        run.settings.rate.is_none()
            || run.results.iter().all(|row| row.question.experiment != "cycle")
    });
    let (experiment, reason) = ("cycle --rate 250 --workers 8".into(), "it failed: no room".into());
    results.left_out = vec![LeftOutExperiment { experiment, reason }];
    let page = page(&results);
    assert!(
        section(&page, "paced").contains("Not run: it failed: no room"),
        "{}",
        section(&page, "paced")
    );
    assert!(
        top(&page).contains("cycle --rate 250 --workers 8</strong>: it failed: no room."),
        "{}",
        top(&page)
    );
}

#[test]
fn a_bad_row_says_of_which_form_of_an_experiment_it_is() {
    let mut results = small();
    for run in results
        .runs
        .iter_mut()
        .filter(|run| run.settings.rate.is_some() || run.settings.as_published)
    {
        run.results[0].outcome.failed = Some(WHY.into());
    }
    let page = page(&results);
    let warnings = section(&page, "warnings");
    for form in ["cycle --rate 500", "cycle --rate 2000", "ops --as-published", "gc", "contention"]
    {
        assert!(warnings.contains(&format!(">{form}<")), "{form}: {warnings}");
    }
}

#[test]
fn a_whole_measurement_has_nothing_missing_and_none_at_all_is_said_once() {
    let mut results = small();
    let rebuild = Row {
        question: Question { experiment: "rebuild".into(), ..Question::default() },
        subject: Subject { store: "php-memcached".into(), ..Subject::default() },
        ..Row::default()
    };
    results.runs[0].results.push(rebuild);
    results.runs.iter_mut().for_each(|run| run.left_out.clear());
    assert!(!top(&page(&results)).contains("What is missing"), "{}", top(&page(&results)));
    assert!(!top(&page(&Collection::default())).contains("What is missing"));
}
