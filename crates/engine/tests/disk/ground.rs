//! A directory on a disk for the tests of this program, and how they look at what is in it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sessile_core::{Clock, Detail, Key, Limits, Sessions, Timestamp, Ttl};
use sessile_engine::{EngineOptions, open};

pub const START: Timestamp = Timestamp::from_ms(1_800_000_000_000);
pub const WAIT: Duration = Duration::from_secs(60);

/// A directory on a disk; /tmp is often in memory.
pub struct Ground {
    folder: tempfile::TempDir,
    pub clock: Clock,
}

impl Ground {
    pub fn new() -> Ground {
        Ground {
            folder: tempfile::TempDir::new_in("/var/tmp").unwrap(),
            clock: Clock::manual(START),
        }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub fn open(&self) -> Sessions {
        self.open_with(&EngineOptions::default())
    }

    pub fn open_with(&self, options: &EngineOptions) -> Sessions {
        let limits = Limits { payload_bytes_max: 128 << 20, ..Limits::default() };
        Sessions::new("sessile", open(&self.path(), self.clock.clone(), options).unwrap(), limits)
    }

    /// The control plane is gone, as after a reboot, and is made anew from the log.
    pub fn rebuild(&self, sessions: Sessions) -> Sessions {
        sound(&sessions);
        drop(sessions);
        std::fs::remove_dir_all(control_of(&self.path())).unwrap();
        let sessions = self.open();
        sound(&sessions);
        sessions
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if self.path().join("plane").exists() {
            let _ = std::fs::remove_dir_all(control_of(&self.path()));
        }
    }
}

pub fn control_of(store: &Path) -> PathBuf {
    let text = std::fs::read_to_string(store.join("plane")).unwrap();
    PathBuf::from(text.lines().next().unwrap().strip_prefix("control ").unwrap())
}

pub fn key(number: usize) -> Key {
    Key::session(&format!("session-{number}")).unwrap()
}

pub fn ttl(seconds: u64) -> Ttl {
    Ttl::sliding(Duration::from_secs(seconds)).unwrap()
}

pub fn payload(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + number) as u8).collect()
}

pub fn read(sessions: &Sessions, key: &Key) -> Option<Vec<u8>> {
    sessions.peek(key).unwrap().map(|record| record.payload)
}

pub fn detail(sessions: &Sessions, name: &str) -> u64 {
    match sessions.details().unwrap().into_iter().find(|detail| detail.0 == name).unwrap().1 {
        Detail::Count(value) | Detail::Bytes(value) | Detail::Milliseconds(value) => value,
        Detail::Text(text) => panic!("{name} is {text}"),
    }
}

pub fn sound(sessions: &Sessions) {
    let verified = sessions.verify(&mut |_| ()).unwrap();
    assert!(verified.problems.is_empty(), "{:?}", verified.problems);
}
