//! `files-flock`: one file a session with flock, as PHP's own handler has them.
//!
//! Open or create, flock, fstat, pread; ftruncate if it becomes shorter, pwrite, close, which
//! unlocks. A touch sets the time of change. Nothing is synced, and an expired session is read
//! until somebody removes its file.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sessile_core::{Error, ErrorKind, Result};

use super::handlers::ids;
use crate::contender::Contender;
use crate::reference::{AfterDeath, Reference, unprepared};
use crate::worker::protocol::OpenRequest;

pub(super) const REFERENCE: Reference = Reference {
    name: "files-flock",
    sentence: "Files as PHP's own handler writes them: open, flock, read, write, close",
    on_disk: true,
    after_death: AfterDeath::Freed,
    ..Reference::shared(open)
};

struct FilesFlock {
    paths: Vec<PathBuf>,
    out: Vec<u8>,
    begun: Option<File>,
}

fn open(place: &Path, opening: &OpenRequest) -> Result<Box<dyn Contender>> {
    let paths = ids(opening).map(|id| place.join(format!("sess_{id}"))).collect();
    Ok(Box::new(FilesFlock { paths, out: Vec::new(), begun: None }))
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

    fn create(&mut self, session: usize, payload: &[u8], _ttl: Duration) -> Result<()> {
        let file = self.locked(session)?;
        self.load(&file)?;
        write(&file, self.out.len(), payload)
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
}
