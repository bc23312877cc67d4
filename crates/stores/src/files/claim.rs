//! What makes a directory one of this store: its format file, no foreign files, and a file system
//! that can do what commits, regenerations and touches need. Checked when the store is opened.

use std::borrow::Cow;
use std::io::IoSlice;
use std::time::Duration;

use rustix::fs::{Dir, OFlags, RenameFlags};
use sessile_core::{Clock, Error, ErrorKind, Limits, Result};

use super::directory::{Directory, cannot_list};
use super::system::{examine, failed, mtime, set_time};
use super::temporary::{TEMPORARY, Temporary};

const FORMAT_FILE: &str = "format";
const FORMAT_TEXT: &str = "sessile files ";
const FORMAT_NEWEST: u32 = 1;

/// Checks that the directory belongs to this kind of store or is empty, and marks it.
pub fn claim(directory: &Directory, clock: &Clock) -> Result<()> {
    let name = directory.name(FORMAT_FILE);
    check_contents(directory)?;
    probe(directory, clock)?;
    let Some(file) = name.open(OFlags::RDONLY)? else {
        let mut new = Temporary::create(&name)?;
        new.write(&mut [IoSlice::new(format!("{FORMAT_TEXT}{FORMAT_NEWEST}\n").as_bytes())])?;
        // False if another process opens the store in this instant.
        return new.link(&name).map(drop);
    };
    let mut text = [0; 64];
    let length = rustix::io::read(&file, &mut text)
        .map_err(|errno| failed("the format file cannot be read", errno))?;
    let text = str::from_utf8(text.get(..length).unwrap_or_default()).unwrap_or_default();
    match text.strip_prefix(FORMAT_TEXT).and_then(|number| number.trim_end().parse().ok()) {
        Some(1..=FORMAT_NEWEST) => Ok(()),
        Some(newer) => Err(incompatible(
            format!(
                "a newer version of Sessile made this directory: format {newer}, this version \
                 knows {FORMAT_NEWEST}"
            ),
            "use the newer program or another directory",
        )),
        None => Err(incompatible(
            "the directory's format file is not one of this store",
            "use an empty directory",
        )),
    }
}

fn check_contents(directory: &Directory) -> Result<()> {
    let mut foreign = false;
    for entry in Dir::read_from(&directory.fd).map_err(cannot_list)? {
        let entry = entry.map_err(cannot_list)?;
        match entry.file_name().to_bytes() {
            name if name.starts_with(b"sess_") => {
                return Err(incompatible(
                    "the directory holds session files of PHP",
                    "add ?php=1 to share it with PHP, or use another directory",
                ));
            }
            name if name.starts_with(b".sessile.") => {
                return Err(incompatible(
                    "the directory is shared with PHP",
                    "add ?php=1, or use another directory",
                ));
            }
            b"." | b".." | b"waiting" | b"lost+found" => {}
            name => foreign |= !name.starts_with(&[TEMPORARY as u8]),
        }
    }
    // Another process may have marked the directory during the listing.
    if foreign && directory.name(FORMAT_FILE).stat()?.is_none() {
        return Err(incompatible(
            "the directory holds files that are not of this store",
            "use an empty directory; one that does not exist is created",
        ));
    }
    Ok(())
}

/// Tries what the store needs on files of its own.
fn probe(directory: &Directory, clock: &Clock) -> Result<()> {
    let far = clock.now().plus(Limits::TTL_MAX).minus(Duration::from_millis(1));
    let create = || Temporary::create(&directory.name(""));
    let [one, two] = [create()?, create()?];
    let lacks = |what: &str| {
        Error::new(ErrorKind::Unsupported, format!("the file system {what}"))
            .advice("use ext4, xfs, btrfs or tmpfs; docs/one-host.md says what is needed")
    };
    one.name
        .rename(&two.name, RenameFlags::EXCHANGE)
        .map_err(|error| lacks("cannot exchange two files").source(error))?;
    set_time(&one.file, far)?;
    if mtime(&examine(&one.file)?) != far {
        return Err(lacks("does not keep file times in milliseconds for ten years"));
    }
    Ok(())
}

pub fn incompatible(why: impl Into<Cow<'static, str>>, advice: &'static str) -> Error {
    Error::new(ErrorKind::Incompatible, why).advice(advice)
}
