//! `files-flock`: one file a session with flock, as PHP's own handler has them.
//!
//! Open or create, flock, fstat, pread; ftruncate if it becomes shorter, pwrite, close, which
//! unlocks. A touch sets the time of change. Nothing is synced, and an expired session is read
//! until somebody removes its file: a sweep looks at the time of change of each, as PHP's does.
//!
//! Source: `mod_files.c` of PHP, `ps_files_cleanup_dir`.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sessile_core::{Budget, Error, ErrorKind, Result, Swept};

use super::handlers::ids;
use crate::contender::Contender;
use crate::reference::unprepared;
use crate::worker::protocol::OpenRequest;

const PREFIX: &str = "sess_";

struct FilesFlock {
    place: PathBuf,
    /// After its last change, a session lives as long.
    ttl: Duration,
    paths: Vec<PathBuf>,
    out: Vec<u8>,
    begun: Option<File>,
}

pub(super) fn open(place: &Path, opening: &OpenRequest) -> Result<Box<dyn Contender>> {
    let paths = ids(opening).map(|id| place.join(format!("{PREFIX}{id}"))).collect();
    let (place, ttl) = (place.to_owned(), opening.ttl);
    Ok(Box::new(FilesFlock { place, ttl, paths, out: Vec::new(), begun: None }))
}

fn failed(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "the file system refused the operation").source(error)
}

impl FilesFlock {
    fn locked(&self, session: usize) -> Result<File> {
        let path = self.paths.get(session).ok_or_else(unprepared)?;
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(failed)?;
        file.lock().map_err(failed)?;
        Ok(file)
    }

    /// `false` for a new file, which is empty.
    fn load(&mut self, file: &File) -> Result<bool> {
        let size = file.metadata().map_err(failed)?.len();
        self.out.resize(usize::try_from(size).unwrap_or(usize::MAX), 0);
        file.read_exact_at(&mut self.out, 0).map_err(failed)?;
        Ok(size > 0)
    }
}

fn write(file: &File, old_bytes: usize, payload: &[u8]) -> Result<()> {
    if old_bytes > payload.len() {
        file.set_len(0).map_err(failed)?;
    }
    file.write_all_at(payload, 0).map_err(failed)
}

impl Contender for FilesFlock {
    fn prefetch_ids(&mut self, sessions: &[usize]) {
        let paths = sessions.iter().filter_map(|session| self.paths.get(*session));
        let first = |path: &PathBuf| path.as_os_str().as_encoded_bytes().first().copied();
        std::hint::black_box(paths.fold(0, |all, path| all ^ first(path).unwrap_or(0)));
    }

    /// A file expires by the time of its last change, so a short life sets that time back.
    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        let now = SystemTime::now();
        let file = self.locked(session)?;
        self.load(&file)?;
        write(&file, self.out.len(), payload)?;
        match self.ttl.saturating_sub(ttl) {
            Duration::ZERO => Ok(()),
            earlier => file.set_modified(now - earlier).map_err(failed),
        }
    }

    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let file = self.locked(session)?;
        let there = self.load(&file)?;
        Ok(there.then_some(self.out.as_slice()))
    }

    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let file = self.locked(session)?;
        let there = self.load(&file)?;
        self.begun = Some(file);
        Ok(there.then_some(self.out.as_slice()))
    }

    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        let file = self.begun.take().ok_or_else(unprepared)?;
        write(&file, self.out.len(), payload)
    }

    fn touch(&mut self) -> Result<()> {
        let file = self.begun.take().ok_or_else(unprepared)?;
        file.set_modified(SystemTime::now()).map_err(failed)
    }

    fn release(&mut self) -> Result<()> {
        self.begun = None;
        Ok(())
    }

    fn destroy(&mut self, session: usize) -> Result<()> {
        let path = self.paths.get(session).ok_or_else(unprepared)?;
        std::fs::remove_file(path).map_err(failed)
    }

    /// PHP's has no budget: it looks at all files in one call.
    fn sweep(&mut self, _budget: Budget) -> Result<Swept> {
        let mut swept = Swept { examined: 0, removed: 0, complete: true };
        let now = SystemTime::now();
        for entry in std::fs::read_dir(&self.place).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
                continue;
            }
            let path = entry.path();
            let Ok(changed) = path.metadata().and_then(|it| it.modified()) else { continue };
            swept.examined += 1;
            let is_expired = now.duration_since(changed).is_ok_and(|age| age > self.ttl);
            // Another sweep may have been faster.
            if is_expired && std::fs::remove_file(&path).is_ok() {
                swept.removed += 1;
            }
        }
        Ok(swept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::tests::Place;

    /// PHP's files had no row beside deletions, which a published measurement was about.
    #[test]
    fn a_sweep_removes_what_was_not_changed_for_a_lifetime_and_nothing_else() {
        let place = Place::start("files-flock").unwrap();
        let mut files = place.open();
        files.create(0, b"old", Duration::ZERO).unwrap();
        files.create(1, b"new", Duration::from_secs(60)).unwrap();
        assert!(files.begin(0).unwrap().is_some(), "it is there until it is swept");
        files.release().unwrap();
        let sweep = |files: &mut dyn Contender| files.sweep(Budget::default()).unwrap();
        let swept = sweep(&mut *files);
        assert_eq!((swept.examined, swept.removed, swept.complete), (2, 1, true));
        assert_eq!(files.read(1).unwrap(), Some(&b"new"[..]));
        // A change makes it live longer.
        files.create(1, b"new", Duration::ZERO).unwrap();
        files.begin(1).unwrap();
        files.commit(b"newer").unwrap();
        assert_eq!(sweep(&mut *files).removed, 0);
        files.destroy(1).unwrap();
        assert_eq!(files.read(1).unwrap(), None);
    }
}
