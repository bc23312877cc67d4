//! The cost of expired sessions in a steady stream of requests.

use maud::{Markup, html};
use sessile_bench::report::{Row, TailComparison};

use super::{conditions, not_run, went_wrong};
use crate::DrawError;
use crate::chart::{Bar, BarLength, BarRow, Bars, ChartText};
use crate::ids::ElementIds;
use crate::number::{count, figure};
use crate::runs::{ExperimentRows, PageReports, marked};
use crate::table::{HtmlTable, TableCell, right, text};

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Result<Markup, DrawError> {
    let measured = runs.by_tier("expiry", |_| true);
    Ok(html! {
        p {
            "A tenth of a steady stream of requests meets a session that has expired, and nobody "
            "sweeps. Two streams in whose place "
            "there never were sessions stand beside it. A store whose slow end is no slower than "
            "theirs forgets sessions for free."
        }
        @if measured.is_empty() { (not_run(runs, "expiry")) }
        @for run in &measured { (conditions(run)) (chart(run, ids)?) (table(run).draw(ids)) }
    })
}

fn chart(run: &ExperimentRows<'_>, ids: &ElementIds) -> Result<Markup, DrawError> {
    let bars = |end: TailComparison| {
        let named = [
            ("expired", end.expired),
            ("baseline a", end.baseline_a),
            ("baseline b", end.baseline_b),
        ];
        let bar = |(series, (name, us)): (usize, (&str, f64))| Bar {
            series: series as u8,
            name: name.to_owned(),
            length: BarLength::Value { median: us, low: us, high: us, fault: None },
        };
        named.into_iter().enumerate().map(bar).collect()
    };
    let failed = |row: &Row| {
        let length = BarLength::Failed("failed (see the warnings)".to_owned());
        BarRow {
            name: marked(&row.shown_title()),
            bars: vec![Bar { series: 0, name: row.op.clone(), length }],
        }
    };
    let row = |row: &&Row| match row.failed {
        Some(_) => Some(failed(row)),
        None => {
            Some(BarRow { name: marked(&row.shown_title()), bars: bars(row.expiry?.from_call) })
        }
    };
    let chart = Bars {
        words: ChartText {
            title: format!("The slow end of the calls: 99.9th percentile{}", run.tier_suffix),
            description:
                "Three bars for each contender: the stream that met expired sessions, and \
                          two that did not; values in the table below."
                    .to_owned(),
        },
        unit: "microseconds".to_owned(),
        series: "stream".to_owned(),
        rows: run.rows.iter().filter_map(row).collect(),
    };
    Ok(html! {
        @if !chart.rows.is_empty() {
            figure { (chart.draw(ids)?) figcaption { "Further to the left is better." } }
        }
    })
}

fn table(run: &ExperimentRows<'_>) -> HtmlTable {
    let columns = [
        "store",
        "met",
        "p99.9 from",
        "expired",
        "baseline a",
        "baseline b",
        "ratio",
        "verdict",
        "went wrong",
    ];
    let caption = format!(
        "The slow end in microseconds, with expired sessions and without{}",
        run.tier_suffix
    );
    let mut table = HtmlTable::new(caption, &columns);
    for row in &run.rows {
        if row.failed.is_some() {
            table.row(vec![
                text(row.shown_title()),
                TableCell::Empty,
                TableCell::Empty,
                TableCell::Bad("failed".to_owned()),
                TableCell::Empty,
                TableCell::Empty,
                TableCell::Empty,
                TableCell::Empty,
                went_wrong(row),
            ]);
            continue;
        }
        let Some(verdict) = row.expiry else { continue };
        for (from, end) in [("the call", verdict.from_call), ("when it was due", verdict.from_due)]
        {
            let mut cells =
                vec![text(row.shown_title()), right(count(verdict.met as f64)), text(from)];
            cells.extend([end.expired, end.baseline_a, end.baseline_b].map(|us| right(figure(us))));
            cells.push(right(format!("{:.2}", end.ratio)));
            cells.push(if end.same {
                text("no difference to be seen")
            } else {
                TableCell::Bad("slower".to_owned())
            });
            cells.push(went_wrong(row));
            table.row(cells);
        }
    }
    table
}
