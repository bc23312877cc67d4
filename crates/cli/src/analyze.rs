//! `sessile analyze`: shows a store by size, age and idle time, without disturbing it.
//!
//! Scans our stores and those of other programs. Changes no session, writes nothing
//! but a profile, and shows no session id.

mod json;
mod text;

use std::fs::{self, OpenOptions};
use std::io::ErrorKind::AlreadyExists;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use sessile_core::Clock;
use sessile_scan::{Profile, ScanEnd, ScanPace, ScanPass, ScanSource, ScanSummary};
use sessile_stores::layouts::Sizes;

use crate::arguments::AnalyzeArguments;
use crate::command_result::{self, CommandFailure, CommandResult};
use crate::terminal::{Spinner, print_as};
use crate::units;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

struct ScanResult {
    label: String,
    sizes_are: Sizes,
    summary: ScanSummary,
    pass: ScanPass,
}

/// Scans. An early end prints what was seen, and sets the exit code.
pub fn run(arguments: &AnalyzeArguments) -> CommandResult {
    if let Some(path) = &arguments.export_profile {
        // A scan may take hours; a wrong path is better reported before.
        check_writable(path).map_err(|error| unwritable(path, &error))?;
    }
    let scanned = scan(arguments)?;
    print_as(arguments.json, || json::render(&scanned), || text::render(&scanned))?;
    if let Some(path) = &arguments.export_profile {
        export(&scanned, path)?;
    }
    match scanned.pass.ended {
        ScanEnd::Complete | ScanEnd::TimeUp => Ok(()),
        ScanEnd::Interrupted => Err(CommandFailure::interrupted(
            "interrupted; what is shown is what was seen until then",
        )),
        ScanEnd::Failed(error) => Err(error.into()),
    }
}

/// Also after an early end: the entries seen are a sample.
fn export(scanned: &ScanResult, path: &Path) -> CommandResult {
    if let Some(others) = beyond_sessions(&scanned.summary) {
        log::warn!("the profile has the sizes of {others}, not of sessions alone");
    }
    let text = Profile::from_summary(&scanned.summary, scanned.sizes_are)
        .to_json()
        .map_err(|error| unwritable(path, &error))?;
    fs::write(path, format!("{text}\n")).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &dyn std::fmt::Display) -> CommandFailure {
    CommandFailure::unavailable(format!("cannot write {}: {error}", path.display()))
}

/// Tests the permission without changing or leaving a file.
fn check_writable(path: &Path) -> std::io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(_) => fs::remove_file(path),
        // Opening and closing a pipe would end its reader.
        Err(error) if error.kind() == AlreadyExists && !path.is_file() && !path.is_dir() => Ok(()),
        Err(error) if error.kind() == AlreadyExists => {
            OpenOptions::new().write(true).open(path).map(drop)
        }
        Err(error) => Err(error),
    }
}

/// Words for entries that are not sessions. Only a cache shows its keys.
fn beyond_sessions(summary: &ScanSummary) -> Option<String> {
    let is_cache = || summary.largest.entries().iter().any(|seen| seen.name.shown().is_some());
    match summary.bins.len() {
        0 | 1 => is_cache().then(|| "a cache".to_owned()),
        bins => Some(format!("{bins} bins or tables together")),
    }
}

