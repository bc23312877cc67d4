//! The page of real results. `scripts/report_test.sh` tests it in a browser.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod drawn;

use drawn::{page, section, small, with};
use sessile_results::{Collection, Figures, Outcome, Question, Subject};
use sessile_results::{
    DurabilityPromise, Faults, LargestEntry, Modes, Rebuild, Row, ServerWork, Visitors, WebFigures,
};

#[test]
fn every_experiment_has_a_chart_or_a_table_and_none_claims_not_to_be_run() {
    let page = page(&small());
    for id in ["cycle", "ops", "lifecycle", "gc", "paced", "scale", "contention", "faults"] {
        assert!(section(&page, id).contains("<svg"), "{id} has no chart");
    }
    for id in ["verdict", "features", "oversize", "languages", "resources", "left-out", "method"] {
        assert!(section(&page, id).contains("<table"), "{id} has no table");
    }
    for id in ["cycle", "ops", "gc", "scale", "oversize", "languages", "faults"] {
        assert!(!section(&page, id).contains("Not run"), "{id}");
    }
}

/// Stores were recommended from a run without any cycle, and of the tier `none` without a word.
#[test]
fn the_first_sentence_says_its_tier_and_needs_a_measured_cycle() {
    let lead = |page: &str| page.split_once("<nav").unwrap().0.to_owned();
    let measured = lead(&page(&small()));
    assert!(
        measured.contains(", many bots, in tier none, which promises nothing about a power cut"),
        "{measured}"
    );
    let none = "no verdict for Shopware, Magento on one host, Magento on three hosts, in tier 1s, \
                which promises that all but the last second survives a power cut \
                (<code>--durability 1s</code>";
    assert!(measured.contains(none), "{measured}");
    assert!(measured.contains("Locked requests a second of each store, tier none"), "{measured}");
    let mut results = small();
    results.runs.retain(|run| run.results.iter().all(|row| row.question.experiment != "cycle"));
    let without = lead(&page(&results));
    assert!(!without.contains("promises that") && !without.contains("<svg"), "{without}");
}

/// The caption claimed a test of every row, even of HTTPS.
#[test]
fn features_that_nothing_tries_are_marked_as_documented() {
    let page = page(&small());
    let features = section(&page, "features");
    assert!(features.contains("Rows with * are from documentation"), "{features}");
    assert!(
        features.contains("shared by several hosts *<")
            && !features.contains("can list sessions *"),
        "{features}"
    );
}

/// Stores over a socket would be compared with those inside the process.
#[test]
fn scale_has_a_chart_and_a_table_for_each_kind_of_way_to_the_store() {
    let mut results = small();
    let rows = results
        .runs
        .iter_mut()
        .flat_map(|run| &mut run.results)
        .filter(|row| row.question.experiment == "scale");
    for row in rows.filter(|row| row.subject.title() == "files#shm") {
        row.subject.kind = "socket".into();
    }
    let page = page(&results);
    let scale = section(&page, "scale");
    let parts: Vec<&str> = scale.split("<h3>").skip(1).collect();
    for part in parts.iter().flat_map(|part| part.split("</svg>").next()) {
        let title = part.split("</h3>").next().unwrap();
        let (way, other) = if title.contains("over a socket") {
            ("files#shm", "lmdb")
        } else {
            ("lmdb", "files#shm")
        };
        assert!(
            title.contains("over a socket") || title.contains("inside the application"),
            "{title}"
        );
        assert!(part.contains(way) && !part.contains(other), "{title}: {part}");
    }
    assert_eq!(parts.len(), 2);
    assert_eq!(scale.matches("<caption").count(), 2);
}

#[test]
fn a_debug_build_is_named_where_its_figures_stand_and_not_elsewhere() {
    let page = page(&small());
    assert!(section(&page, "languages").contains("A debug build"));
    assert!(!section(&page, "cycle").contains("A debug build"));
}

#[test]
fn what_was_published_stands_beside_the_corrected_figures() {
    let page = page(&small());
    let ops = section(&page, "ops");
    let published = ops.split_once("As it was published").unwrap().1;
    let lines: Vec<String> = published.split("<tr>").map(|line| cells(line).join("|")).collect();
    // A contender that connects for each operation in one form only is the same contender.
    let mysql: Vec<&String> =
        lines.iter().filter(|line| line.starts_with("mysql|change|8|")).collect();
    let figures = |line: &String| line.split('|').filter(|cell| !cell.is_empty()).count();
    assert!(matches!(mysql.as_slice(), [line] if figures(line) == 6), "a ratio: {lines:?}");
}

