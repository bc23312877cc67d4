//! `php+files:/dir`: the files of PHP's own handler, `sess_<id>` in a directory or, with
//! `session.save_path = "N;/dir"`, in directories of one character below it.
//!
//! Source: ext/session/mod_files.c. Only directories are opened, so no lock and no access time
//! changes. The size of a file is that of the payload. Its modification time is the last request
//! (PHP also sets it without a change, `session.lazy_write`), its birth the session's.

use std::fs::{self, ReadDir};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sessile_core::{Clock, Error, ErrorKind, Limits, Result, Timestamp};

use super::{EntryName, Layout, ScannedEntry, Walk};
use crate::registry::option;
use crate::store_url::StoreUrl;

pub const LAYOUT: Layout = Layout {
    program: "php",
    storages: &["files"],
    reads: "the files of PHP's own handler",
    example: "php+files:/var/lib/php/sessions",
    options: &[option("maxlifetime", "session.gc_maxlifetime in seconds (default 1440)")],
    of_connection: |_| &[],
    sessions_only: None,
    store: None,
    open,
};

const PREFIX: &str = "sess_";
/// Deeper than any known installation; PHP has no limit.
const DEPTH_MAX: usize = 8;

fn open(url: &StoreUrl, _clock: &Clock) -> Result<Box<dyn Walk>> {
    let first = fs::read_dir(url.path()?).map_err(failed)?;
    let seconds = url.number("maxlifetime", 1_440, 1..=Limits::TTL_MAX.as_secs())?;
    let maxlifetime = Duration::from_secs(seconds);
    Ok(Box::new(Files { bin: "session".into(), maxlifetime, open: vec![first] }))
}

struct Files {
    bin: Arc<str>,
    maxlifetime: Duration,
    /// The directories that are being read, the deepest last.
    open: Vec<ReadDir>,
}

impl Walk for Files {
    fn page(&mut self, entries_max: usize, show: &mut dyn FnMut(ScannedEntry)) -> Result<bool> {
        for _ in 0..entries_max {
            let Some(listing) = self.open.last_mut() else { return Ok(false) };
            let Some(entry) = listing.next() else {
                self.open.pop();
                continue;
            };
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if let Some(id) = name.strip_prefix(PREFIX) {
                // PHP does not follow links either.
                if let Some(status) = found(entry.metadata())?.filter(fs::Metadata::is_file) {
                    show(self.seen(id, &status));
                }
            } else if name.len() == 1 && self.open.len() <= DEPTH_MAX {
                self.descend(&entry.path())?;
            }
        }
        Ok(true)
    }
}

impl Files {
    fn seen(&self, id: &str, status: &fs::Metadata) -> ScannedEntry {
        let used = status.modified().ok().map(moment);
        ScannedEntry {
            bin: Arc::clone(&self.bin),
            name: EntryName::Secret(id.as_bytes().to_vec()),
            bytes: status.len(),
            // Unknown on some file systems.
            created: status.created().ok().map(moment),
            used,
            expires: used.map(|used| used.plus(self.maxlifetime)),
        }
    }

    fn descend(&mut self, path: &Path) -> Result<()> {
        if found(fs::symlink_metadata(path))?.is_some_and(|status| status.is_dir()) {
            match fs::read_dir(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                listing => self.open.push(listing.map_err(failed)?),
            }
        }
        Ok(())
    }
}

fn moment(time: SystemTime) -> Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// `None` if the session has ended meanwhile. Any other failure is an error: it would hide
/// sessions.
fn found(status: io::Result<fs::Metadata>) -> Result<Option<fs::Metadata>> {
    match status {
        Ok(status) => Ok(Some(status)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(Error::new(
            ErrorKind::Denied,
            "the directory may be listed, but not its files be looked at",
        )
        .advice("scan as its owner, or as a user with execute permission on it")
        .source(error)),
        Err(error) => Err(failed(error)),
    }
}

fn failed(error: io::Error) -> Error {
    let (kind, why, advice) = match error.kind() {
        io::ErrorKind::PermissionDenied => (
            ErrorKind::Denied,
            "the directory may not be listed",
            "scan as a user who may read it; on Debian PHP's own is for root only",
        ),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            (ErrorKind::Io, "there is no such directory", "name the one in session.save_path")
        }
        _ => (
            ErrorKind::Io,
            "the directory cannot be listed",
            "the cause is in the details of this error",
        ),
    };
    Error::new(kind, why).advice(advice).source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(path: &Path, page: usize) -> Vec<ScannedEntry> {
        let url = StoreUrl::parse(&format!("files:{}", path.display())).unwrap();
        let mut walk = open(&url, &Clock::system()).unwrap();
        let mut seen = Vec::new();
        while walk.page(page, &mut |entry| seen.push(entry)).unwrap() {}
        seen
    }

    #[test]
    fn files_of_sessions_are_seen_at_every_depth_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::create_dir_all(dir.path().join("other")).unwrap();
        for (name, bytes) in
            [("sess_one", 10), ("a/b/sess_abtwo", 2_000), ("a/sess_athree", 0), ("sess_.four", 4)]
        {
            fs::write(dir.path().join(name), vec![b'x'; bytes]).unwrap();
        }
        for name in ["other/sess_no", "note", "a/note"] {
            fs::write(dir.path().join(name), b"x").unwrap();
        }
        std::os::unix::fs::symlink("sess_one", dir.path().join("sess_link")).unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("l")).unwrap();
        for page in [1, 2, 1_000] {
            let mut sizes: Vec<u64> =
                walked(dir.path(), page).iter().map(|seen| seen.bytes).collect();
            sizes.sort_unstable();
            assert_eq!(sizes, [0, 4, 10, 2_000], "in pages of {page}");
        }
        let used = walked(dir.path(), 10)
            .iter()
            .all(|seen| seen.used.is_some() && seen.expires > seen.used);
        assert!(used);
    }

    #[test]
    fn only_a_session_that_has_ended_is_passed_over() {
        assert!(found(Err(io::ErrorKind::NotFound.into())).unwrap().is_none());
        for kind in [
            io::ErrorKind::PermissionDenied,
            io::ErrorKind::StaleNetworkFileHandle,
            io::ErrorKind::Other,
        ] {
            assert!(found(Err(kind.into())).is_err(), "{kind}");
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        let url = StoreUrl::parse(&format!("files:{}", missing.display())).unwrap();
        let error = open(&url, &Clock::system()).err().unwrap();
        assert!(format!("{error:#}").contains("no such directory"), "{error:#}");
        assert!(!missing.exists());
    }
}
