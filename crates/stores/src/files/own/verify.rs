//! `verify`: every file is read whole, and must be one that the store writes; [`read`] reads a
//! half-written file again. Invariant: a problem names a folder and an inode (`find -inum`), never
//! a file: file names are ids.

use rustix::fs::OFlags;
use sessile_core::{ErrorKind, Key, Result, Verified};

use super::{OwnMode, folder};
use crate::files::content::read;
use crate::files::mode::FileRole;
use crate::files::system::{examine, is_regular};
use crate::files::walk::{Walk, Walked};

/// Files between two reports of progress, at which the caller may rest.
const PROGRESS_EVERY: u64 = 256;

pub(super) fn verify(store: &OwnMode, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
    let (mut verified, mut walk) = (Verified::default(), Walk::new(store, "")?);
    while let Some(found) = walk.next(store)? {
        let problem = match &found.role {
            FileRole::Session(key) => check_file(store, key, &found)?,
            FileRole::Foreign if found.folder.matches('/').count() == 2 => {
                Some("the file's name is not an id".to_owned())
            }
            _ => continue,
        };
        verified.checked += 1;
        if let Some(problem) = problem {
            let folder = found.folder.trim_end_matches('/');
            verified.note(format!("{folder}, inode {}: {problem}", found.inode));
        }
        if verified.checked % PROGRESS_EVERY == 0 {
            progress(verified.checked);
        }
    }
    progress(verified.checked);
    Ok(verified)
}

/// A file that was removed meanwhile has no problem.
fn check_file(store: &OwnMode, key: &Key, found: &Walked) -> Result<Option<String>> {
    let name = store.directory.name(&found.path);
    let Some(named) = name.stat()? else { return Ok(None) };
    if !is_regular(&named) {
        return Ok(Some("not a regular file".to_owned()));
    }
    if folder(key) != found.folder {
        return Ok(Some("the file lies in the wrong folder".to_owned()));
    }
    let Some(file) = name.open(OFlags::RDONLY)? else { return Ok(None) };
    match read(key, &file, &examine(&file)?) {
        Ok(_) => Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Incompatible) => {
            Ok(Some(error.why().to_owned()))
        }
        Err(error) => Err(error),
    }
}
