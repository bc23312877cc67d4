//! `sessile scan`: what is in a store, by size, age and idle time, without disturbing it.
//!
//! One of our stores, or what another program keeps. Nothing is changed, and no id of a session is shown.

mod json;
mod text;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sessile_core::{Clock, ErrorKind};
use sessile_scan::{Ended, Opened, Pace, Pass, Profile, Summary};
use sessile_stores::foreign::Sizes;

use crate::arguments::ScanArguments;
use crate::opened;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{Progress, print};
use crate::units;

/// Somebody pressed Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// What a scan found, and how it went.
struct Scanned {
    label: String,
    /// What sizes are the sizes of.
    sizes_are: Sizes,
    summary: Summary,
    pass: Pass,
}

/// Scans. What was seen is printed also when it ends early; then the exit code says why.
pub fn run(arguments: &ScanArguments) -> Outcome {
    let scanned = scan(arguments)?;
    if arguments.json {
        print(&format!("{:#}\n", json::of(&scanned)))?;
    } else {
        print(&text::of(&scanned))?;
    }
    if let Some(path) = &arguments.export_profile {
        export(&scanned, path)?;
    }
    match &scanned.pass.ended {
        Ended::Complete | Ended::TimeUp => Ok(()),
        Ended::Interrupted => Err(Failure::interrupted("interrupted; what is shown is what was seen until then")),
        Ended::Failed(error) => Err(opened::failure(error)),
    }
}

/// Also of a scan that ended early: what it has seen is a sample.
fn export(scanned: &Scanned, path: &Path) -> Outcome {
    let unwritable =
        |error: &dyn std::fmt::Display| Failure::unavailable(format!("cannot write {}: {error}", path.display()));
    let text = Profile::of(&scanned.summary, scanned.sizes_are).to_json().map_err(|error| unwritable(&error))?;
    std::fs::write(path, format!("{text}\n")).map_err(|error| unwritable(&error))
}

fn scan(arguments: &ScanArguments) -> Result<Scanned, Failure> {
    let clock = Clock::system();
    let Opened { label, mut walk } =
        sessile_scan::open(&arguments.url, &clock).map_err(|error| match error.kind() {
            ErrorKind::InvalidUrl => Failure::usage(format!("{error:#}")),
            _ => opened::failure(&error),
        })?;
    let mut summary = Summary::new(clock.now(), arguments.top, arguments.larger_than.unwrap_or(0));
    let pace = Pace {
        page: arguments.page,
        pause: Duration::from_millis(arguments.pause),
        time_max: arguments.seconds.map(Duration::from_secs),
    };
    // Without the handler Ctrl-C ends the scan as it ends any program: that nothing is shown then is all that is lost.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
    let pass = {
        let progress = Progress::new();
        pace.pass(walk.as_mut(), &mut summary, &mut |summary| {
            let (entries, bytes) = (summary.total.entries, summary.total.bytes);
            progress.say(format!("{}, {}", units::things(entries, "entry", "entries"), units::bytes(bytes)));
            // Relaxed: it carries nothing but itself.
            !INTERRUPTED.load(Ordering::Relaxed)
        })
    };
    let pass = pass.map_err(|error| opened::failure(&error))?;
    Ok(Scanned { label, sizes_are: walk.sizes(), summary, pass })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessile_core::{Key, Timestamp};
    use sessile_stores::foreign::{Name, Seen};

    fn scanned() -> Scanned {
        let now = Timestamp::from_ms(100_000_000);
        let mut summary = Summary::new(now, 3, 1_000);
        let mut add = |bin: &str, name: Name, bytes: u64| {
            let used = Some(now.minus(Duration::from_secs(90)));
            summary.add(Seen { bin: bin.into(), name, bytes, created: None, used, expires: None });
        };
        add("cache", Name::of("cache", b"theme_registry:garland"), 3 << 20);
        add("session", Name::Tagged(Key::session("topsecret1").unwrap()), 5_000);
        (0..50).for_each(|number| add("session", Name::of("session", format!("topsecret{number}").as_bytes()), number));
        let pass = Pass {
            ended: Ended::TimeUp,
            pages: 2,
            took: Duration::from_millis(1_500),
            worked: Duration::from_millis(20),
        };
        Scanned { label: "toy:".into(), sizes_are: Sizes::Payload, summary, pass }
    }

    #[test]
    fn people_see_what_is_large_and_where_it_is() {
        let text = text::of(&scanned());
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
    fn scripts_see_plain_numbers() {
        let json = json::of(&scanned());
        assert_eq!((&json["entries"], &json["complete"], &json["ended"]), (&52.into(), &false.into(), &"time".into()));
        assert_eq!(json["larger_than"], serde_json::json!({ "bytes": 1_000, "entries": 2 }));
        let largest = &json["largest"];
        assert_eq!((&largest[0]["name"], &largest[0]["bytes"]), (&"theme_registry:garland".into(), &(3 << 20).into()));
        assert_eq!((&largest[0]["sha256"], &largest[0]["idle_ms"]), (&serde_json::Value::Null, &90_000.into()));
        assert_eq!(largest[1]["sha256"].as_str().map(str::len), Some(12));
        assert!(largest[1]["tag"].as_str().is_some_and(|tag| tag.starts_with('#')), "{largest}");
        let counted: u64 =
            json["sizes"].as_array().unwrap().iter().map(|bucket| bucket["entries"].as_u64().unwrap()).sum();
        assert_eq!(counted, 52);
        assert_eq!(json["age"]["unknown"], 52);
        assert!(!json.to_string().contains("topsecret"));
    }
}
