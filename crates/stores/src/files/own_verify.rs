//! `verify` of the store's own mode: every file is read whole, and must be what the store writes.
//!
//! It takes no session lock and changes nothing. A file that is just being overwritten is read again, inside [`read`],
//! so that what is damaged here is damaged. Invariant: a problem names a folder and an inode (`find -inum`), never
//! a file: file names are ids.

use rustix::fs::{FileType, OFlags, Stat, fstat};
use sessile_core::{Bin, ErrorKind, Key, Result, Verified};

use super::content::read;
use super::directory::TEMPORARY;
use super::own::Own;
use super::system::failed;

impl Own {
    pub(super) fn check_all(&self, progress: &mut dyn FnMut(u64)) -> Result<Verified> {
        let mut verified = Verified::default();
        let mut place = self.next_folder(None)?;
        while let Some(at) = &mut place {
            let folder = format!("{}/{:02x}", at.bin, at.folder);
            while let Some(entry) = at.listing.read() {
                let entry = entry.map_err(|errno| failed("a directory of session files cannot be listed", errno))?;
                let name = entry.file_name().to_str().unwrap_or("\0");
                if matches!(name, "." | "..") || name.starts_with(TEMPORARY) {
                    continue;
                }
                if let Some((stat, problem)) = self.check_file(&folder, &at.bin, name)? {
                    verified.checked += 1;
                    if let Some(problem) = problem {
                        verified.note(format!("{folder}, inode {}: {problem}", stat.st_ino));
                    }
                }
            }
            progress(verified.checked);
            let (bin, number) = (at.bin.clone(), at.folder);
            place = self.next_folder(Some((&bin, number)))?;
        }
        Ok(verified)
    }

    /// What is wrong with one file, if anything; `None` when it went away meanwhile.
    fn check_file(&self, folder: &str, bin: &str, name: &str) -> Result<Option<(Stat, Option<String>)>> {
        let path = format!("{folder}/{name}");
        let Some(named) = self.directory.stat(&path)? else { return Ok(None) };
        let wrong = |problem: &str| Ok(Some((named, Some(problem.to_owned()))));
        if FileType::from_raw_mode(named.st_mode) != FileType::RegularFile {
            return wrong("not a regular file");
        }
        match Bin::new(bin).and_then(|bin| Key::in_bin(bin, name)) {
            Err(_) => return wrong("the file's name is not an id"),
            Ok(key) if Own::folder(&key).trim_end_matches('/') != folder => {
                return wrong("the file lies in the wrong folder");
            }
            Ok(_) => {}
        }
        let Some(file) = self.open_file(&path, OFlags::RDONLY)? else { return Ok(None) };
        let stat = fstat(&file).map_err(|errno| failed("a session file cannot be examined", errno))?;
        match read(&file, &stat) {
            Ok(_) => Ok(Some((stat, None))),
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Incompatible) => {
                Ok(Some((stat, Some(error.why().to_owned()))))
            }
            Err(error) => Err(error),
        }
    }
}
