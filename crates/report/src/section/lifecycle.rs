//! Pages per second of a web server by the number of parallel requests, and the behaviour of a full
//! cache.
//!
//! Handlers in the process and over a socket have charts of their own, which include failures.

use maud::{Markup, html};
use sessile_results::number::count;
use sessile_results::php_handlers;
use sessile_results::tables::{lifecycle, visitors};
use sessile_results::{KINDS, Row};

use super::{CURVES, curves, each, speed, spoilt, wrong_ones};
use crate::chart::{Axis, ChartText, Curves};
use crate::ids::ElementIds;
use crate::runs::{ExperimentRows, PageReports, most_rounds, most_workers};
use crate::table::{draw, folded};

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    html! {
        p {
            "nginx and php-fpm give out a page that starts a session, stores 100 values, "
            "regenerates the id, destroys the session and starts another one that stays; or, "
            "where the handlers are called drupal, the front page of Drupal 7 for users who are "
            "logged in. Each line is a session handler of PHP; garbage collection is off for all. "
            "A handler without a lock lets two requests change one session at once, and one "
            "change is lost: compare those that lock with each other."
        }
        (each(runs, "lifecycle", |run| of_run(run, ids)))
    }
}

fn of_run(run: &ExperimentRows<'_>, ids: &ElementIds) -> Markup {
    let (pages, others): (Vec<&Row>, Vec<&Row>) =
        run.rows.iter().partition(|row| row.question.op.ends_with("page"));
    let processes =
        pages.iter().filter_map(|row| row.web).map(|web| web.processes).max().unwrap_or(0);
    let rounds = most_rounds(&pages);
    let requests = pages.iter().map(|row| row.question.sessions).max().unwrap_or(0);
    html! {
        p.conditions {
            (processes) " processes of PHP, " (rounds) " rounds of " (count(requests as f64))
            " requests in each combination" (run.tier_suffix) "." (spoilt(run.report))
        }
        (charts(run, &pages, ids))
        (draw(lifecycle::by_parallel(&pages), ids))
        (folded(lifecycle::costs(&with_most_requests(&pages)), ids))
        (folded(visitors::table(&others), ids))
        @for note in others.iter().filter_map(|row| lifecycle::overflow(row)) {
            p.callout { strong { (note.words()) } }
        }
    }
}

/// Handlers that lock; those without a lock are in the table only.
fn charts(run: &ExperimentRows<'_>, pages: &[&Row], ids: &ElementIds) -> Markup {
    let rows = |kind: &str| {
        let here =
            |row: &&&Row| row.subject.kind == kind && php_handlers::locks(&row.subject.title());
        pages.iter().filter(here).copied().collect::<Vec<&Row>>()
    };
    html! {
        @for (kind, place) in KINDS {
            @let rows = rows(kind);
            @if !rows.is_empty() {
                @let title = format!("{place}, with a lock{}", run.tier_suffix);
                h3 { (title) }
                figure {
                    (chart(run, &rows, &title).draw(ids)) figcaption { "Higher is better." }
                }
                (wrong_ones(&rows, &|row| format!("{} parallel requests", row.question.workers)))
            }
        }
    }
}

fn with_most_requests<'a>(pages: &[&'a Row]) -> Vec<&'a Row> {
    let most = most_workers(pages);
    pages.iter().copied().filter(|row| row.question.workers == most || row.is_bad()).collect()
}

fn chart(run: &ExperimentRows<'_>, rows: &[&Row], title: &str) -> Curves {
    let places: Vec<f64> = rows.iter().map(|row| row.question.workers as f64).collect();
    Curves {
        words: ChartText {
            title: format!("Requests a second by the number of parallel requests: {title}"),
            description: CURVES.to_owned(),
        },
        x: Axis::measured("parallel requests", &places),
        y: Axis::linear("requests a second", rows.iter().filter_map(|row| speed(row))),
        curves: curves(run, rows, &|row| row.question.workers as f64, &speed),
    }
}
