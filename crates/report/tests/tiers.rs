//! The page of results with different durability tiers: each figure has its tier, and none is
//! merged with or dropped for another tier.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "no row is changed here")]
mod drawn;

use drawn::{page, section, small};
use sessile_results::{Collection, Report};

/// Sections whose headings and captions do not name a single tier.
const SECTIONS: [&str; 8] =
    ["paced", "contention", "scale", "gc", "oversize", "languages", "faults", "lifecycle"];

/// The report as if of `--durability commit`.
fn in_commit(report: &Report) -> Report {
    let mut report = report.clone();
    report.results.iter_mut().for_each(|row| row.question.durability = "commit".into());
    report
}

/// The results, and a copy of another tier.
fn both() -> Collection {
    let mut results = small();
    let others: Vec<Report> = results.runs.iter().map(in_commit).collect();
    results.runs.extend(others);
    results
}

/// One result with the rows of both tiers.
fn both_in_one() -> Collection {
    let mut results = small();
    for run in &mut results.runs {
        let others = in_commit(run).results;
        run.results.extend(others);
    }
    results
}

/// The text between two tags, without inner tags. The title of a part is no heading in it.
fn inside(section: &str, tag: &str) -> Vec<String> {
    let (begin, end) = (format!("<{tag}"), format!("</{tag}>"));
    let own = |part: &&str| !part.starts_with(" class=\"part\"");
    let parts = section
        .split(&begin)
        .skip(1)
        .filter(own)
        .filter_map(|part| part.split(&end).next()?.split_once('>'));
    let plain = |(_, inside): (&str, &str)| {
        inside
            .split('<')
            .map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text))
            .collect::<String>()
    };
    parts.map(plain).collect()
}

/// Two parts of a section had equal headings, charts and captions.
#[test]
fn every_heading_chart_and_caption_of_two_tiers_says_which_it_is_of() {
    for results in [both(), both_in_one()] {
        let page = page(&results);
        for id in SECTIONS {
            let section = section(&page, id);
            for tag in ["caption", "title", "h3"] {
                let said = inside(section, tag);
                let of = |tier: &str| said.iter().filter(|words| words.contains(tier)).count();
                let (none, commit) = (of(", tier none"), of(", tier commit"));
                assert!(none == commit && none + commit == said.len(), "{id}, {tag}: {said:?}");
            }
        }
    }
}

/// It names the tier once, and its headings stay short.
#[test]
fn a_result_of_one_tier_says_it_beside_the_conditions_or_in_a_caption() {
    let page = page(&small());
    for id in SECTIONS {
        let section = section(&page, id);
        let headings = inside(section, "h3");
        assert!(headings.iter().all(|words| !words.contains("tier none")), "{id}: {headings:?}");
        assert!(section.contains("tier none") || section.contains(">tier<t"), "{id}: {section}");
        assert!(!section.contains("tier commit"), "{id}");
    }
}

/// One curve joined a store without durability at one rate with commits to disk at another.
#[test]
fn a_curve_by_the_rate_has_points_of_one_tier_only() {
    let of_rate = |rate: f64| {
        let all = small().runs.into_iter();
        let meant = |run: &Report| {
            run.settings.rate == Some(rate) && run.results[0].question.experiment == "cycle"
        };
        all.filter(meant).collect::<Vec<Report>>().remove(0)
    };
    let (slow, fast) = (of_rate(500.0), of_rate(2_000.0));
    let page_of = |runs: Vec<Report>| page(&Collection { runs, ..Collection::default() });
    let by_rate = |page: &str| {
        let headings = inside(section(page, "paced"), "h3").into_iter();
        headings.filter(|words| words.contains("by the rate of requests")).collect::<Vec<String>>()
    };
    let alone = by_rate(&page_of(vec![slow.clone(), fast.clone()]));
    assert!(
        alone.len() == 2 && alone.iter().all(|words| words.ends_with("by the rate of requests")),
        "{alone:?}"
    );
    // A single point makes no curve, but the tables have it.
    let mixed = page_of(vec![slow.clone(), in_commit(&fast)]);
    assert_eq!(by_rate(&mixed), Vec::<String>::new());
    let paced = section(&mixed, "paced");
    assert!(paced.contains("500 requests a second of each worker, tier none"), "{paced}");
    assert!(paced.contains("2,000 requests a second of each worker, tier commit"), "{paced}");
    // Each tier has its own curves, with as many points as alone.
    let others = [in_commit(&slow), in_commit(&fast)];
    let four = page_of(vec![slow.clone(), others[0].clone(), fast.clone(), others[1].clone()]);
    let headings = by_rate(&four);
    assert_eq!(
        headings.iter().filter(|words| words.ends_with(", tier none")).count(),
        2,
        "{headings:?}"
    );
    assert_eq!(
        headings.iter().filter(|words| words.ends_with(", tier commit")).count(),
        2,
        "{headings:?}"
    );
}

/// The space of the second result was dropped, because a store of that name had a row.
#[test]
fn processor_time_and_space_have_a_row_for_each_tier() {
    let page = page(&both());
    let lines = section(&page, "resources").split("<tr>").filter(|it| it.contains(">sqlite<"));
    let lines: Vec<&str> = lines.collect();
    assert!(
        lines.len() == 2 && lines[0].contains(">none<") && lines[1].contains(">commit<"),
        "{lines:?}"
    );
}

/// Rows of both tiers had one name, and were looked up in one table.
#[test]
fn what_was_published_is_compared_within_a_tier() {
    let page = page(&both());
    let ops = section(&page, "ops");
    let captions = inside(ops, "caption");
    let tables = captions.iter().filter(|words| words.contains("corrected and as published, tier"));
    assert_eq!(tables.count(), 2, "{captions:?}");
    let lines =
        |ops: &str| ops.split_once("As it was published").unwrap().1.matches("<tr>").count();
    let alone = lines(section(&self::page(&small()), "ops"));
    assert_eq!(lines(ops), 2 * alone, "each row once");
}

/// Two failed rows of different tiers differed only by the reason.
#[test]
fn a_row_in_which_something_went_wrong_says_its_tier() {
    let mut results = both();
    for run in
        results.runs.iter_mut().filter(|run| run.results[0].question.experiment == "contention")
    {
        run.results[0].outcome.failed = Some("the server went away".into());
    }
    let page = page(&results);
    let warnings = section(&page, "warnings");
    let lines: Vec<&str> =
        warnings.split("<tr>").filter(|line| line.contains("the server went away")).collect();
    assert!(
        lines.len() == 2 && lines[0].contains(">none<") && lines[1].contains(">commit<"),
        "{lines:?}"
    );
}
