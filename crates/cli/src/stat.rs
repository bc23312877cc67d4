//! `sessile stat`: shows the counts of a store, and details of its kind.

use serde_json::{Value, json};
use sessile_core::{Clock, Detail, ErrorKind, Sessions, Stat};

use crate::arguments::StatArguments;
use crate::command_result::{CommandFailure, CommandResult};
use crate::existing_store;
use crate::terminal::print_as;
use crate::units;

pub fn run(arguments: &StatArguments) -> CommandResult {
    let store = existing_store::open_to_look(&arguments.url)?;
    let stat = counted(&store)?;
    let details = store.details()?;
    let (label, stat) = (store.label(), stat.as_ref());
    let json = || as_json(label, stat, &details);
    print_as(arguments.json, json, || as_text(label, stat, &details))
}

/// A store that cannot count may still have details.
fn counted(store: &Sessions) -> Result<Option<Stat>, CommandFailure> {
    match store.stat() {
        Ok(stat) => Ok(Some(stat)),
        Err(error) if *error.kind() == ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn as_text(label: &str, stat: Option<&Stat>, details: &[(&'static str, Detail)]) -> String {
    let mut lines: Vec<(String, String)> = match stat {
        None => vec![("sessions".into(), "unknown: this store cannot count them".into())],
        Some(stat) => counts(stat),
    };
    lines.extend(
        details.iter().map(|(name, detail)| (name.replace('_', " "), units::value(detail))),
    );
    let wide = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = format!("{label}\n");
    for (name, value) in lines {
        text.push_str(&format!("  {name:wide$}  {value}\n"));
    }
    text
}

fn counts(stat: &Stat) -> Vec<(String, String)> {
    let at_least = if stat.complete { "" } else { "at least " };
    let age = |written| units::duration(Clock::system().now().since(written));
    let oldest = stat
        .oldest_written
        .map_or_else(|| "-".to_owned(), |written| format!("{} ago", age(written)));
    vec![
        ("sessions".into(), format!("{at_least}{}", units::count(stat.sessions))),
        ("expired, not yet removed".into(), format!("{at_least}{}", units::count(stat.expired))),
        ("payload".into(), format!("{at_least}{}", units::bytes(stat.payload_bytes))),
        ("oldest write".into(), oldest),
    ]
}

fn as_json(label: &str, stat: Option<&Stat>, details: &[(&'static str, Detail)]) -> Value {
    let stat = stat.map(|stat| {
        json!({
            "sessions": stat.sessions,
            "expired": stat.expired,
            "payload_bytes": stat.payload_bytes,
            "oldest_written_ms": stat.oldest_written.map(sessile_core::Timestamp::as_ms),
            "complete": stat.complete,
        })
    });
    let details: Vec<Value> = details.iter().map(detail).collect();
    json!({ "schema": 1, "store": label, "stat": stat, "details": details })
}

/// Details are a list, since a name may occur more than once.
fn detail((name, detail): &(&'static str, Detail)) -> Value {
    let value = match detail {
        Detail::Count(number) | Detail::Bytes(number) | Detail::Milliseconds(number) => {
            json!(number)
        }
        Detail::Text(text) => json!(text),
    };
    json!({ "name": name, "value": value, "unit": detail.unit() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessile_core::Timestamp;

    fn details() -> sessile_core::Details {
        vec![
            ("segments", Detail::Count(12_345)),
            ("index_file", Detail::Bytes(3 << 20)),
            ("oldest_unsynced", Detail::Milliseconds(1_500)),
            ("lock", Detail::Text("process 4711 for 0.2 s".to_owned())),
            ("lock", Detail::Text("process 4712 for 0.1 s".to_owned())),
        ]
    }

    #[test]
    fn people_read_units_and_scripts_read_numbers() {
        let stat =
            Stat { sessions: 2_000, payload_bytes: 4_096, complete: true, ..Stat::default() };
        let text = as_text("toy:", Some(&stat), &details());
        for line in [
            "sessions                  2 000",
            "payload                   4.0 KiB",
            "index file                3.0 MiB",
            "oldest unsynced           1.5 s",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
        let json = as_json("toy:", Some(&stat), &details());
        assert_eq!(
            json["details"][1],
            json!({ "name": "index_file", "value": 3 << 20, "unit": "bytes" })
        );
        assert_eq!(json["details"].as_array().map(Vec::len), Some(5), "both locks are there");
        assert_eq!(json["stat"]["oldest_written_ms"], Value::Null);
    }

    #[test]
    fn lower_bounds_and_missing_counts_are_not_shown_as_counts() {
        let partly =
            Stat { sessions: 7, oldest_written: Some(Timestamp::from_ms(1)), ..Stat::default() };
        assert!(as_text("toy:", Some(&partly), &[]).contains("at least 7\n"));
        assert!(as_text("toy:", None, &[]).contains("unknown"));
        assert_eq!(as_json("toy:", None, &[])["stat"], Value::Null);
    }
}
