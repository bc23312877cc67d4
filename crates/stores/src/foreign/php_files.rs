//! `php+files:/dir`: the files of PHP's own handler, `sess_<id>` in a directory or, with `session.save_path = "N;/dir"`,
//! in directories of one character below it.
//!
//! Source: ext/session/mod_files.c. Nothing is opened but directories: the size of a file is that of the payload, its
//! modification is the last request (PHP sets it also where nothing changed, `session.lazy_write`), its birth the
//! session's. So neither a lock nor the time of the last access is touched.

use std::fs::{self, ReadDir};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sessile_core::{Clock, Error, ErrorKind, Limits, Result, Timestamp};

use super::{Layout, Name, Seen, Walk};
use crate::registry::OptionHelp;
use crate::store_url::StoreUrl;

pub(super) const LAYOUT: Layout = Layout {
    schemes: &["php+files"],
    reads: "the files of PHP's own handler",
    example: "php+files:/var/lib/php/sessions",
    options: &[MAXLIFETIME],
    of_connection: |_| &[],
    open,
};

pub(super) const MAXLIFETIME: OptionHelp =
    OptionHelp { name: "maxlifetime", help: "session.gc_maxlifetime in seconds (default 1440)" };

const PREFIX: &str = "sess_";
/// PHP itself has no limit; nobody has more.
const DEPTH_MAX: usize = 8;

/// What PHP's `session.gc_maxlifetime` is said to be.
pub(super) fn maxlifetime(url: &StoreUrl) -> Result<Duration> {
    url.number(MAXLIFETIME.name, 1_440, 1..=Limits::TTL_MAX.as_secs()).map(Duration::from_secs)
}

fn open(url: &StoreUrl, _clock: &Clock) -> Result<Box<dyn Walk>> {
    let first = fs::read_dir(url.path()?).map_err(failed)?;
    Ok(Box::new(Files { bin: "session".into(), maxlifetime: maxlifetime(url)?, open: vec![first] }))
}

struct Files {
    bin: Arc<str>,
    maxlifetime: Duration,
    /// The directory that is being read, and those above it.
    open: Vec<ReadDir>,
}

impl Walk for Files {
    fn page(&mut self, entries_max: usize, show: &mut dyn FnMut(Seen)) -> Result<bool> {
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
                // Links are not followed, as PHP does not.
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
    fn seen(&self, id: &str, status: &fs::Metadata) -> Seen {
        let used = status.modified().ok().map(moment);
        Seen {
            bin: Arc::clone(&self.bin),
            name: Name::Secret(id.as_bytes().to_vec()),
            bytes: status.len(),
            // Not every file system knows it.
            created: status.created().ok().map(moment),
            used,
            expires: used.map(|used| used.plus(self.maxlifetime)),
        }
    }

    fn descend(&mut self, path: &Path) -> Result<()> {
        if found(fs::symlink_metadata(path))?.is_some_and(|status| status.is_dir()) {
            match fs::read_dir(path) {
                Ok(listing) => self.open.push(listing),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }
}

fn moment(time: SystemTime) -> Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// What there is at a name that was listed; `None` when it is gone by now: a session that ended. Any other failure would
/// hide sessions that are there.
fn found(status: io::Result<fs::Metadata>) -> Result<Option<fs::Metadata>> {
    match status {
        Ok(status) => Ok(Some(status)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(Error::new(ErrorKind::Denied, "the directory may be listed, but not its files be looked at")
                .advice("scan as its owner, or as a user with execute permission on it")
                .source(error))
        }
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
        _ => (ErrorKind::Io, "the directory cannot be listed", "the cause is in the details of this error"),
    };
    Error::new(kind, why).advice(advice).source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(path: &Path, page: usize) -> Vec<Seen> {
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
        for (name, bytes) in [("sess_one", 10), ("a/b/sess_abtwo", 2_000), ("a/sess_athree", 0), ("sess_.four", 4)] {
            fs::write(dir.path().join(name), vec![b'x'; bytes]).unwrap();
        }
        for name in ["other/sess_no", "note", "a/note"] {
            fs::write(dir.path().join(name), b"x").unwrap();
        }
        std::os::unix::fs::symlink("sess_one", dir.path().join("sess_link")).unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("l")).unwrap();
        for page in [1, 2, 1_000] {
            let mut sizes: Vec<u64> = walked(dir.path(), page).iter().map(|seen| seen.bytes).collect();
            sizes.sort_unstable();
            assert_eq!(sizes, [0, 4, 10, 2_000], "in pages of {page}");
        }
        let used = walked(dir.path(), 10).iter().all(|seen| seen.used.is_some() && seen.expires > seen.used);
        assert!(used);
    }

    #[test]
    fn only_a_session_that_has_ended_is_passed_over() {
        assert!(found(Err(io::ErrorKind::NotFound.into())).unwrap().is_none());
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::StaleNetworkFileHandle, io::ErrorKind::Other] {
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
