//! The directory that is shared with PHP: where each file is, and the files beside PHP's.
//!
//! ```text
//!   dir/sess_<id>                  a session, as PHP names it; with depth=2: dir/a/b/sess_ab...
//!   dir/.sessile/format, waiting, .turns   as in the store's own mode
//!   dir/.sessile/<bin>/past/<id>   a tombstone or alias (frame.rs), while there is no session of that id
//!   dir/.sessile/<bin>/redo/<id>   an overwriting that is under way (php_redo.rs)
//!   dir/.sessile/<bin>/data/sess_<id>   sessions of other bins than `session`, out of PHP's sight
//! ```
//!
//! Invariant: nothing but `sess_<id>` of the bin `session` and `.sessile` is ever created where PHP looks. A file
//! in `past` is replaced or removed only under its gate, as in the store's own mode.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, OFlags, RenameFlags, Stat, fstat, futimens, openat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;
use sessile_core::{Bin, Clock, Error, ErrorKind, Key, Result, Timestamp};

use super::content::{Content, read};
use super::directory::{Directory, FILE_MODE, TEMPORARY, temporary_name};
use super::frame::Header;
use super::gate;
use super::system::{Identity, check_session_file, failed, modified_at};

/// PHP's prefix of session files.
pub const PREFIX: &str = "sess_";
/// The folder of what PHP does not know.
pub const BESIDE: &str = ".sessile";

/// The directory and the one beside it.
pub struct Shared {
    pub root: Directory,
    pub beside: Directory,
    pub depth: usize,
}

impl Shared {
    pub fn open(path: &Path, depth: usize, clock: &Clock) -> Result<Shared> {
        let root = Directory::open(path, true)?;
        if root.stat("format")?.is_some() && root.stat("waiting")?.is_some() {
            return Err(Error::new(ErrorKind::Incompatible, "the directory is one of the store's own mode")
                .advice("remove ?php=1, or use the directory in session.save_path"));
        }
        let beside = root.subdirectory(BESIDE)?;
        beside.claim(clock)?;
        let shared = Shared { root, beside, depth };
        shared.check_depth()?;
        shared.make_bin(&Bin::SESSION)?;
        Ok(shared)
    }

    /// PHP never creates the directories of `session.save_path = "N;..."`, and neither does this store: the
    /// characters that ids begin with are a setting of PHP's.
    fn check_depth(&self) -> Result<()> {
        if self.depth == 0 {
            return Ok(());
        }
        let digits: Vec<String> = "0123456789abcdef".chars().map(String::from).collect();
        let mut expected = digits.clone();
        if self.depth > 1 {
            expected.extend(digits.iter().flat_map(|one| digits.iter().map(move |two| format!("{one}/{two}"))));
        }
        let mut missing = Vec::new();
        for name in &expected {
            if self.root.stat(name)?.is_none() {
                missing.push(name.as_str());
            }
        }
        let Some(first) = missing.first() else { return Ok(()) };
        let why = format!("{} of the directories of depth {} are missing, first {first:?}", missing.len(), self.depth);
        let braces = "/{0,1,2,3,4,5,6,7,8,9,a,b,c,d,e,f}".repeat(self.depth);
        Err(Error::new(ErrorKind::Io, why).advice(format!(
            "PHP does not create them either: in bash, mkdir -p -m 700 DIR{braces}, owned by PHP's user"
        )))
    }

    fn make_bin(&self, bin: &Bin) -> Result<()> {
        self.beside.make(bin.name())?;
        for part in ["past", "redo", "data"] {
            self.beside.make(&format!("{}/{part}", bin.name()))?;
        }
        Ok(())
    }

    /// The directory and the name of a session's file in it.
    pub fn file(&self, key: &Key) -> Result<(&Directory, String)> {
        if *key.bin() != Bin::SESSION {
            return Ok((&self.beside, format!("{}/data/{PREFIX}{}", key.bin().name(), key.id())));
        }
        let mut name = String::new();
        let mut letters = key.id().chars();
        for letter in letters.by_ref().take(self.depth) {
            name.extend([letter, '/']);
        }
        if letters.next().is_none() {
            let why = format!("the id is malformed: with depth {} it needs more characters", self.depth);
            return Err(Error::new(ErrorKind::InvalidId, why));
        }
        Ok((&self.root, name + PREFIX + key.id()))
    }

