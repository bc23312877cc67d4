//! What visitors for whom nothing is remembered cost, and what lazy start keeps away.

use crate::rows::recommend;
use sessile_advice::Site;
use sessile_results::{Question, Report, Subject};
use sessile_results::{Row, Visitors, WebFigures};

use crate::rows::{all_installed, best, results, usual};

/// What so many visitors left, of whom a tenth stored something.
fn visitors(variant: &str, op: &str, visitors: u64, records: u64) -> Row {
    let lazy_start = Some(op == "visitors");
    let left = Visitors {
        visitors,
        storing: visitors / 10,
        lazy_start,
        records: Some(records),
        ..Visitors::default()
    };
    Row {
        question: Question {
            experiment: "lifecycle".to_owned(),
            op: op.to_owned(),
            durability: "none".to_owned(),
            ..Question::default()
        },
        subject: Subject {
            store: "sessile".to_owned(),
            variant: variant.to_owned(),
            ..Subject::default()
        },
        web: Some(WebFigures { visitors: Some(left), ..WebFigures::default() }),
        ..Row::default()
    }
}

fn note(anonymous_percent: f64, rows: Vec<Row>) -> Option<String> {
    let site = Site { anonymous_percent, ..all_installed() };
    let lifecycle = Report { results: rows, ..results(vec![]) };
    let recommendation = recommend(&site, &[results(usual()), lifecycle]);
    assert_eq!(best(&recommendation), "sessile#disk", "{recommendation}");
    recommendation.notes.into_iter().find(|note| note.starts_with("start a session only"))
}

#[test]
fn sessions_and_space_that_remain_without_anonymous_visitors_are_told_of_what_is_recommended() {
    // 10,000 sessions of 2,000 bytes, as they were measured.
    let said = note(90.0, vec![]).unwrap();
    assert!(
        said.contains(
            "1000 of 10000 sessions remain, in sessile#disk 1.9 MiB in place of 19.1 MiB"
        ),
        "{said}"
    );
    assert!(!said.contains("measured"), "{said}");
    assert_eq!(note(0.0, vec![visitors("default", "visitors", 300, 30)]), None);
}

#[test]
fn what_lazy_start_kept_away_is_told_as_it_was_counted_with_it_and_without_it() {
    let pair = |variant: &str, count: u64| {
        [
            visitors(variant, "visitors", count, count / 10),
            visitors(variant, "visitors-eager", count, count),
        ]
    };
    let [with, without] = pair("default", 300);
    let words = "of 300 visitors, of whom 30 stored something, sessile kept 30 records with lazy \
                 start and 300 without";
    let said = note(90.0, [pair("redis", 200), pair("default", 300)].concat()).unwrap();
    assert!(said.contains(words), "the largest measurement: {said}");
    let alone = note(90.0, vec![with.clone()]).unwrap();
    assert!(!alone.contains("measured"), "nothing to compare with: {alone}");
    let failed = without.clone().into_failed("no page".to_owned());
    assert!(!note(90.0, vec![with.clone(), failed]).unwrap().contains("measured"));
    let other =
        Row { subject: Subject { variant: "redis".to_owned(), ..without.subject }, ..without };
    assert!(!note(90.0, vec![with, other]).unwrap().contains("measured"), "another handler");
}
