//! The two modes of the store, and what differs between them. store.rs has what is common.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::Stat;
use sessile_core::{
    Bin, Error, ErrorKind, Head, Key, Owner, OwnerChange, Result, Stored, Timestamp, Ttl, Verified,
};

use super::directory::{Directory, FileName, Opened};
use super::system::Identity;

pub struct Held {
    pub file: OwnedFd,
    pub identity: Identity,
    pub key: Key,
    /// A forked child inherits the lock; it must not release it.
    pub pid: u32,
    /// The live record.
    pub read: Option<Head>,
    pub file_bytes: u64,
    /// How often this process has begun the session before, one begin right after the other.
    pub begins_before: u32,
}

pub trait Mode: Send + Sync + 'static {
    /// Folders and paths are relative to it.
    fn root(&self) -> &Directory;
    /// The directory of the format file and the queue.
    fn side(&self) -> &Arc<Directory>;
    fn now(&self) -> Timestamp;
    /// When a session expires, by its file's time.
    fn expiry(&self, stat: &Stat) -> Timestamp;
    fn file(&self, key: &Key) -> Result<FileName<'_>>;
    /// The folder that a sweep walks through; empty for all of the root.
    fn swept_folder(&self) -> &str {
        ""
    }
    /// `folder` is empty or ends in a slash.
    fn role(&self, folder: &str, name: &str) -> FileRole;

    /// A consistent snapshot without the lock.
    fn peek(&self, key: &Key) -> Result<(Stored, Vec<u8>)>;
    /// The content of the key's file, which the caller has locked. After an error the gate is
    /// released.
    fn read(&self, key: &Key, file: &OwnedFd, stat: &Stat) -> Result<(Stored, Vec<u8>)>;
    /// The head of a record, live or expired, and the size of its payload; `None` for anything
    /// else. `Corrupt` for damaged bytes; other errors say nothing about the file.
    fn read_head(&self, key: &Key) -> Result<Option<(Head, u64)>>;
    /// Where the key leads: by the file that it has, or because it has none.
    fn leads_to(&self, key: &Key, opened: Option<&Opened>) -> Result<Option<Key>>;
    /// Whether a begin makes a file that a release leaves.
    fn begin_leaves_placeholder(&self, _key: &Key) -> Result<bool> {
        Ok(false)
    }
    /// Before the lock is asked for. Returns [`Held::begins_before`].
    fn yield_lock(&self, _key: &Key) -> u32 {
        0
    }
    /// Finishes the commit of a killed process, under the lock. Returns the file's new state, if
    /// there was one.
    fn repair(&self, _key: &Key, _file: &OwnedFd) -> Result<Option<Stat>> {
        Ok(None)
    }
    fn before_release(&self, held: &Held) -> Result<()>;

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()>;
    /// Releases the lease if it succeeds. After an error the gate may still be held.
    fn commit(&self, held: &Held, saved: (&[u8], Ttl, OwnerChange)) -> Result<()>;
    /// The caller has the gate.
    fn touch(&self, file: &OwnedFd, stat: &Stat, ttl: Ttl) -> Result<()>;
    /// Puts a tombstone in place of the file that the name had. False if it has another by now.
    fn destroy(&self, key: &Key, opened: Option<&Opened>) -> Result<bool>;
    /// As [`sessile_core::Store::destroy_owned`]; the default is that of a mode without owners.
    fn destroy_owned(&self, key: &Key, owner: Owner) -> Result<bool> {
        let _ = (key, owner);
        Err(ErrorKind::Unsupported.into())
    }
    /// The target of a regenerated id, also after its grace.
    fn regenerated_to(&self, key: &Key) -> Result<Option<Key>> {
        let _ = key;
        Ok(None)
    }
    fn move_record(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()>;
    /// Removes a file that is no longer needed. True if it was an expired record.
    fn sweep_file(&self, role: &FileRole, name: &FileName<'_>) -> Result<bool>;
    fn verify(&self, _progress: &mut dyn FnMut(u64)) -> Result<Verified> {
        Err(Error::new(ErrorKind::Unsupported, "this store cannot check what it has stored"))
    }
}

/// The kinds of files in the directory of a store.
pub enum FileRole {
    Session(Key),
    /// A tombstone or alias beside PHP's files.
    Past,
    /// A commit that is under way beside PHP's files.
    Redo(Key),
    Temporary,
    /// A directory; of this bin only, if there is one.
    Folder(Option<Bin>),
    Foreign,
}

pub fn session_role(bin: &str, id: &str) -> FileRole {
    let key = Bin::new(bin).and_then(|bin| Key::in_bin(bin, id));
    key.map_or(FileRole::Foreign, FileRole::Session)
}

pub fn bin_role(name: &str) -> FileRole {
    match Bin::new(name) {
        Ok(bin) if !matches!(name, "format" | "waiting") => FileRole::Folder(Some(bin)),
        _ => FileRole::Foreign,
    }
}
