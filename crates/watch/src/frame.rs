//! One frame of `sessile top`: plain text, at most 80 columns wide.
//!
//! Invariant: nothing of a store reaches the terminal but printable characters.

use std::fmt::Write;

use sessile_core::SharedCounts;

use crate::sample::{LOCKS_SHOWN_MAX, Sample, detail_text, how_many, lock_line};
use crate::units::{bytes, seconds, short};

const COLUMNS: usize = 80;
const DETAILS_MAX: usize = 8;

/// The frame of a sample, with rates since the sample before.
pub fn frame(sample: &Sample, before: Option<&Sample>) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", sample.label);
    if let Some(error) = &sample.error {
        let _ = writeln!(text, "error: {error}");
    }
    match sample.counts {
        None => text.push_str("no worker of this host has counted a request yet\n"),
        Some(counts) => add_rates(&mut text, sample, before, &counts),
    }
    if let Some(stat) = sample.stat {
        let least = if stat.complete { "" } else { "at least " };
        let _ = writeln!(
            text,
            "sessions {least}{}   expired {}   payload {}",
            short(stat.sessions as f64),
            short(stat.expired as f64),
            bytes(stat.payload_bytes as f64)
        );
    }
    for (name, detail) in sample.details.iter().take(DETAILS_MAX) {
        let _ = writeln!(text, "{:<28} {}", name.replace('_', " "), detail_text(detail));
    }
    match &sample.locks {
        None => text.push_str("\nthis store cannot list its locks\n"),
        Some(locks) => {
            let _ = writeln!(text, "\nlocks held: {}", how_many(locks));
            for lock in locks.iter().take(LOCKS_SHOWN_MAX) {
                let _ = writeln!(text, "  {}", lock_line(lock, sample.locks_at));
            }
        }
    }
    text.lines().map(|line| format!("{}\n", printable(line))).collect()
}

fn add_rates(text: &mut String, sample: &Sample, before: Option<&Sample>, counts: &SharedCounts) {
    let earlier = before.and_then(|before| Some((before.at, before.counts?)));
    let (since, old) = earlier.unwrap_or((sample.at, *counts));
    let passed = sample.at.since(since).as_secs_f64();
    let rate = |new: u64, old: u64| {
        if passed > 0.0 { short(new.saturating_sub(old) as f64 / passed) } else { "-".into() }
    };
    let _ = writeln!(text, "{:<14}{:>12}{:>16}", "", "a second", "in all");
    for (name, new, old) in [
        ("requests", counts.requests, old.requests),
        ("hits", counts.hits, old.hits),
        ("commits", counts.commits, old.commits),
        ("lock waits", counts.lock_waits, old.lock_waits),
        ("failed saves", counts.failed_saves, old.failed_saves),
    ] {
        let _ = writeln!(text, "{name:<14}{:>12}{:>16}", rate(new, old), short(new as f64));
    }
    let waits = counts.lock_waits.saturating_sub(old.lock_waits);
    let us = counts.lock_wait_us.saturating_sub(old.lock_wait_us);
    if counts.lock_waits > 0 {
        let mean = us.checked_div(waits).map_or("-".to_owned(), |us| seconds(us as f64 / 1e6));
        let longest = seconds(counts.lock_wait_us_max as f64 / 1e6);
        let _ = writeln!(text, "wait for a lock: {mean} on average now, {longest} at most so far");
    }
}

fn printable(line: &str) -> String {
    line.chars().map(|c| if c.is_control() { '?' } else { c }).take(COLUMNS).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use sessile_core::{HeldLock, Holder, Key, Timestamp};

    #[test]
    fn a_frame_has_rates_and_locks_and_neither_ids_nor_control_characters() {
        let ms = Timestamp::from_ms;
        let counts = |requests| Some(SharedCounts { requests, ..SharedCounts::default() });
        let before = Sample { at: ms(1_000), counts: counts(100), ..Sample::default() };
        let holder =
            Holder { pid: Some(42), host: Some("web\x1b[2J".into()), since: Some(ms(500)) };
        let key = Some(Key::session("secret1234567890").unwrap());
        let sample = Sample {
            label: "files:/x\x1b]0;title\x07".into(),
            at: ms(3_000),
            counts: counts(5_100),
            locks: Some(vec![HeldLock { key, holder, has_waiters: Some(true) }]),
            locks_at: ms(2_500),
            ..Sample::default()
        };
        let text = frame(&sample, Some(&before));
        assert!(text.contains("2.5k") && text.contains("pid 42"), "{text}");
        assert!(text.contains("for 2.0 s") && text.contains("others wait"), "{text}");
        assert!(!text.contains("secret") && !text.contains('\x1b'), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS));
    }
}
