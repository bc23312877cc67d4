//! One frame of `sessile top`: plain text, at most 80 columns wide.
//!
//! Invariant: nothing of a store reaches the terminal but printable characters.

use std::fmt::Write;

use sessile_core::Totals;

use crate::units::{bytes, seconds, short};
use crate::view::{View, lock_line};

const COLUMNS: usize = 80;
const DETAILS_MAX: usize = 8;

/// The frame of a look, with rates since the look before.
pub fn frame(view: &View, before: Option<&View>) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", view.label);
    if let Some(error) = &view.error {
        let _ = writeln!(text, "error: {error}");
    }
    match view.totals {
        None => text.push_str("nobody counts for all processes of this store\n"),
        Some(totals) => add_rates(&mut text, view, before, &totals),
    }
    if let Some(stat) = view.stat {
        let least = if stat.complete { "" } else { "at least " };
        let _ = writeln!(
            text,
            "sessions {least}{}   expired {}   payload {}",
            short(stat.sessions as f64),
            short(stat.expired as f64),
            bytes(stat.payload_bytes as f64)
        );
    }
    for (name, detail) in view.details.iter().take(DETAILS_MAX) {
        let value = match detail {
            sessile_core::Detail::Count(number) => short(*number as f64),
            sessile_core::Detail::Bytes(size) => bytes(*size as f64),
            sessile_core::Detail::Milliseconds(ms) => seconds(*ms as f64 / 1e3),
            sessile_core::Detail::Text(text) => text.clone(),
        };
        let _ = writeln!(text, "{:<28} {value}", name.replace('_', " "));
    }
    match &view.locks {
        None => text.push_str("\nthis store cannot list its locks\n"),
        Some(locks) => {
            let _ = writeln!(text, "\nlocks held: {}", locks.len());
            for lock in locks {
                let _ = writeln!(text, "  {}", lock_line(lock, view.at));
            }
        }
    }
    text.lines().map(|line| format!("{}\n", printable(line))).collect()
}

fn add_rates(text: &mut String, view: &View, before: Option<&View>, totals: &Totals) {
    let earlier = before.and_then(|before| Some((before.at, before.totals?)));
    let (since, old) = earlier.unwrap_or((view.at, *totals));
    let passed = view.at.since(since).as_secs_f64();
    let rate = |new: u64, old: u64| {
        if passed > 0.0 { short(new.saturating_sub(old) as f64 / passed) } else { "-".into() }
    };
    let _ = writeln!(text, "{:<14}{:>12}{:>16}", "", "a second", "in all");
    for (name, new, old) in [
        ("requests", totals.requests, old.requests),
        ("hits", totals.hits, old.hits),
        ("commits", totals.commits, old.commits),
        ("lock waits", totals.lock_waits, old.lock_waits),
        ("failed saves", totals.failed_saves, old.failed_saves),
    ] {
        let _ = writeln!(text, "{name:<14}{:>12}{:>16}", rate(new, old), short(new as f64));
    }
    let waits = totals.lock_waits.saturating_sub(old.lock_waits);
    let us = totals.lock_wait_us.saturating_sub(old.lock_wait_us);
    let mean = us.checked_div(waits).map_or("-".to_owned(), |us| seconds(us as f64 / 1e6));
    let longest = seconds(totals.lock_wait_us_max as f64 / 1e6);
    let _ = writeln!(text, "wait: {mean} on average now, {longest} the longest ever");
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
        let totals = |requests| Some(Totals { requests, ..Totals::default() });
        let before = View { at: ms(1_000), totals: totals(100), ..View::default() };
        let holder =
            Holder { pid: Some(42), host: Some("web\x1b[2J".into()), since: Some(ms(500)) };
        let key = Some(Key::session("secret1234567890").unwrap());
        let view = View {
            label: "files:/x\x1b]0;title\x07".into(),
            at: ms(3_000),
            totals: totals(5_100),
            locks: Some(vec![HeldLock { key, holder, has_waiters: Some(true) }]),
            ..View::default()
        };
        let text = frame(&view, Some(&before));
        assert!(text.contains("2.5k") && text.contains("pid 42"), "{text}");
        assert!(text.contains("for 2.5 s") && text.contains("others wait"), "{text}");
        assert!(!text.contains("secret") && !text.contains('\x1b'), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS));
    }
}
