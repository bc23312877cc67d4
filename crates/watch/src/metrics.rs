//! The text format of Prometheus, version 0.0.4.
//!
//! Source: <https://prometheus.io/docs/instrumenting/exposition_formats/>. Invariant: label values
//! are escaped; no session is a label, so the number of series is bounded.

use std::fmt::Write;

use crate::sample::{Sample, number_of};

struct Text {
    text: String,
    label: String,
}

impl Text {
    fn metric(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        let Text { text, label } = self;
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        let _ = writeln!(text, "{name}{{store=\"{label}\"}} {value}");
    }
}

/// All metrics of one sample.
pub fn metrics(sample: &Sample) -> String {
    let mut text = Text { text: String::new(), label: escaped(&sample.label) };
    let up = if sample.error.is_none() { 1.0 } else { 0.0 };
    text.metric("sessile_up", "gauge", "1: the store answers.", up);
    if let Some(counts) = sample.counts {
        let us = |us: u64| us as f64 / 1e6;
        for (name, kind, help, value) in [
            ("requests_total", "counter", "Locked requests begun.", counts.requests as f64),
            ("hits_total", "counter", "Begins that found a session.", counts.hits as f64),
            ("commits_total", "counter", "Sessions saved.", counts.commits as f64),
            ("failed_saves_total", "counter", "Saves that failed.", counts.failed_saves as f64),
            ("lock_waits_total", "counter", "Begins that waited.", counts.lock_waits as f64),
            ("lock_wait_seconds_total", "counter", "Time waited.", us(counts.lock_wait_us)),
            ("lock_wait_seconds_max", "gauge", "Longest wait.", us(counts.lock_wait_us_max)),
        ] {
            text.metric(&format!("sessile_{name}"), kind, help, value);
        }
    }
    if let Some(stat) = sample.stat {
        let age = stat.oldest_written.map(|written| sample.at.since(written).as_secs_f64());
        for (name, help, value) in [
            ("sessions", "Live sessions.", Some(stat.sessions as f64)),
            ("sessions_expired", "Expired, not yet removed.", Some(stat.expired as f64)),
            ("payload_bytes", "Bytes of live payloads.", Some(stat.payload_bytes as f64)),
            ("oldest_write_age_seconds", "Age of the oldest write.", age),
            ("stat_complete", "0: lower bounds.", Some(f64::from(u8::from(stat.complete)))),
        ] {
            if let Some(value) = value {
                text.metric(&format!("sessile_{name}"), "gauge", help, value);
            }
        }
    }
    if let Some(locks) = &sample.locks {
        let waited = locks.iter().filter(|lock| lock.has_waiters == Some(true)).count();
        let longest = locks
            .iter()
            .filter_map(|lock| lock.holder.since)
            .map(|since| sample.locks_at.since(since).as_secs_f64())
            .fold(0.0, f64::max);
        let help = "Locks held now, 1000 at most.";
        text.metric("sessile_locks_held", "gauge", help, locks.len() as f64);
        text.metric("sessile_locks_waited_for", "gauge", "With waiters.", waited as f64);
        text.metric("sessile_lock_held_seconds_max", "gauge", "Held longest.", longest);
    }
    add_details(&mut text, sample);
    text.text
}

/// A name that occurs more than once is summed up.
fn add_details(text: &mut Text, sample: &Sample) {
    let mut seen: Vec<&str> = Vec::new();
    for (name, first) in &sample.details {
        let Some((_, unit)) = number_of(first) else { continue };
        if seen.contains(name) {
            continue;
        }
        seen.push(name);
        let same = sample.details.iter().filter(|(other, _)| other == name);
        let sum = same.filter_map(|(_, detail)| number_of(detail)).map(|(number, _)| number).sum();
        text.metric(&format!("sessile_detail_{name}{unit}"), "gauge", "See sessile stat.", sum);
    }
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use sessile_core::{Detail, HeldLock, Holder, SharedCounts, Stat, Timestamp};

    /// A lock that had been held for a moment was told as held for as long as the list rested.
    #[test]
    fn the_age_of_a_lock_is_that_of_the_moment_when_it_was_seen() {
        let ms = Timestamp::from_ms;
        let holder = Holder { since: Some(ms(1_000)), ..Holder::default() };
        let held = HeldLock { key: None, holder, has_waiters: None };
        let (locks, locks_at) = (Some(vec![held]), ms(1_500));
        let sample = Sample { at: ms(500_000), locks, locks_at, ..Sample::default() };
        let text = metrics(&sample);
        let line = text.lines().find(|line| line.starts_with("sessile_lock_held_seconds_max{"));
        assert!(line.is_some_and(|line| line.ends_with(" 0.5")), "{text}");
    }

    #[test]
    fn every_line_is_of_the_format_and_a_hostile_label_ends_no_line() {
        let sample = Sample {
            label: "files:/a\"b\\c\nsessile_up 0".into(),
            counts: Some(SharedCounts {
                requests: 7,
                lock_wait_us: 1_500_000,
                ..SharedCounts::default()
            }),
            stat: Some(Stat { sessions: 3, complete: true, ..Stat::default() }),
            locks: Some(Vec::new()),
            details: vec![("data_file", Detail::Bytes(5)), ("data_file", Detail::Bytes(6))],
            ..Sample::default()
        };
        let text = metrics(&sample);
        for line in text.lines() {
            let sound = line.starts_with("# HELP sessile_")
                || line.starts_with("# TYPE sessile_")
                || line.starts_with("sessile_")
                    && line.rsplit(' ').next().unwrap().parse::<f64>().is_ok()
                    && line.contains("{store=\"files:/a\\\"b\\\\c\\nsessile_up 0\"}");
            assert!(sound, "{line}");
        }
        assert!(text.contains("sessile_detail_data_file_bytes{"), "{text}");
        assert!(text.contains("\"} 11\n") && text.contains("\"} 1.5\n"), "{text}");
    }
}