    /// Opens a session's file; `None` when there is none and it is not to be created.
    pub fn open_file(&self, key: &Key, flags: OFlags) -> Result<Option<OwnedFd>> {
        let (directory, name) = self.file(key)?;
        let creates = flags.contains(OFlags::CREATE);
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        match openat(&directory.fd, &name, flags, FILE_MODE) {
            Ok(file) if creates => {
                directory.adopt(&file).map_err(|errno| failed("a file cannot be given to PHP's user", errno))?;
                Ok(Some(file))
            }
            Ok(file) => Ok(Some(file)),
            Err(Errno::NOENT) if creates && *key.bin() != Bin::SESSION => {
                self.make_bin(key.bin())?;
                let again = openat(&directory.fd, &name, flags, FILE_MODE);
                again.map(Some).map_err(|errno| failed("a session file cannot be opened", errno))
            }
            Err(Errno::NOENT) if creates => Err(self.missing_directory()),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed("a session file cannot be opened", errno)),
        }
    }

    /// What to say when the directory of a session's file is missing.
    pub fn missing_directory(&self) -> Error {
        let why = format!("the session's directory of depth {} is missing", self.depth);
        Error::new(ErrorKind::Io, why).advice("create the directories for all characters that ids can begin with")
    }

    pub fn open_checked(&self, key: &Key, flags: OFlags) -> Result<Option<(OwnedFd, Stat)>> {
        let Some(file) = self.open_file(key, flags)? else { return Ok(None) };
        let stat = fstat(&file).map_err(|errno| failed("a session file cannot be examined", errno))?;
        check_session_file(&stat)?;
        Ok(Some((file, stat)))
    }

    pub fn stat(&self, key: &Key) -> Result<Option<Stat>> {
        let (directory, name) = self.file(key)?;
        directory.stat(&name)
    }

    pub fn still_names(&self, key: &Key, identity: Identity) -> Result<bool> {
        Ok(self.stat(key)?.is_some_and(|stat| Identity::of(&stat) == identity))
    }

    pub fn remove(&self, key: &Key) -> Result<()> {
        let (directory, name) = self.file(key)?;
        unlink(directory, &name)
    }

    /// A complete file beside PHP's, under a temporary name.
    pub fn write_beside(&self, bin: &Bin, bytes: &[u8], time: Option<Timestamp>) -> Result<(OwnedFd, String)> {
        let name = temporary_name(&format!("{}/redo/", bin.name()));
        let cannot_write = |errno| failed("a file beside the sessions cannot be written", errno);
        let created = match self.beside.create(&name) {
            Err(Errno::NOENT) => {
                self.make_bin(bin)?;
                self.beside.create(&name)
            }
            created => created,
        };
        let file = created.map_err(cannot_write)?;
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            match rustix::io::write(&file, rest) {
                Ok(more) => written += more,
                Err(errno) => {
                    unlink(&self.beside, &name)?;
                    return Err(cannot_write(errno));
                }
            }
        }
        if let Some(time) = time {
            futimens(&file, &modified_at(time)).map_err(cannot_write)?;
        }
        Ok((file, name))
    }

    /// Gives a file beside PHP's its name, replacing what had it.
    pub fn publish_beside(&self, from: &str, to: &str) -> Result<()> {
        renameat(&self.beside.fd, from, &self.beside.fd, to).map_err(|errno| {
            // The sweep removes it otherwise.
            let _ = unlink(&self.beside, from);
            failed("a file beside the sessions cannot be put in place", errno)
        })
    }

    /// What is remembered of an id that has no session.
    pub fn past(&self, key: &Key) -> Result<Content> {
        match self.open_past(key)? {
            None => Ok(Content::Empty),
            Some((file, stat)) => read(&file, &stat),
        }
    }

    fn open_past(&self, key: &Key) -> Result<Option<(OwnedFd, Stat)>> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match openat(&self.beside.fd, past_name(key), flags, FILE_MODE) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed("a tombstone cannot be read", errno)),
        };
        let stat = fstat(&file).map_err(|errno| failed("a tombstone cannot be examined", errno))?;
        check_session_file(&stat)?;
        Ok(Some((file, stat)))
    }

    /// Remembers what became of an id.
    pub fn remember(&self, key: &Key, header: &Header, payload: &[u8], forget: Timestamp) -> Result<()> {
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(payload);
        let (_file, from) = self.write_beside(key.bin(), &bytes, Some(forget))?;
        let (fd, to) = (&self.beside.fd, past_name(key));
        loop {
            match renameat_with(fd, &from, fd, &to, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => {}
                Err(errno) => {
                    unlink(&self.beside, &from)?;
                    return Err(failed("a tombstone cannot be put in place", errno));
                }
            }
            let Some((old, stat)) = self.open_past(key)? else { continue };
            gate::enter(&old)?;
            if self.beside.stat(&to)?.is_some_and(|named| Identity::of(&named) == Identity::of(&stat)) {
                return self.publish_beside(&from, &to);
            }
        }
    }

    /// Takes back what was remembered, if it says just this.
    pub fn forget(&self, key: &Key) -> Result<()> {
        let Some((file, stat)) = self.open_past(key)? else { return Ok(()) };
        gate::enter(&file)?;
        let name = past_name(key);
        match self.beside.stat(&name)? {
            Some(named) if Identity::of(&named) == Identity::of(&stat) => unlink(&self.beside, &name),
            _ => Ok(()),
        }
    }
}

/// Where what became of an id is remembered, beside PHP's files.
pub fn past_name(key: &Key) -> String {
    format!("{}/past/{}", key.bin().name(), key.id())
}

/// Where an overwriting is written down, beside PHP's files.
pub fn redo_name(key: &Key) -> String {
    format!("{}/redo/{}", key.bin().name(), key.id())
}

/// Whether a file beside PHP's is a temporary one.
pub fn is_temporary(name: &str) -> bool {
    name.starts_with(TEMPORARY)
}

/// Removes a name; that it is gone already is success.
pub fn unlink(directory: &Directory, name: &str) -> Result<()> {
    match unlinkat(&directory.fd, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed("a session file cannot be removed", errno)),
    }
}