fn scan(arguments: &AnalyzeArguments) -> Result<ScanResult, CommandFailure> {
    let clock = Clock::system();
    let ScanSource { label, mut walk } = sessile_scan::open(&arguments.url, &clock)?;
    let mut summary =
        ScanSummary::new(clock.now(), arguments.top, arguments.larger_than.unwrap_or(0));
    let pace =
        ScanPace { page: arguments.batch, pause: arguments.pause, time_max: arguments.stop_after };
    // If this fails, Ctrl-C ends the scan without a result.
    let _ = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            // A page of an unresponsive store lasts until its timeout.
            std::process::exit(i32::from(command_result::INTERRUPTED));
        }
    });
    let pass = {
        let spinner = Spinner::new();
        pace.scan(walk.as_mut(), &mut summary, &mut |summary| {
            let (entries, bytes) = (summary.total.entries, summary.total.bytes);
            spinner.set_message(format!(
                "{}, {}",
                units::with_noun(entries, "entry"),
                units::bytes(bytes)
            ));
            // Relaxed: the flag publishes nothing else.
            !INTERRUPTED.load(Ordering::Relaxed)
        })
    };
    let pass = pass?;
    Ok(ScanResult { label, sizes_are: walk.sizes(), summary, pass })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use sessile_core::{Key, Timestamp};
    use sessile_stores::layouts::{EntryName, ScannedEntry};

    fn scanned() -> ScanResult {
        let now = Timestamp::from_ms(100_000_000);
        let mut summary = ScanSummary::new(now, 3, 1_000);
        let mut add = |bin: &str, name: EntryName, bytes: u64| {
            let used = Some(now.minus(Duration::from_secs(90)));
            summary.add(ScannedEntry {
                bin: bin.into(),
                name,
                bytes,
                created: None,
                used,
                expires: None,
            });
        };
        add("cache", EntryName::of("cache", b"theme_registry:garland"), 3 << 20);
        add("session", EntryName::Tagged(Key::session("topsecret1").unwrap()), 5_000);
        (0..50).for_each(|number| {
            add(
                "session",
                EntryName::of("session", format!("topsecret{number}").as_bytes()),
                number,
            )
        });
        let pass = ScanPass {
            ended: ScanEnd::TimeUp,
            pages: 2,
            took: Duration::from_millis(1_500),
            worked: Duration::from_millis(20),
        };
        ScanResult { label: "toy:".into(), sizes_are: Sizes::Payload, summary, pass }
    }

    #[test]
    fn people_see_what_is_large_and_where_it_is() {
        let text = text::render(&scanned());
        for line in [
            "at least 52 entries, 3.0 MiB",
            "3.0 MiB  cache    theme_registry:garland",
            "4.8 KiB  session  sha256:",
            "2 of at least 1 000 bytes",
            "session            51",
            "1 MiB to 4 MiB",
            "1 min to 5 min",
            "not known",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
        assert!(!text.contains("topsecret"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    }

    #[test]
    fn a_profile_of_more_than_sessions_is_one_of_which_is_warned() {
        assert_eq!(
            beyond_sessions(&scanned().summary).as_deref(),
            Some("2 bins or tables together")
        );
        let of_one = |bin: &str| {
            let mut summary = ScanSummary::new(Timestamp::from_ms(0), 3, 0);
            let name = EntryName::of(bin, b"x");
            summary.add(ScannedEntry {
                bin: bin.into(),
                name,
                bytes: 1,
                created: None,
                used: None,
                expires: None,
            });
            beyond_sessions(&summary)
        };
        assert_eq!((of_one("session"), of_one("cache").as_deref()), (None, Some("a cache")));
    }

    #[test]
    fn scripts_see_plain_numbers() {
        let json = json::render(&scanned());
        assert_eq!(
            (&json["entries"], &json["complete"], &json["ended"]),
            (&52.into(), &false.into(), &"time".into())
        );
        assert_eq!(json["larger_than"], serde_json::json!({ "bytes": 1_000, "entries": 2 }));
        let largest = &json["largest"];
        assert_eq!(
            (&largest[0]["name"], &largest[0]["bytes"]),
            (&"theme_registry:garland".into(), &(3 << 20).into())
        );
        assert_eq!(
            (&largest[0]["sha256"], &largest[0]["idle_ms"]),
            (&serde_json::Value::Null, &90_000.into())
        );
        assert_eq!(largest[1]["sha256"].as_str().map(str::len), Some(12));
        assert!(largest[1]["tag"].as_str().is_some_and(|tag| tag.starts_with('#')), "{largest}");
        let counted: u64 = json["sizes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|bucket| bucket["entries"].as_u64().unwrap())
            .sum();
        assert_eq!(counted, 52);
        assert_eq!(json["age"]["unknown"], 52);
        assert!(!json.to_string().contains("topsecret"));
    }
}
