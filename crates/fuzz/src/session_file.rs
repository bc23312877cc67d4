//! The files of `files:`, own and of PHP, as somebody else may have left them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use sessile_core::{Clock, Key, Sessions, Ttl};
use sessile_stores::{Context, open};

const PAYLOAD: &[u8] = b"cart|a:1:{i:0;s:4:\"book\";}";

struct Store {
    sessions: Sessions,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

fn key() -> Key {
    Key::session("0123456789abcdef0123456789abcdef").unwrap()
}

fn ttl() -> Ttl {
    Ttl::sliding(Duration::from_secs(3_600)).unwrap()
}

fn store(options: &str) -> Store {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("files:{}{options}", folder.path().display());
    let sessions = open(&url, &Context { clock: Clock::system() }).unwrap();
    sessions.create(&key(), PAYLOAD, ttl()).unwrap();
    let file = holding(folder.path()).unwrap();
    Store { sessions, file, _folder: folder }
}

/// The file with the payload.
fn holding(folder: &Path) -> Option<PathBuf> {
    std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).find_map(|path| {
        if path.is_dir() {
            return holding(&path);
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        bytes.windows(PAYLOAD.len()).any(|window| window == PAYLOAD).then_some(path)
    })
}

/// Bytes as the content of a session's file. It reads as a payload or an error; a log-out and a new
/// session follow all the same.
pub fn session_file(data: &[u8]) {
    static OWN: OnceLock<Store> = OnceLock::new();
    static OF_PHP: OnceLock<Store> = OnceLock::new();
    for store in [OWN.get_or_init(|| store("")), OF_PHP.get_or_init(|| store("?php=1"))] {
        std::fs::write(&store.file, data).unwrap();
        let _ = store.sessions.peek(&key());
        if let Ok(begun) = store.sessions.begin(&key(), Duration::ZERO) {
            let _ = begun.lease.release();
        }
        store.sessions.destroy(&key()).unwrap();
        assert!(store.sessions.peek(&key()).unwrap().is_none());
        store.sessions.create(&key(), PAYLOAD, ttl()).unwrap();
        let found = store.sessions.peek(&key()).unwrap().map(|record| record.payload);
        assert_eq!(found.as_deref(), Some(PAYLOAD));
    }
}
