//! What the page may not claim: more than its rows tell.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod drawn;

use drawn::{page, section, small, with};
use sessile_results::{Row, WebFigures};

fn lead(page: &str) -> &str {
    page.split_once("<nav").unwrap().0
}

/// The page with each row changed.
fn all_rows(change: impl Fn(&mut Row)) -> String {
    let mut results = small();
    results.runs.iter_mut().flat_map(|run| &mut run.results).for_each(change);
    page(&results)
}

/// The lines of a table that begin with a title.
fn lines<'a>(section: &'a str, title: &str) -> Vec<&'a str> {
    let named = format!(">{title}<");
    section.split("<tr>").filter(|line| line.contains(&named)).collect()
}

/// The handlers that the verdict recommends were on no chart.
#[test]
fn what_the_verdict_recommends_is_in_the_first_chart() {
    let page = page(&small());
    assert!(lead(&page).contains("<strong>phpredis#lock</strong>"), "{}", lead(&page));
    assert!(lead(&page).contains(">phpredis#lock (redis-four-trips)</text>"), "{}", lead(&page));
    assert!(!lead(&page).contains(">limit"), "a yardstick that stands for no handler");
}

/// Servers of the measuring machine were somebody's to look after, and rates those of pages.
#[test]
fn the_verdict_says_what_its_figures_and_servers_are_of() {
    let page = page(&small());
    let verdict = section(&page, "verdict");
    for words in [
        "requests/s of the store alone",
        "The p99 is that of a fixed rate",
        "if it is on the measuring machine",
        "<code>apcu</code> is not ranked by speed",
        ">tier<",
        ">then<",
    ] {
        assert!(verdict.contains(words), "{words}: {verdict}");
    }
}

#[test]
fn one_round_ranks_nothing() {
    let first = "the fastest store first";
    assert!(lead(&page(&small())).contains(first));
    let once = all_rows(|row| row.figures.rounds = 1);
    assert!(!lead(&once).contains(first) && !section(&once, "ops").contains("the fastest"));
}

/// The longest of a few calls stood as their p99.9.
#[test]
fn a_percentile_of_too_few_samples_is_left_out_in_each_table() {
    let told = |operations: u64| {
        let page = all_rows(|row| {
            (row.figures.operations, row.figures.rounds) = (operations, 1);
            row.figures.latency_us.p99 = 765_432.0;
            row.figures.latency_us.p999 = 765_432.0;
            if let Some(waits) = &mut row.figures.waits {
                (waits.taken, waits.taken_p99) = (operations, 765_432.0);
            }
        });
        // Pages are in milliseconds; in `gc` calls that do nothing are as slow here.
        ["cycle", "ops", "paced", "contention", "languages", "lifecycle", "gc"].map(|id| {
            let section = section(&page, id);
            [">765,432<", ">765<", ">765,432, as null<"].iter().any(|cell| section.contains(cell))
        })
    };
    assert_eq!(told(999), [false; 7]);
    assert_eq!(told(10_000), [true; 7]);
}

/// A page of 150 requests had taken some ticks of 10 ms, shown with three digits.
#[test]
fn processor_time_of_fewer_than_twenty_ticks_is_too_short() {
    let shown = |us: f64| {
        let page = with("lifecycle", |row| {
            row.question.op = "page".into();
            (row.subject.store, row.figures.operations, row.figures.rounds) =
                ("timed".into(), 100, 1);
            row.web = Some(WebFigures { cpu_us_per_op: us, ..WebFigures::default() });
        });
        lines(section(&page, "lifecycle"), "timed").iter().any(|line| line.contains("too short"))
    };
    assert_eq!([shown(1_999.0), shown(2_001.0)], [true, false]);
}

/// A cache of MariaDB was 0.3 times the payload.
#[test]
fn the_memory_of_a_server_with_a_disk_is_no_multiple_of_the_payload() {
    let page = all_rows(|row| {
        (row.figures.bytes_per_session, row.question.payload_bytes) = (3_000, 1_000)
    });
    let resources = section(&page, "resources");
    let multiple = |title: &str| lines(resources, title)[0].contains(">3.00");
    assert_eq!(["mysql", "sqlite", "redis"].map(multiple), [false, true, true]);
}
