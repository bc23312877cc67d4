//! The result of a scan for people: totals, the largest entries, and three histograms.

use sessile_core::Timestamp;
use sessile_scan::{SPANS, ScanEnd, ScanSummary, SizeHistogram, SpanHistogram};
use sessile_stores::layouts::{ScannedEntry, Sizes};

use super::ScanResult;
use crate::units;

/// Length of the longest bar.
const BAR: u64 = 40;
/// The ends of the rows of the size histogram, with their words. Each is the start of a bucket.
const SIZES: [(u64, &str); 9] = [
    (256, "256 bytes"),
    (1 << 10, "1 KiB"),
    (4 << 10, "4 KiB"),
    (16 << 10, "16 KiB"),
    (64 << 10, "64 KiB"),
    (256 << 10, "256 KiB"),
    (1 << 20, "1 MiB"),
    (4 << 20, "4 MiB"),
    (16 << 20, "16 MiB"),
];

pub fn render(scanned: &ScanResult) -> String {
    let summary = &scanned.summary;
    let mut text = format!("{}\n", scanned.label);
    text.push_str(&totals(scanned));
    if summary.total.entries == 0 {
        return text;
    }
    if summary.bins.len() > 1 {
        text.push_str(&bins(summary));
    }
    text.push_str(&largest(summary));
    let of_sizes =
        if scanned.sizes_are == Sizes::Memory { "size in the server's memory" } else { "size" };
    text.push_str(&histogram(of_sizes, &size_rows(&summary.sizes)));
    text.push_str(&histogram("age", &span_rows(&summary.ages)));
    text.push_str(&histogram("idle", &span_rows(&summary.idle)));
    text
}

fn totals(scanned: &ScanResult) -> String {
    let (summary, pass) = (&scanned.summary, &scanned.pass);
    let at_least = if matches!(pass.ended, ScanEnd::Complete) { "" } else { "at least " };
    let total = summary.total;
    let entries = units::with_noun(total.entries, "entry");
    let mut text = format!("  {at_least}{entries}, {}", units::bytes(total.bytes));
    if total.expired > 0 {
        text.push_str(&format!("; {} of them expired", units::count(total.expired)));
    }
    if let (Some(median), Some(high)) = (summary.sizes.quantile(0.5), summary.sizes.quantile(0.99))
    {
        text.push_str(&format!(
            "\n  half below about {}, 99 % below about {}",
            units::bytes(median),
            units::bytes(high)
        ));
    }
    let pages = units::with_noun(pass.pages, "page");
    let (took, worked) = (units::duration(pass.took), units::duration(pass.worked));
    text.push_str(&format!("\n  {pages} in {took}, of which the store worked {worked}"));
    text.push_str(match &pass.ended {
        ScanEnd::Complete => "\n",
        ScanEnd::TimeUp => "; the time was up\n",
        ScanEnd::Interrupted => "; interrupted\n",
        ScanEnd::Failed(_) => "; the store failed\n",
    });
    text
}

fn bins(summary: &ScanSummary) -> String {
    let wide = summary.bins.keys().map(|bin| bin.len()).max().unwrap_or(0);
    let mut text = "\nbins\n".to_owned();
    for (bin, totals) in &summary.bins {
        let (entries, bytes) = (units::count(totals.entries), units::bytes(totals.bytes));
        text.push_str(&format!("  {bin:wide$}  {entries:>12}  {bytes:>12}\n"));
    }
    text
}

fn largest(summary: &ScanSummary) -> String {
    let entries = summary.largest.entries();
    let mut text = match summary.larger_than() {
        0 => "\nlargest\n".to_owned(),
        least => format!(
            "\nlargest; {} of at least {}\n",
            units::count(summary.larger),
            units::bytes(least)
        ),
    };
    let wide = entries.iter().map(|seen| seen.bin.len()).max().unwrap_or(0);
    for seen in entries {
        text.push_str(&format!(
            "  {:>9}  {:wide$}  {}\n",
            units::bytes(seen.bytes),
            seen.bin,
            name(seen)
        ));
        text.push_str(&format!("  {:9}  {:wide$}  {}\n", "", "", times(seen, summary.now())));
    }
    text
}

fn name(seen: &ScannedEntry) -> String {
    match (seen.name.shown(), seen.name.digest(), seen.name.tag()) {
        (Some(name), ..) => name,
        (None, digest, Some(tag)) => {
            format!("sha256:{}  {tag} in the log", digest.unwrap_or_default())
        }
        (None, digest, None) => format!("sha256:{}", digest.unwrap_or_default()),
    }
}

fn times(seen: &ScannedEntry, now: Timestamp) -> String {
    let mut parts = Vec::new();
    if let Some(created) = seen.created {
        parts.push(format!("made {} ago", units::duration(now.since(created))));
    }
    if let Some(used) = seen.used {
        parts.push(format!("idle for {}", units::duration(now.since(used))));
    }
    match seen.expires {
        Some(expires) if expires <= now => parts.push("expired".to_owned()),
        Some(expires) => parts.push(format!("expires in {}", units::duration(expires.since(now)))),
        None => {}
    }
    parts.join(", ")
}

/// Label and count of each row.
type HistogramRows = Vec<(String, u64)>;

fn histogram(of_what: &str, rows: &HistogramRows) -> String {
    let (first, last) =
        (rows.iter().position(|row| row.1 > 0), rows.iter().rposition(|row| row.1 > 0));
    let rows = first.zip(last).and_then(|(first, last)| rows.get(first..=last)).unwrap_or_default();
    let most = rows.iter().map(|row| row.1).max().unwrap_or(0).max(1);
    let mut text = format!("\n{of_what}\n");
    for (words, count) in rows {
        // A count of 1 has a visible bar.
        let bar = usize::try_from((count * BAR).div_ceil(most)).unwrap_or(0);
        let line = format!("  {words:<22}  {:>12}  {}", units::count(*count), "#".repeat(bar));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn size_rows(sizes: &SizeHistogram) -> HistogramRows {
    let starts = std::iter::once((0, "")).chain(SIZES);
    let ends = SIZES.into_iter().map(Some).chain([None]);
    starts
        .zip(ends)
        .map(|((from, from_words), end)| {
            let within = sizes.buckets().filter(|bucket| {
                bucket.from_bytes >= from && end.is_none_or(|(below, _)| bucket.from_bytes < below)
            });
            (
                between(from_words, end.map(|(_, words)| words)),
                within.map(|bucket| bucket.entries).sum(),
            )
        })
        .collect()
}

fn span_rows(spans: &SpanHistogram) -> HistogramRows {
    let starts = std::iter::once("").chain(SPANS.iter().map(|(_, words)| *words));
    let ends = SPANS.iter().map(|(_, words)| Some(*words)).chain([None]);
    let rows = starts.zip(ends).zip(spans.buckets());
    let mut rows: HistogramRows =
        rows.map(|((from, end), (_, _, count))| (between(from, end), count)).collect();
    if spans.unknown() > 0 {
        if spans.known() == 0 {
            rows.clear();
        }
        rows.push(("not known".to_owned(), spans.unknown()));
    }
    rows
}

fn between(from: &str, end: Option<&str>) -> String {
    match (from, end) {
        ("", Some(end)) => format!("below {end}"),
        (from, Some(end)) => format!("{from} to {end}"),
        (from, None) => format!("{from} and more"),
    }
}