#[test]
fn the_page_points_at_nothing_outside_of_itself() {
    let page = page(&small());
    for word in ["src=", "href=\"h", "url(", "@import", "<script", "<link", "<img", "style=\""] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.contains("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';"));
}

#[test]
fn a_failed_row_stays_with_its_reason_and_a_lost_update_is_counted() {
    let failed = with("cycle", |row| row.outcome.failed = Some("the server went away".into()));
    assert!(section(&failed, "cycle").contains("failed"));
    assert!(section(&failed, "warnings").contains("the server went away"));
    let lost = with("cycle", |row| row.outcome.lost = 3);
    assert!(section(&lost, "cycle").contains("3 lost"));
    assert!(section(&lost, "warnings").contains("3 lost"));
    assert!(
        !section(&page(&small()), "cycle").contains("3 lost"),
        "the real results have lost nothing"
    );
}

/// "Nothing lost" was said of a server that had lost every session, because rows of kills counted
/// as rows of speed.
#[test]
fn what_a_kill_cost_is_told_and_what_was_not_promised_is_no_failure() {
    let killed = |op: &str, faults: Faults| {
        let page = with("cycle", |row| {
            (row.question.experiment, row.question.op) = ("faults".into(), op.into());
            row.faults = Some(faults.clone());
        });
        section(&page, "faults").to_owned()
    };
    let memory = Faults {
        kills: 1,
        promise: DurabilityPromise::Nothing,
        acknowledged: 2_819,
        lost: 2_248,
        sessions_lost: 32,
        ..Faults::default()
    };
    let shown = killed("server-killed", memory);
    for words in ["248<", ">32<", "nothing", "as promised"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let broken =
        killed("server-killed", Faults { kills: 1, lost: 3, lost_beyond: 3, ..Faults::default() });
    assert!(
        broken.contains("3 acknowledged updates lost that were promised to survive"),
        "{broken}"
    );
    let stuck = Faults { kills: 5, stuck: 5, stuck_is_meant: true, ..Faults::default() };
    let shown = killed("holder-killed", stuck);
    assert!(shown.contains("never") && shown.contains("5 locks stuck"), "{shown}");
    // The table of the terminal showed it, and the page did not.
    let again =
        |restarted| killed("server-killed", Faults { kills: 1, restarted, ..Faults::default() });
    assert!(
        again(Some(1_234)).contains("1,234 transactions were done again"),
        "{}",
        again(Some(1_234))
    );
    assert!(!again(None).contains("done again") && !again(Some(0)).contains("done again"));
}

/// The row of memcached claimed 0 removals, below a chart of requests during removals.
#[test]
fn a_store_that_tells_nobody_what_it_removes_is_not_said_to_remove() {
    let page = page(&small());
    let gc = section(&page, "gc");
    let line = |phase: &str| {
        let mut lines = gc.split("<tr>").filter(|line| line.contains(">memcached<"));
        lines.find(|line| line.contains(phase)).map(str::to_owned)
    };
    assert!(line("begin-after-expiry").is_some_and(|line| line.contains("not known")), "{gc}");
    assert_eq!(line("begin-while-sweeping"), None);
    assert!(gc.contains("begin-while-sweeping"), "others remove");
}

/// Four workers opened a store after a kill and one recovered it; the bar was the median of the
/// four.
#[test]
fn the_time_after_all_were_killed_says_whose_it_is() {
    assert!(section(&page(&small()), "faults").contains("Each kill gives one time"));
}

/// "One" for 2,200 sessions looked like an all-clear for the published half a million.
#[test]
fn few_sessions_give_no_all_clear_for_garbage_collection() {
    let verdict = |sessions: usize, modes: u32| {
        let page = with("gc", |row| {
            row.subject.store = "swept".into();
            row.question.sessions = sessions;
            row.outcome.misses = 1; // is shown whatever its size
            row.figures.modes = Some(Modes { modes, ..Modes::default() });
        });
        let line = section(&page, "gc")
            .rsplit("<tr>")
            .find(|line| line.contains(">swept<"))
            .unwrap()
            .to_owned();
        [line.contains("too few sessions to tell"), line.contains(">one<"), line.contains("two: ")]
    };
    assert_eq!(verdict(2_200, 1), [true, false, false]);
    assert_eq!(verdict(55_000, 1), [false, true, false]);
    assert_eq!(verdict(2_200, 2), [false, false, true]);
}

#[test]
fn what_a_result_says_is_text_and_never_markup() {
    let evil = "<script>alert(1)</script>\"'<b onclick=x>&";
    let page = with("cycle", |row| {
        row.subject.store = evil.into();
        row.subject.variant = evil.into();
        row.question.op = "cycle".into();
        row.outcome.failed = Some(evil.into());
    });
    assert!(page.contains("&lt;script&gt;"));
    assert!(!page.contains("<script") && !page.contains("<b onclick"), "markup from a result");
    let mut results = small();
    results.runs[0].command = evil.into();
    results.runs[0].warnings.push(evil.into());
    results.runs[0].environment.cpu = evil.into();
    assert!(!self::page(&results).contains("<script"));
}

#[test]
fn a_server_behind_tcp_is_told_from_one_behind_a_unix_socket() {
    for experiment in ["cycle", "ops", "contention", "gc", "oversize", "faults", "scale"] {
        let page = with(experiment, |row| {
            (row.subject.kind, row.subject.url, row.subject.store) =
                ("socket".into(), "redis://<host>".into(), "far".into());
        });
        assert!(section(&page, experiment).contains("far (tcp)"), "{experiment}");
    }
    assert!(!page(&small()).contains("(tcp)"));
}

#[test]
fn an_experiment_that_was_not_run_says_so_and_why() {
    let mut results = small();
    results.runs.retain(|run| run.results.iter().all(|row| row.question.experiment != "gc"));
    let left_out = r#"{"experiment":"gc","reason":"there was no time for it"}"#;
    let text = format!(r#"{{"schema":1,"runs":[],"left_out":[{left_out}]}}"#);
    results.left_out = Collection::from_json(&text).unwrap().left_out;
    let page = page(&results);
    assert!(
        section(&page, "gc").contains("Not run: there was no time for it"),
        "{}",
        section(&page, "gc")
    );
}

#[test]
fn a_cache_that_is_built_on_each_view_stands_beside_one_that_is_kept() {
    let mut results = small();
    let run = &mut results.runs[0];
    let refused = "cannot commit session #00c0ffee: the payload is too large";
    let (bin, name, entry) =
        ("route_large".to_owned(), "#0badcafe".to_owned(), Some("#00c0ffee".to_owned()));
    let largest = LargestEntry { bytes: 2_097_199, bin, name, entry };
    for (store, rebuilt) in [("forgets", 250), ("keeps", 1)] {
        let (log, largest) = if store == "keeps" {
            (None, Some(largest.clone()))
        } else {
            (Some(refused.to_owned()), None)
        };
        let rebuild = Rebuild {
            keeps: store == "keeps",
            views: 250,
            rebuilt,
            log,
            largest,
            ..Rebuild::default()
        };
        let (experiment, variant) = ("rebuild".into(), "default".into());
        run.results.push(Row {
            question: Question { experiment, ..Question::default() },
            subject: Subject { variant, store: store.into(), ..Subject::default() },
            rebuild: Some(rebuild),
            ..Row::default()
        });
    }
    let page = page(&results);
    let rebuild = section(&page, "rebuild");
    assert!(
        rebuild.contains("250 of 250")
            && rebuild.contains("1 of 250")
            && rebuild.contains("forgets"),
        "{rebuild}"
    );
    assert!(!rebuild.contains("has another entry"), "{rebuild}");
    // Both log lines are about the same entry.
    assert!(
        rebuild.contains(refused) && rebuild.contains("2,097,199 bytes  route_large  #0badcafe"),
        "{rebuild}"
    );
    assert!(rebuild.contains("the payload of session #00c0ffee"), "{rebuild}");
}

/// It was compared with others as if it had kept what they could not.
#[test]
fn a_row_with_another_entry_says_so_and_how_much_of_it_was_left() {
    let mut results = small();
    let rebuild =
        Rebuild { keeps: true, views: 4, stored_bytes: Some(307_200), ..Rebuild::default() };
    let (experiment, store, variant) =
        ("rebuild".into(), "php-memcached".into(), "compressed".into());
    results.runs[0].results.push(Row {
        question: Question { experiment, ..Question::default() },
        subject: Subject { store, variant, ..Subject::default() },
        rebuild: Some(rebuild),
        ..Row::default()
    });
    let page = page(&results);
    let rebuild = section(&page, "rebuild");
    assert!(
        rebuild.contains("php-memcached#compressed has another entry") && rebuild.contains("30"),
        "{rebuild}"
    );
}

#[test]
fn without_results_there_is_a_page_that_says_so() {
    let page = page(&Collection::default());
    for id in [
        "cycle",
        "ops",
        "lifecycle",
        "languages",
        "gc",
        "scale",
        "contention",
        "oversize",
        "faults",
    ] {
        assert!(section(&page, id).contains("Not run"), "{id}");
    }
    // The features need no measurement.
    assert!(
        section(&page, "verdict").contains("Shopware")
            && section(&page, "features").contains("<table")
    );
}

/// The records that visitors left with a handler, or its failure before.
fn of_visitors(store: &str, variant: &str, url: &str, left: Option<Visitors>) -> Row {
    Row {
        question: Question {
            experiment: "lifecycle".into(),
            op: "visitors".into(),
            ..Question::default()
        },
        subject: Subject {
            store: store.into(),
            variant: variant.into(),
            url: url.into(),
            kind: if url.contains("socket") { "socket" } else { "embedded" }.into(),
        },
        figures: Figures { rounds: left.map_or(0, |_| 3), ..Figures::default() },
        outcome: Outcome {
            failed: left.is_none().then(|| "the page does not answer".to_owned()),
            ..Outcome::default()
        },
        web: left.map(|left| WebFigures { visitors: Some(left), ..WebFigures::default() }),
        ..Row::default()
    }
}

/// The cells of a line, without tags.
fn cells(line: &str) -> Vec<String> {
    let text = |cell: &str| {
        cell.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text).collect()
    };
    let is_cell = |cell: &&str| ["d>", "d ", "h>", "h "].iter().any(|it| cell.starts_with(it));
    line.split("<t").filter(is_cell).map(|cell: &str| text(cell)).collect()
}

#[test]
fn each_handler_stands_with_its_place_and_its_lock_and_what_is_unknown_is_no_nought() {
    let server = Some(ServerWork { changes: 300, received_bytes: 10_240, grown_bytes: -2_048 });
    let left = Visitors {
        visitors: 1_500,
        storing: 150,
        records: Some(1_500),
        cookies: 1_500,
        grown_bytes: Some(-2_048),
        server,
        ..Visitors::default()
    };
    let mut results = small();
    let run = results
        .runs
        .iter_mut()
        .find(|run| run.results.iter().any(|row| row.question.experiment == "lifecycle"))
        .unwrap();
    run.results.push(of_visitors("phpredis", "lock", "unix://<socket>?persistent=1", Some(left)));
    run.results.push(of_visitors("php-files", "shm", "<shm>/files", None));
    let mut eager = of_visitors("sessile", "default", "sessile:<shm>/s", None);
    eager.question.op = "visitors-eager".into();
    run.results.push(eager);
    let page = page(&results);
    let table = section(&page, "lifecycle")
        .split("<table")
        .find(|table| table.split("</caption>").next().unwrap().contains("Visitors without"))
        .unwrap();
    let caption = table.split_once("</caption>").unwrap().0;
    assert!(
        caption.contains("an inode and no block") && caption.contains("larger pieces"),
        "{caption}"
    );
    let line = |title: &str| {
        let found = table.split("<tr>").find(|line| line.contains(&format!(">{title}<"))).unwrap();
        cells(found).join("|")
    };
    assert!(
        line("phpredis#lock").starts_with(
            "phpredis#lock|server|yes|no such rule|1,500|150|1,500|1,500|-2.00|300|10.0|nothing"
        ),
        "{}",
        line("phpredis#lock")
    );
    assert!(
        line("php-files#shm").starts_with("php-files#shm|memory|yes|no such rule|failed|||||||"),
        "{}",
        line("php-files#shm")
    );
    assert!(
        line("php-files#shm").contains("the page does not answer"),
        "{}",
        line("php-files#shm")
    );
    assert!(
        line("sessile").starts_with("sessile|memory|yes|off|failed|||||||"),
        "{}",
        line("sessile")
    );
}
