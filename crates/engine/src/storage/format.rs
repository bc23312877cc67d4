//! The file `format`: what the store is, for programs of every version and for humans.
//!
//! ```text
//! sessile engine
//! format 3                 4 once a session has had an owner
//! uuid 8d5c...
//! secret 77ab...           the key of the digests of ids
//! byte-order little
//! data slots               or `log`: how the file `data` is used, in memory or on a disk
//! features-incompatible 0  bits of features without which the store cannot be used
//! ```
//!
//! Invariant: it is written under another name and linked, so it is complete or absent. Only the
//! digit of its version changes, once, before the first record with an owner is written: a program
//! that knows no owners reads every store without them, and refuses one that may have some. One
//! byte is written in one step, and processes hold locks on this very file, so it is not replaced.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{AtFlags, Mode, OFlags, linkat, openat, statat, unlinkat};
use rustix::io::Errno;
use sessile_core::{Error, ErrorKind, Result};

use crate::memory::*;

const NAME: &str = "format";
const FIRST_LINE: &str = "sessile engine";
const VERSION: &str = "3";
/// Its records may have owners; otherwise they are the same.
const VERSION_WITH_OWNERS: &str = "4";
const BYTES_MAX: u64 = 4_096;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DataMedium {
    Memory,
    Disk,
}

impl DataMedium {
    fn word(self) -> &'static str {
        match self {
            DataMedium::Memory => "slots",
            DataMedium::Disk => "log",
        }
    }
}

pub struct Format {
    pub uuid: (u64, u64),
    pub secret: [u8; 32],
}

impl Format {
    /// Reads the file, or makes an empty directory one of this kind.
    /// Error: `Incompatible` when it is of another format, or the directory holds something else.
    pub fn read_or_create(directory: &OwnedFd, medium: DataMedium) -> Result<Format> {
        if cfg!(target_endian = "big") {
            let why = "the engine needs a little-endian processor";
            return Err(Error::new(ErrorKind::Unsupported, why));
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        loop {
            match openat(directory, NAME, flags, Mode::empty()) {
                Ok(file) => return Format::read(file, medium),
                Err(Errno::NOENT) => Format::create(directory, medium)?,
                Err(errno) => return Err(refused("the file `format` cannot be opened", errno)),
            }
        }
    }

    fn create(directory: &OwnedFd, medium: DataMedium) -> Result<()> {
        check_empty(directory)?;
        let mut random = [0; 48];
        getrandom::fill(&mut random).map_err(|error| {
            Error::new(ErrorKind::Io, "the kernel gives no random numbers").source(error)
        })?;
        let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let (uuid, secret) = hex.split_at(32);
        let text = format!(
            "{FIRST_LINE}\nformat {VERSION}\nuuid {uuid}\nsecret {secret}\nbyte-order little\ndata \
             {}\nfeatures-incompatible 0\n",
            medium.word()
        );
        // A name of its own for each thread.
        let temporary = format!("format.{}.{uuid}", std::process::id());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(directory, &temporary, flags, Mode::RUSR | Mode::WUSR)
            .explained("the file `format` cannot be created")?;
        let mut file = std::fs::File::from(file);
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| {
            Error::new(ErrorKind::Full, "the file `format` cannot be written").source(error)
        })?;
        let linked = linkat(directory, &temporary, directory, NAME, AtFlags::empty());
        let _ = unlinkat(directory, &temporary, AtFlags::empty());
        match linked {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(refused("the file `format` cannot be put in place", errno)),
        }
    }

    /// Before the first owner of a session is written: earlier programs refuse the store from then
    /// on. Any number of processes may do it at once. On the disk when it returns.
    pub fn admit_owners(directory: &OwnedFd) -> Result<()> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(directory, NAME, flags, Mode::empty())
            .explained("the file `format` cannot be opened for writing")?;
        let begin = format!("{FIRST_LINE}\nformat {VERSION}");
        let mut found = vec![0; begin.len()];
        let file = std::fs::File::from(file);
        file.read_exact_at(&mut found, 0)
            .and_then(|()| {
                if found == begin.as_bytes() {
                    let digit = (begin.len() - VERSION.len()) as u64;
                    file.write_all_at(VERSION_WITH_OWNERS.as_bytes(), digit)?;
                }
                file.sync_all()
            })
            .map_err(|error| {
                Error::new(ErrorKind::Io, "the file `format` cannot be brought up to date")
                    .source(error)
            })
    }

    fn read(file: OwnedFd, medium: DataMedium) -> Result<Format> {
        let mut text = String::new();
        std::fs::File::from(file).take(BYTES_MAX).read_to_string(&mut text).map_err(|error| {
            Error::new(ErrorKind::Incompatible, "the file `format` cannot be read").source(error)
        })?;
        let foreign = |why: String| {
            Error::new(ErrorKind::Incompatible, why)
                .advice("use another directory, or the program that wrote this one")
        };
        if text.lines().next() != Some(FIRST_LINE) {
            return Err(foreign("the directory belongs to another kind of store".to_owned()));
        }
        let value =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        for (name, wanted) in
            [("format", VERSION), ("byte-order", "little"), ("features-incompatible", "0")]
        {
            let found = value(name).unwrap_or("nothing");
            let has_owners = name == "format" && found == VERSION_WITH_OWNERS;
            if found != wanted && !has_owners {
                let known = if name == "format" { VERSION_WITH_OWNERS } else { wanted };
                let why = format!(
                    "another version of Sessile made this store: it has {name} {found:.20}, this \
                     version knows {known}"
                );
                return Err(foreign(why));
            }
        }
        if value("data") != Some(medium.word()) {
            let why = "the store was moved between memory and a disk";
            return Err(Error::new(ErrorKind::Incompatible, why)
                .advice("use an empty directory: the two keep their data in different ways"));
        }
        let identity = value("uuid").and_then(from_hex).zip(value("secret").and_then(from_hex));
        let (uuid, secret) =
            identity.ok_or_else(|| foreign("the file `format` is damaged".to_owned()))?;
        let uuid = u128::from_be_bytes(uuid);
        Ok(Format { uuid: ((uuid >> 64) as u64, uuid as u64), secret })
    }
}

fn from_hex<const BYTES: usize>(digits: &str) -> Option<[u8; BYTES]> {
    let byte = |at: usize| u8::from_str_radix(digits.get(at * 2..at * 2 + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..digits.len().div_ceil(2)).map(byte).collect();
    bytes?.try_into().ok()
}

/// A directory with other files was named by mistake, unless another process has made it a store
/// meanwhile.
fn check_empty(directory: &OwnedFd) -> Result<()> {
    let unlisted = "the directory cannot be listed";
    for entry in rustix::fs::Dir::read_from(directory).explained(unlisted)? {
        let entry = entry.explained(unlisted)?;
        let name = entry.file_name().to_bytes();
        let harmless = matches!(name, b"." | b"..") || name.starts_with(b"format");
        // `format` is the first file of a store, so it is looked for last.
        if !harmless && statat(directory, NAME, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            let why = "the directory is not empty and not a store of the engine";
            return Err(
                Error::new(ErrorKind::Incompatible, why).advice("use a directory of its own")
            );
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
        Format::create(&directory, DataMedium::Disk).unwrap();
        std::fs::write(folder.path().join("data"), "").unwrap();
        // As one that looked for `format` before it was there.
        Format::create(&directory, DataMedium::Disk).unwrap();
        std::fs::remove_file(folder.path().join(NAME)).unwrap();
        assert!(
            Format::create(&directory, DataMedium::Disk).is_err(),
            "a directory with a file in it is not empty"
        );
    }
}
