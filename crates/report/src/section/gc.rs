//! The effect of garbage collection on requests: a pair of histograms for each contender.

use maud::{Markup, html};
use sessile_results::number::{count, time};
use sessile_results::table::of_each;
use sessile_results::tables::gc;
use sessile_results::{Buckets, Modes, Row};

use super::{conditions, each};
use crate::chart::{ChartText, HistogramPanel, StackedHistograms};
use crate::ids::ElementIds;
use crate::runs::{ExperimentRows, PageReports};
use crate::table::draw;

/// The stacked phases of the chart, with their names; the table has all.
const PICTURE: &[(&str, &str)] = &[
    ("start-gc-0", "no start collects garbage"),
    ("start-gc-0.1", "one start in ten collects garbage"),
];
const HEADING: &str = "Starts, some of which collect garbage";

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    html! {
        p {
            "PHP's garbage collection makes one request in so many remove what has expired. A "
            "second hump to the right is the visitors who wait "
            "for it; where what has expired goes by itself, the handlers do nothing then, and "
            "neither do these starts. Where a server removes by itself and "
            "nothing tells that it did, its requests stand as those after sessions have expired. "
            "All histograms of a group have the same bounds; heights are logarithmic, so that one "
            "call in ten thousand is visible."
        }
        p {
            "One mode says something only with many sessions: a sweep takes as long as there is to "
            "remove. The published case had 550,000; with fewer than "
            (count(Modes::SESSIONS_MIN as f64)) " a sweep can be too short to stand out, and then "
            "the table says that there are too few to tell."
        }
        (each(runs, "gc", |run| {
            let table = gc::table(&with_most_sessions(run));
            html! { (conditions(run)) (pictures(run, ids)) (draw(table, ids)) }
        }))
    }
}

/// A picture of one contender whose sweeps are a mode of their own, and of one whose are not, with
/// the most sessions.
fn pictures(run: &ExperimentRows<'_>, ids: &ElementIds) -> Markup {
    // `null` is no contender.
    let rows = run.only(|row| {
        let is_drawn =
            PICTURE.iter().any(|(op, _)| row.question.op == *op) && row.figures.histogram.is_some();
        is_drawn && row.subject.store != "null"
    });
    let Some(shown) = shown(&rows) else { return html! {} };
    let is_of_two = |own: &Vec<&Row>| {
        own.iter().filter_map(|row| row.figures.modes).any(|modes| modes.modes > 1)
    };
    let (two, one): (Vec<_>, Vec<_>) = of_each(&rows).into_iter().partition(is_of_two);
    let is_preferred = |own: &Vec<&Row>| own.iter().any(|row| row.subject.title() == "sessile");
    let preferred = one.iter().position(is_preferred).unwrap_or(0);
    let figures = two.into_iter().take(1).chain(one.into_iter().nth(preferred)).map(|mut own| {
        let most = own.iter().map(|row| row.question.sessions).max().unwrap_or(0);
        own.retain(|row| row.question.sessions == most);
        let many = format!("{} sessions{}", count(most as f64), run.tier_suffix);
        picture(&many, &own, shown, ids)
    });
    html! {
        h3 { (HEADING) (run.tier_suffix) } div.multiples { @for figure in figures { (figure) } }
    }
}

fn picture(many: &str, rows: &[&Row], shown: (usize, usize), ids: &ElementIds) -> Markup {
    let title = rows.first().map(|row| row.subject.shown_title()).unwrap_or_default();
    let found = PICTURE.iter().filter_map(|(op, name)| {
        Some((*name, rows.iter().find(|row| row.question.op == *op)?.figures.histogram.as_ref()?))
    });
    let found: Vec<(&str, &Buckets)> = found.collect();
    let name = format!("{title}, {many}");
    let slowest = |buckets: &Buckets| {
        let last = buckets.counts.iter().rposition(|count| *count > 0).unwrap_or(0);
        buckets.bounds_us.get(last).map_or("beyond all bounds".to_owned(), |bound| {
            format!("below {}", time(*bound as f64))
        })
    };
    let said: Vec<String> = found
        .iter()
        .map(|(name, buckets)| format!("{name}: the slowest call {}", slowest(buckets)))
        .collect();
    let steps = StackedHistograms {
        words: ChartText {
            title: format!("{HEADING}: {name}"),
            description: format!("{}.", said.join("; ")),
        },
        bounds_us: found.first().map(|(_, buckets)| buckets.bounds_us.clone()).unwrap_or_default(),
        shown,
        panels: found
            .iter()
            .map(|(name, buckets)| HistogramPanel {
                name: (*name).to_owned(),
                counts: buckets.counts.clone(),
            })
            .collect(),
    };
    html! {
        figure {
            figcaption { strong { (title) } ", " (many) } (steps.draw(ids))
        }
    }
}

fn shown(rows: &[&Row]) -> Option<(usize, usize)> {
    let counts = || rows.iter().filter_map(|row| Some(&row.figures.histogram.as_ref()?.counts));
    let first = counts().filter_map(|counts| counts.iter().position(|count| *count > 0)).min()?;
    let last = counts().filter_map(|counts| counts.iter().rposition(|count| *count > 0)).max()?;
    Some((first, last))
}

/// Fewer sessions are in the JSON only, unless something went wrong.
fn with_most_sessions<'a>(run: &ExperimentRows<'a>) -> Vec<&'a Row> {
    let most = run.rows.iter().map(|row| row.question.sessions).max().unwrap_or(0);
    run.only(|row| row.question.sessions == most || row.is_bad())
}
