//! All warnings about the figures of a report, with their thresholds.

use crate::grouping::grouped;
use crate::number::figure;
use crate::php_handlers as php;
use crate::{LatencyUs, Report, Row};

/// Range over median above which rounds are noisy.
const NOISY: f64 = 0.25;
/// Part of a cycle.
const HARNESS_PART: f64 = 0.1;
/// Part of the processors' time.
const STOLEN: f64 = 0.002;
/// The warning of the published form.
const AS_PUBLISHED: &str = "as published: a payload is drawn in the timed part, a database is \
                            connected to anew for each operation, and what is created lives for a \
                            minute; the corrected figures are those without --as-published";
/// Part of the rate.
const KEPT_UP: f64 = 0.95;

pub fn warnings_for(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    if report.interrupted {
        warnings.push(
            "interrupted: what was not measured and verified to the end is missing".to_owned(),
        );
    }
    if report.environment.build != "release" {
        warnings.push("debug build: the figures mean nothing".to_owned());
    }
    let opcache = report.environment.versions.get(php::OPCACHE);
    if opcache.is_some_and(|opcache| opcache == php::OPCACHE_MISSING) {
        let why = "PHP has no opcache here: it compiles each page again at every request, so all \
                   handlers look closer to each other than on a site";
        warnings.push(why.to_owned());
    }
    if report.settings.as_published {
        warnings.push(AS_PUBLISHED.to_owned());
    }
    let rows = || report.results.iter().filter(|row| row.outcome.failed.is_none());
    warnings.extend(noisy(rows()));
    warnings.extend(report.settings.rate.and_then(|rate| fell_behind(report, rate)));
    // In `scale` the first size stands for all.
    let is_first = |null: &&Row| {
        rows()
            .find(|row| row.subject.store == "null" && row.question.op == null.question.op)
            .is_some_and(|it| std::ptr::eq(it, *null))
    };
    for null in rows().filter(|row| {
        row.subject.store == "null" && (row.question.experiment != "scale" || is_first(row))
    }) {
        warnings.push(if report.settings.rate.is_some() {
            machine(null)
        } else {
            harness(report, null)
        });
    }
    if let Some(stolen) = report.settings.stolen.filter(|stolen| *stolen > STOLEN) {
        let percent = stolen * 100.0;
        warnings.push(format!(
            "the hypervisor gave {percent:.1} % of the processors' time to others: p99 and p99.9 \
             are partly the machine's"
        ));
    }
    let workers = rows().map(|row| row.question.workers).max().unwrap_or(0);
    let cores = report.environment.cores;
    if workers > cores {
        warnings.push(format!(
            "{workers} workers and the servers share {cores} cores: at that number of workers the \
             processor is measured too"
        ));
    }
    warnings
}

/// Of several sizes the worst.
fn noisy<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<String> {
    let noisy =
        rows.filter(|row| row.figures.rounds > 1 && row.figures.ops_per_second.relative() > NOISY);
    let parts = grouped(noisy.map(|row| (place(row), row.figures.ops_per_second.relative())));
    let named = parts.iter().map(|(name, parts)| {
        format!("{name} {:.0} %", parts.iter().copied().fold(0.0, f64::max) * 100.0)
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty())
        .then(|| format!("rounds differ by more than {:.0} %: {}", NOISY * 100.0, named.join(", ")))
}

fn place(row: &Row) -> String {
    format!("{} {}@{}", row.subject.title(), row.question.op, row.question.workers)
}

fn harness(report: &Report, null: &Row) -> String {
    let rows = report.results.iter().filter(|row| row.outcome.failed.is_none());
    let near: Vec<String> = rows
        .filter(|row| row.subject.store != "null" && row.question.is_alike(&null.question))
        .filter(|row| null.figures.latency_us.p50 > HARNESS_PART * row.figures.latency_us.p50)
        .map(|row| row.subject.title())
        .collect();
    let ns = 1e9 / null.figures.ops_per_second.median.max(1.0);
    let mut text = format!("the harness itself costs {ns:.0} ns a {}", null.question.op);
    if !near.is_empty() {
        text.push_str(&format!(", which is a relevant part of: {}", near.join(", ")));
    }
    text
}

fn machine(null: &Row) -> String {
    let LatencyUs { p99, p999, .. } = null.figures.latency_us;
    format!(
        "a request that does nothing has p99 {} and p99.9 {} us here: no store can be judged below \
         that",
        figure(p99),
        figure(p999)
    )
}

/// Whether a row sustained a fixed rate.
pub fn keeps_up(row: &Row, rate: f64) -> bool {
    row.figures.ops_per_second.median >= KEPT_UP * rate * row.question.workers as f64
}

/// Latency at a fixed rate counts from when a request was due, so a store that falls behind shows
/// its queue.
fn fell_behind(report: &Report, rate: f64) -> Option<String> {
    let rows = report.results.iter().filter(|row| row.outcome.failed.is_none());
    let behind: Vec<String> =
        rows.filter(|row| row.figures.operations > 0 && !keeps_up(row, rate)).map(place).collect();
    let text = format!(
        "did not keep up with the rate, so their latency is that of a queue: {}",
        behind.join(", ")
    );
    (!behind.is_empty()).then_some(text)
}
