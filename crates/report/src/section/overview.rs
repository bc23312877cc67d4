//! The first screen: one sentence on which store to use, and one chart of all stores.
//!
//! The chart is of the weakest tier measured that keeps sessions over a restart, or of `none` if no
//! other was measured.

use maud::{Markup, html};
use sessile_bench::report::Row;
use sessile_core::Durability;

use super::throughput::length;
use super::verdict;
use crate::DrawError;
use crate::chart::{Bar, BarRow, Bars, ChartText};
use crate::ids::ElementIds;
use crate::number::{time, with_noun};
use crate::runs::{ExperimentRows, PageReports, marked};

/// Empty if no cycle without a fixed rate was measured.
pub(crate) fn overview(runs: &PageReports<'_>, ids: &ElementIds) -> Result<Markup, DrawError> {
    let tiers = verdict::tiers(runs);
    let tier = tiers.iter().find(|tier| **tier != Durability::None).or(tiers.first());
    let measured = tier.and_then(|tier| Some((*tier, closed(runs, *tier)?)));
    let Some((tier, run)) = measured else { return Ok(html! {}) };
    Ok(html! { p.lead { (verdict::sentence(runs)) } (chart(&run, tier, ids)?) })
}

/// The first measurement of the cycle without a fixed rate, in a tier.
fn closed<'a>(runs: &PageReports<'a>, tier: Durability) -> Option<ExperimentRows<'a>> {
    let closed = runs.of_experiment("cycle").into_iter();
    let mut closed = closed.filter(|run| run.report.settings.rate.is_none());
    let mut run = closed.find(|run| run.rows.iter().any(|row| row.durability == tier.name()))?;
    run.rows.retain(|row| row.durability == tier.name() && row.op == "cycle");
    Some(run)
}

fn chart(
    run: &ExperimentRows<'_>,
    tier: Durability,
    ids: &ElementIds,
) -> Result<Markup, DrawError> {
    let most = run.rows.iter().map(|row| row.workers).max().unwrap_or(0);
    let mut rows: Vec<&Row> = run.rows.iter().copied().filter(|row| row.workers == most).collect();
    rows.retain(|row| !marked(&row.shown_title()).ends_with('*'));
    rows.sort_by(|a, b| b.ops_per_second.median.total_cmp(&a.ops_per_second.median));
    let slowest = |row: &Row| match &row.failed {
        Some(_) => String::new(),
        None => time(row.latency_us.p999),
    };
    let bars = rows.iter().map(|row| BarRow {
        name: row.shown_title(),
        bars: vec![Bar { series: 0, name: slowest(row), length: length(row) }],
    });
    let figure = |row: &&Row| match &row.failed {
        Some(_) => format!("{} failed", row.shown_title()),
        None => format!("{} {:.0}", row.shown_title(), row.ops_per_second.median),
    };
    let said: Vec<String> = rows.iter().map(figure).collect();
    let chart = Bars {
        words: ChartText {
            title: format!("Locked requests a second of each store, tier {}", tier.name()),
            description: format!("A bar for each store, the fastest first: {}.", said.join("; ")),
        },
        unit: "locked requests a second".to_owned(),
        series: "p99.9".to_owned(),
        rows: bars.collect(),
    };
    Ok(html! {
        @if !rows.is_empty() {
            figure {
                (chart.draw(ids)?)
                figcaption {
                    "Each request takes the lock, reads, changes and saves a session; "
                    (with_noun(most, "worker")) " at a time; what survives a power cut: "
                    (verdict::in_words(tier)) ". "
                    "One request in a thousand takes longer than p99.9. "
                    "Stores behind a socket do more than those inside the process."
                }
            }
        }
    })
}
