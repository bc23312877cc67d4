//! The file `format`: what the store is, for programs of every version and for humans.
//!
//! ```text
//! sessile engine
//! format 1
//! uuid 8d5c...
//! secret 77ab...           the key of the digests of ids
//! byte-order little
//! data slots               or `log`: how the file `data` is used, in memory or on a disk
//! features-incompatible 0  bits of features without which the store cannot be used
//! ```
//!
//! Invariant: it is written under another name and linked, so it is complete or absent, and never changes.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, linkat, openat, statat, unlinkat};
use rustix::io::Errno;
use sessile_core::{Error, ErrorKind, Result};

use crate::directory::failed;

const NAME: &str = "format";
const FIRST_LINE: &str = "sessile engine";
const VERSION: &str = "1";
const BYTES_MAX: u64 = 4_096;

/// Where the data of a store are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    InMemory,
    OnDisk,
}

impl Kept {
    fn word(self) -> &'static str {
        match self {
            Kept::InMemory => "slots",
            Kept::OnDisk => "log",
        }
    }
}

/// What a store says of itself.
pub struct Format {
    pub uuid: (u64, u64),
    pub secret: [u8; 32],
}

impl Format {
    /// Reads the file, or makes the directory one of this kind if it is empty.
    ///
    /// # Errors
    ///
    /// `Incompatible` when it is of another format, or the directory has something else in it.
    pub fn read_or_create(directory: &OwnedFd, kept: Kept) -> Result<Format> {
        if cfg!(target_endian = "big") {
            return Err(Error::new(ErrorKind::Unsupported, "the engine needs a little-endian processor"));
        }
        loop {
            match openat(directory, NAME, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(file) => return Format::read(file, kept),
                Err(Errno::NOENT) => Format::create(directory, kept)?,
                Err(errno) => return Err(failed("the file `format` cannot be opened", errno)),
            }
        }
    }

    fn create(directory: &OwnedFd, kept: Kept) -> Result<()> {
        check_empty(directory)?;
        let mut random = [0; 48];
        getrandom::fill(&mut random)
            .map_err(|error| Error::new(ErrorKind::Io, "the kernel gives no random numbers").source(error))?;
        let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let (uuid, secret) = hex.split_at(32);
        let text = format!(
            "{FIRST_LINE}\nformat {VERSION}\nuuid {uuid}\nsecret {secret}\nbyte-order little\ndata {}\n\
             features-incompatible 0\n",
            kept.word()
        );
        let temporary = format!("format.{}", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(directory, &temporary, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| failed("the file `format` cannot be created", errno))?;
        let mut file = std::fs::File::from(file);
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(|error| Error::new(ErrorKind::Full, "the file `format` cannot be written").source(error))?;
        let linked = linkat(directory, &temporary, directory, NAME, AtFlags::empty());
        let _ = unlinkat(directory, &temporary, AtFlags::empty());
        match linked {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(failed("the file `format` cannot be put in place", errno)),
        }
    }

    fn read(file: OwnedFd, kept: Kept) -> Result<Format> {
        let mut text = String::new();
        std::fs::File::from(file)
            .take(BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(|error| Error::new(ErrorKind::Incompatible, "the file `format` cannot be read").source(error))?;
        let foreign = |why: String| {
            Error::new(ErrorKind::Incompatible, why).advice("use another directory, or the program that wrote this one")
        };
        let mut lines = text.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err(foreign("the directory belongs to another kind of store".to_owned()));
        }
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let expect = |name: &str, wanted: &str| match value(name) {
            Some(found) if found == wanted => Ok(()),
            found => {
                let found = found.unwrap_or("nothing");
                Err(foreign(format!("the store has {name} {found:.20}, this program knows {wanted}")))
            }
        };
        expect("format", VERSION)?;
        expect("byte-order", "little")?;
        expect("features-incompatible", "0")?;
        if value("data") != Some(kept.word()) {
            return Err(Error::new(ErrorKind::Incompatible, "the store was moved between memory and a disk")
                .advice("use an empty directory: the two keep their data in different ways"));
        }
        let digits = |name, length| value(name).filter(|digits: &&str| digits.len() == length && digits.is_ascii());
        let damaged = || foreign("the file `format` is damaged".to_owned());
        let uuid = digits("uuid", 32).ok_or_else(damaged)?;
        let half = |range| uuid.get(range).and_then(|half| u64::from_str_radix(half, 16).ok());
        let uuid = half(0..16).zip(half(16..32)).ok_or_else(damaged)?;
        let hex = digits("secret", 64).ok_or_else(damaged)?;
        let mut secret = [0; 32];
        for (at, byte) in secret.iter_mut().enumerate() {
            let pair = hex.get(at * 2..at * 2 + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
            *byte = pair.ok_or_else(damaged)?;
        }
        Ok(Format { uuid, secret })
    }
}

/// A directory that has something else in it was named by mistake, unless another process has made it a store meanwhile.
fn check_empty(directory: &OwnedFd) -> Result<()> {
    let listing =
        rustix::fs::Dir::read_from(directory).map_err(|errno| failed("the directory cannot be listed", errno))?;
    for entry in listing {
        let entry = entry.map_err(|errno| failed("the directory cannot be listed", errno))?;
        let name = entry.file_name().to_bytes();
        let harmless = matches!(name, b"." | b"..") || name.starts_with(b"format");
        // `format` comes first of all files of a store, so it is looked for last.
        if !harmless && statat(directory, NAME, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            return Err(Error::new(
                ErrorKind::Incompatible,
                "the directory is not empty and not a store of the engine",
            )
            .advice("use a directory of its own"));
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_another_process_has_made_meanwhile_is_not_something_else() {
        let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
        let directory = OwnedFd::from(std::fs::File::open(folder.path()).unwrap());
        Format::create(&directory, Kept::OnDisk).unwrap();
        std::fs::write(folder.path().join("data"), "").unwrap();
        // As one that looked for `format` before it was there.
        Format::create(&directory, Kept::OnDisk).unwrap();
        std::fs::remove_file(folder.path().join(NAME)).unwrap();
        assert!(Format::create(&directory, Kept::OnDisk).is_err(), "a directory with a file in it is not empty");
    }
}
