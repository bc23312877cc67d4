//! `apache-session+files:`: the files of Perl's Apache::Session::File, whose names are the ids.
//!
//! Source: Apache::Session::Store::File, Generate::MD5 and Serialize::Storable. A content is what
//! the serialiser has made, and Apache::Session::Sessile reads the same. The modification time of a
//! file is the last change; a session never expires by itself, so a URL says how long one is kept.
//!
//! Invariant: only files whose names are ids are looked at: the default directory is /tmp.

use std::fs::{self, Metadata, ReadDir};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sessile_core::{Clock, Error, ErrorKind, Limits, OwnerChange, Result, Timestamp};

use super::{EntryName, ForeignSession, Layout, ScannedEntry, Walk};
use crate::registry::option;
use crate::store_url::StoreUrl;

pub const LAYOUT: Layout = Layout {
    program: "apache-session",
    storages: &["files"],
    reads: "the files of Perl's Apache::Session::File",
    example: "apache-session+files:/var/lib/shop/sessions",
    options: &[
        option("id_length", "IDLength (default 32)"),
        option("maxlifetime", "seconds after the last change; a copy asks for it (default 86400)"),
    ],
    of_connection: |_| &[],
    sessions_only: None,
    store: None,
    open,
};

fn open(url: &StoreUrl, _clock: &Clock) -> Result<Box<dyn Walk>> {
    let directory = url.path()?;
    let listing = fs::read_dir(&directory).map_err(failed)?;
    let id_length = url.number("id_length", 32, 1..=Limits::ID_BYTES_MAX as u64)?;
    let seconds = url.number("maxlifetime", 86_400, 1..=Limits::TTL_MAX.as_secs())?;
    Ok(Box::new(Files {
        bin: "session".into(),
        directory,
        listing,
        id_length: usize::try_from(id_length).unwrap_or(Limits::ID_BYTES_MAX),
        maxlifetime: Duration::from_secs(seconds),
        is_said: url.text("maxlifetime").is_some(),
    }))
}

struct Files {
    bin: Arc<str>,
    directory: PathBuf,
    listing: ReadDir,
    id_length: usize,
    maxlifetime: Duration,
    /// Whether the URL says `maxlifetime`.
    is_said: bool,
}

impl Walk for Files {
    fn page(&mut self, entries_max: usize, show: &mut dyn FnMut(ScannedEntry)) -> Result<bool> {
        for _ in 0..entries_max {
            let Some(entry) = self.listing.next() else { return Ok(false) };
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let Some(id) = name.to_str().filter(|name| self.is_id(name)) else { continue };
            // Not of what a link leads to.
            if let Some(status) = unless_gone(entry.metadata())?.filter(Metadata::is_file) {
                let used = changed(&status);
                show(ScannedEntry {
                    bin: Arc::clone(&self.bin),
                    name: EntryName::Secret(id.as_bytes().to_vec()),
                    bytes: status.len(),
                    created: None,
                    used,
                    expires: used.map(|used| used.plus(self.maxlifetime)),
                });
            }
        }
        Ok(true)
    }

    fn check_contents(&self) -> Result<()> {
        if self.is_said {
            return Ok(());
        }
        let why = "sessions of Apache::Session have no end";
        Err(Error::new(ErrorKind::InvalidArgument, why)
            .advice("say after how long a session that nobody changes ends: ?maxlifetime=SECONDS"))
    }

    fn read(&mut self, entry: &ScannedEntry) -> Result<Option<ForeignSession>> {
        let EntryName::Secret(id) = &entry.name else { return Ok(None) };
        let Some(id) = str::from_utf8(id).ok().filter(|id| self.is_id(id)) else { return Ok(None) };
        let path = self.directory.join(id);
        let Some(before) = unless_gone(fs::symlink_metadata(&path))? else { return Ok(None) };
        if !before.is_file() {
            return Ok(None);
        }
        let Some(payload) = unless_gone(fs::read(&path))? else { return Ok(None) };
        if payload.is_empty() {
            // Apache::Session empties a file before it writes it anew.
            return Err(Error::new(ErrorKind::Corrupt, "the file is empty")
                .advice("copy while no request is under way"));
        }
        let used = changed(&before);
        Ok(Some(ForeignSession {
            is_empty: false,
            payload,
            owner: OwnerChange::Keep,
            used,
            expires: used.map(|used| used.plus(self.maxlifetime)),
        }))
    }
}

impl Files {
    fn is_id(&self, name: &str) -> bool {
        name.len() == self.id_length && name.bytes().all(|byte| byte.is_ascii_hexdigit())
    }
}

fn changed(status: &Metadata) -> Option<Timestamp> {
    let moment: SystemTime = status.modified().ok()?;
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(Timestamp::from_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
}

/// `None` if the session has ended meanwhile. Any other failure is an error: it would hide
/// sessions.
fn unless_gone<T>(found: io::Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn failed(error: io::Error) -> Error {
    let (kind, why, advice) = match error.kind() {
        io::ErrorKind::PermissionDenied => (
            ErrorKind::Denied,
            "the directory or a file in it may not be read",
            "use the user of the application",
        ),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            (ErrorKind::Io, "there is no such directory", "name the argument Directory of the tie")
        }
        _ => (
            ErrorKind::Io,
            "the directory cannot be read",
            "the cause is in the details of this error",
        ),
    };
    Error::new(kind, why).advice(advice).source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    fn opened(directory: &std::path::Path) -> Box<dyn Walk> {
        let url = format!("files:{}?maxlifetime=60", directory.display());
        open(&StoreUrl::parse(&url).unwrap(), &Clock::system()).unwrap()
    }

    fn walked(walk: &mut dyn Walk) -> Vec<ScannedEntry> {
        let mut seen = Vec::new();
        while walk.page(2, &mut |entry| seen.push(entry)).unwrap() {}
        seen
    }

    #[test]
    fn a_session_is_a_file_with_an_id_as_its_name_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(ID), b"\x05\x0bcart").unwrap();
        for name in ["notes", "0123", &format!("Apache-Session-{ID}.lock"), &ID.replace('0', "g")] {
            fs::write(dir.path().join(name), b"x").unwrap();
        }
        fs::create_dir(dir.path().join(ID.replace('0', "1"))).unwrap();
        std::os::unix::fs::symlink(ID, dir.path().join(ID.replace('0', "2"))).unwrap();
        let mut walk = opened(dir.path());
        let seen = walked(&mut *walk);
        assert_eq!((seen.len(), seen[0].bytes), (1, 6));
        assert_eq!(seen[0].expires, seen[0].used.map(|used| used.plus(Duration::from_secs(60))));
        let read = walk.read(&seen[0]).unwrap().unwrap();
        assert_eq!((read.payload.as_slice(), read.is_empty), (&b"\x05\x0bcart"[..], false));
        assert_eq!((read.used, read.expires), (seen[0].used, seen[0].expires));
        fs::write(dir.path().join(ID), b"").unwrap();
        assert_eq!(walk.read(&seen[0]).err().unwrap().kind(), &ErrorKind::Corrupt);
        fs::remove_file(dir.path().join(ID)).unwrap();
        assert!(walk.read(&seen[0]).unwrap().is_none());
    }

    #[test]
    fn a_name_cannot_lead_out_of_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let mut walk = opened(dir.path());
        let name = EntryName::Secret(b"../../../../../../../etc/passwd0".to_vec());
        let entry = ScannedEntry {
            bin: "session".into(),
            name,
            bytes: 0,
            created: None,
            used: None,
            expires: None,
        };
        assert!(walk.read(&entry).unwrap().is_none());
    }
}
