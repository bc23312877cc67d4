//! The directory that is shared with PHP, and the files beside PHP's.
//!
//! ```text
//!   dir/sess_<id>                  a session, as PHP names it; with depth=2: dir/a/b/sess_ab...
//!   dir/.sessile.<uid>/...         what this user keeps beside PHP's files:
//!     format, waiting, .turns      as in the store's own mode
//!     <bin>/past/id_<id>           a tombstone or alias (frame.rs), while no session has the id
//!     <bin>/redo/id_<id>           an overwriting that is under way (redo.rs)
//!     <bin>/data/id_<id>           sessions of other bins than `session`, hidden from PHP
//! ```
//!
//! Each user has his own, because in Debian's directory everybody may make files, as PHP does: its
//! file of a session is for one user alone, too. Invariants:
//!
//! * only `sess_<id>` of the bin `session` and `.sessile.<uid>` are created where PHP looks;
//! * no other name begins with `sess_`, by which jobs find what to remove, down to all folders;
//! * a file in `past` is replaced or removed only under its gate, as in the store's own mode.

use std::path::Path;
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::process::geteuid;
use sessile_core::{Bin, Clock, Error, ErrorKind, Key, Result, Stored, Timestamp};

use crate::files::claim::{claim, incompatible};
use crate::files::content::{read, write};
use crate::files::directory::{Directory, FileName};
use crate::files::temporary::Temporary;

pub const PREFIX: &str = "sess_";
/// An id may begin with `sess_` itself.
pub const PREFIX_BESIDE: &str = "id_";

pub struct SharedDirectory {
    pub root: Directory,
    pub beside: Arc<Directory>,
    /// Of `beside`, in `root`.
    pub beside_name: String,
    pub depth: usize,
}

impl SharedDirectory {
    pub fn open(path: &Path, depth: usize, clock: &Clock) -> Result<SharedDirectory> {
        let root = Directory::open(path, true)?;
        if root.name("format").stat()?.is_some() && root.name("waiting").stat()?.is_some() {
            return Err(incompatible(
                "the directory is one of the store's own mode",
                "remove ?php=1, or use the directory in session.save_path",
            ));
        }
        let beside_name = format!(".sessile.{}", geteuid().as_raw());
        let beside = Arc::new(root.private_folder(&beside_name)?);
        claim(&beside, clock)?;
        check_depth(&root, depth)?;
        Ok(SharedDirectory { root, beside, beside_name, depth })
    }

    pub fn file(&self, key: &Key) -> Result<FileName<'_>> {
        if *key.bin() != Bin::SESSION {
            return Ok(self.beside_file("data", key));
        }
        let mut name = String::new();
        let mut letters = key.id().chars();
        for letter in letters.by_ref().take(self.depth) {
            name.extend([letter, '/']);
        }
        if letters.next().is_none() {
            let why =
                format!("the id is malformed: with depth {} it needs more characters", self.depth);
            return Err(Error::new(ErrorKind::InvalidId, why));
        }
        Ok(self.root.name(name + PREFIX + key.id()))
    }

    fn beside_file(&self, part: &str, key: &Key) -> FileName<'_> {
        self.beside.name(format!("{}/{part}/{PREFIX_BESIDE}{}", key.bin().name(), key.id()))
    }

    pub fn redo(&self, key: &Key) -> FileName<'_> {
        self.beside_file("redo", key)
    }

    pub fn past(&self, key: &Key) -> FileName<'_> {
        self.beside_file("past", key)
    }

    pub fn remembered(&self, key: &Key) -> Result<Stored> {
        match self.past(key).open_checked(OFlags::RDWR)? {
            None => Ok(Stored::Nothing),
            Some((file, stat)) => read(key, &file, &stat).map(|(stored, _)| stored),
        }
    }

    pub fn remember(&self, key: &Key, past: &Stored, now: Timestamp) -> Result<()> {
        let name = self.past(key);
        let mut new = Temporary::create(&name)?;
        write(&new, past, b"", now, false)?;
        while !new.link(&name)? {
            let Some(old) = name.open_checked(OFlags::RDWR)? else { continue };
            if name.enter_gate(&old)?.is_some() {
                return new.publish(&name);
            }
        }
        Ok(())
    }

    pub fn forget(&self, key: &Key) -> Result<()> {
        let name = self.past(key);
        let Some(file) = name.open_checked(OFlags::RDWR)? else { return Ok(()) };
        if name.enter_gate(&file)?.is_some() { name.unlink() } else { Ok(()) }
    }
}

/// A setting of PHP decides the first characters of ids. So neither PHP nor this store creates the
/// directories of `session.save_path = "N;..."`.
fn check_depth(root: &Directory, depth: usize) -> Result<()> {
    let digits = || "0123456789abcdef".chars();
    let mut expected = Vec::new();
    if depth > 0 {
        expected.extend(digits().map(String::from));
    }
    if depth > 1 {
        expected.extend(digits().flat_map(|one| digits().map(move |two| format!("{one}/{two}"))));
    }
    let mut missing = Vec::new();
    for name in expected {
        if root.name(name.as_str()).stat()?.is_none() {
            missing.push(name);
        }
    }
    let Some(first) = missing.first() else { return Ok(()) };
    let count = missing.len();
    let why = format!("{count} of the directories of depth {depth} are missing, first {first:?}");
    let braces = "/{0,1,2,3,4,5,6,7,8,9,a,b,c,d,e,f}".repeat(depth);
    Err(Error::new(ErrorKind::Io, why).advice(format!(
        "PHP does not create them either: in bash, mkdir -p -m 700 DIR{braces}, owned by PHP's user"
    )))
}
