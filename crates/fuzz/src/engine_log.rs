//! The engine's log on a disk, with changed bytes.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use arbitrary::Arbitrary;
use sessile_core::{Clock, Key, Sessions, Timestamp, Ttl};
use sessile_stores::{Context, open};

use crate::all_of;

const START: Timestamp = Timestamp::from_ms(1_800_000_000_000);
const SESSIONS: u8 = 12;
const DAMAGES_MAX: usize = 20;

/// One change: at a byte of the log that has content, these bytes are turned over.
#[derive(Arbitrary, Debug)]
struct Damage {
    at: u16,
    bits: [u8; 4],
}

/// A store without its control plane, as after a reboot.
struct Template {
    files: Vec<(&'static str, Vec<u8>)>,
    /// The places of the log that are not zero.
    content: Vec<usize>,
}

fn opened(path: &Path) -> Result<Sessions, sessile_core::Error> {
    open(&format!("sessile:{}", path.display()), &Context { clock: Clock::manual(START) })
}

fn key(number: u8) -> Key {
    Key::session(&format!("session-number-{number:03}")).unwrap()
}

fn ttl() -> Ttl {
    Ttl::sliding(Duration::from_secs(3_600)).unwrap()
}

/// What a session has been: each payload tells its session and its version.
fn payload(number: u8, version: u8) -> Vec<u8> {
    let bytes = if number == 0 { 150_000 } else { 100 + usize::from(number) * 90 };
    [number, version].into_iter().cycle().take(bytes).collect()
}

fn remove_control(path: &Path) {
    let text = std::fs::read_to_string(path.join("plane")).unwrap();
    let control = text.lines().next().unwrap().strip_prefix("control ").unwrap();
    std::fs::remove_dir_all(control).unwrap();
}

fn template() -> Template {
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let path = folder.path().join("store");
    let sessions = opened(&path).unwrap();
    for version in 0..2 {
        for number in 0..SESSIONS {
            let begun = sessions.begin(&key(number), Duration::ZERO).unwrap();
            begun.lease.commit(&payload(number, version), ttl()).unwrap();
        }
    }
    (0..SESSIONS).filter(|number| number % 4 == 3).for_each(|number| {
        sessions.destroy(&key(number)).unwrap();
    });
    drop(sessions);
    let read = |name| (name, std::fs::read(path.join(name)).unwrap());
    let files: Vec<_> = ["format", "bins", "data"].map(read).into();
    remove_control(&path);
    let data = &files.last().unwrap().1;
    let content = (0..data.len()).filter(|at| data.get(*at).is_some_and(|byte| *byte != 0));
    Template { content: content.collect(), files }
}

/// Damage of a log, which is then opened as after a reboot. A session that is read is one of its
/// own versions, and the store goes on.
pub fn engine_log(data: &[u8]) {
    static TEMPLATE: OnceLock<Template> = OnceLock::new();
    let template = TEMPLATE.get_or_init(template);
    // First which part of the log is left, in 1/8; others: all.
    let Some((&kept, data)) = data.split_first() else { return };
    let damages = all_of::<Damage>(data, DAMAGES_MAX);
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    for (name, bytes) in &template.files {
        let mut bytes = bytes.clone();
        if *name == "data" {
            for damage in &damages {
                let place = (usize::from(damage.at) * template.content.len()) >> 16;
                let Some(at) = template.content.get(place) else { continue };
                for (byte, bits) in bytes.iter_mut().skip(*at).zip(damage.bits) {
                    *byte ^= bits;
                }
            }
            if (1..8).contains(&kept) {
                bytes.truncate(bytes.len() / 8 * usize::from(kept));
            }
        }
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let Ok(sessions) = opened(folder.path()) else { return };
    sessions.verify(&mut |_| ()).unwrap();
    for number in 0..SESSIONS {
        if let Ok(Some(record)) = sessions.peek(&key(number)) {
            let is_own = (0..2).any(|version| record.payload == payload(number, version));
            assert!(is_own, "session {number} has a payload that it never had");
        }
        sessions.destroy(&key(number)).unwrap();
        sessions.create(&key(number), &payload(number, 7), ttl()).unwrap();
        let found = sessions.peek(&key(number)).unwrap().map(|record| record.payload);
        assert!(found == Some(payload(number, 7)), "session {number} is not what was stored");
    }
    drop(sessions);
    remove_control(folder.path());
}
