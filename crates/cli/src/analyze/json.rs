//! The result of a scan as JSON: plain numbers, with units in their names.

use std::time::Duration;

use serde_json::{Value, json};
use sessile_core::Timestamp;
use sessile_scan::{BinTotals, ScanEnd, SpanHistogram};
use sessile_stores::layouts::ScannedEntry;

use super::ScanResult;

pub fn render(scanned: &ScanResult) -> Value {
    let (summary, pass) = (&scanned.summary, &scanned.pass);
    let bins = summary.bins.iter().map(|(bin, totals)| {
        let BinTotals { entries, expired, bytes } = totals;
        json!({ "bin": bin.as_ref(), "entries": entries, "expired": expired, "bytes": bytes })
    });
    let sizes = summary.sizes.buckets().map(|bucket| {
        json!({
            "from_bytes": bucket.from_bytes, "below_bytes": bucket.below_bytes,
            "entries": bucket.entries, "bytes": bucket.bytes,
        })
    });
    let largest = summary.largest.entries().iter().map(|seen| entry(seen, summary.now()));
    let ended = match &pass.ended {
        ScanEnd::Complete => "complete",
        ScanEnd::TimeUp => "time",
        ScanEnd::Interrupted => "interrupted",
        ScanEnd::Failed(_) => "failed",
    };
    json!({
        "schema": 1,
        "store": scanned.label,
        "complete": matches!(pass.ended, ScanEnd::Complete),
        "ended": ended,
        "pages": pass.pages,
        "took_ms": ms(pass.took),
        "worked_ms": ms(pass.worked),
        "sizes_are": scanned.sizes_are.name(),
        "entries": summary.total.entries,
        "expired": summary.total.expired,
        "bytes": summary.total.bytes,
        "larger_than": { "bytes": summary.larger_than(), "entries": summary.larger },
        "bins": bins.collect::<Vec<Value>>(),
        "largest": largest.collect::<Vec<Value>>(),
        "sizes": sizes.collect::<Vec<Value>>(),
        "age": spans(&summary.ages),
        "idle": spans(&summary.idle),
    })
}

fn entry(seen: &ScannedEntry, now: Timestamp) -> Value {
    let since = |moment: Option<Timestamp>| moment.map(|moment| ms(now.since(moment)));
    json!({
        "bin": seen.bin.as_ref(),
        "name": seen.name.shown(),
        "sha256": seen.name.digest(),
        "tag": seen.name.tag(),
        "bytes": seen.bytes,
        "age_ms": since(seen.created),
        "idle_ms": since(seen.used),
        "expires_ms": seen.expires.map(Timestamp::as_ms),
    })
}

fn spans(histogram: &SpanHistogram) -> Value {
    let buckets = histogram.buckets().filter(|(.., entries)| *entries > 0);
    let buckets = buckets.map(
        |(from, below, entries)| json!({ "from_s": from, "below_s": below, "entries": entries }),
    );
    json!({ "buckets": buckets.collect::<Vec<Value>>(), "unknown": histogram.unknown() })
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
