//! Walks through the files of a store, in the order of directories or of names.

use std::collections::BTreeSet;
use std::sync::Mutex;

use rustix::fs::Dir;
use sessile_core::{Bin, Key, Result};

use super::directory::cannot_list;
use super::mode::{FileRole, Mode};

/// Names that an ordered walk holds in memory for each level.
const BATCH: usize = 10_000;

pub struct Walked {
    pub folder: String,
    pub path: String,
    pub inode: u64,
    pub role: FileRole,
}

/// A walk in the order of directories: a stack of open directories. No listing is held in memory.
#[derive(Default)]
pub struct Walk(Vec<(String, Dir)>);

impl Walk {
    /// Through a folder, or all of the root if it is empty.
    pub fn new(mode: &impl Mode, folder: &str) -> Result<Walk> {
        let start = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        Ok(Walk(open_listing(mode, &start)?.map(|listing| (start, listing)).into_iter().collect()))
    }

    pub fn is_complete(&self) -> bool {
        self.0.is_empty()
    }

    /// The next file that is no folder.
    pub fn next(&mut self, mode: &impl Mode) -> Result<Option<Walked>> {
        while let Some((folder, listing)) = self.0.last_mut() {
            let Some(entry) = listing.read() else {
                self.0.pop();
                continue;
            };
            let entry = entry.map_err(cannot_list)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if matches!(name.as_str(), "." | "..") {
                continue;
            }
            let (path, role) = (format!("{folder}{name}"), mode.role(folder, &name));
            if let FileRole::Folder(_) = role {
                let opened = open_listing(mode, &path)?;
                self.0.extend(opened.map(|listing| (path + "/", listing)));
                continue;
            }
            return Ok(Some(Walked { folder: folder.clone(), path, inode: entry.ino(), role }));
        }
        Ok(None)
    }
}

fn open_listing(mode: &impl Mode, folder: &str) -> Result<Option<Dir>> {
    mode.root().open_listing(if folder.is_empty() { "." } else { folder.trim_end_matches('/') })
}

/// Where an ordered walk has stopped, and the names that follow in that folder: the next page needs
/// no other look at all names of it. A session that is added to the folder meanwhile may be missed,
/// like one that is added before that place. A listing from the start looks anew.
#[derive(Default)]
pub struct Ahead(Mutex<Option<NamesAhead>>);

struct NamesAhead {
    folder: String,
    after: String,
    names: FirstNames,
}

/// Names in order.
struct FirstNames {
    names: BTreeSet<String>,
    /// No other names follow.
    are_all: bool,
}

impl Ahead {
    /// `None` also while another thread, or one of before a fork, uses it.
    fn take(&self, folder: &str, after: &str) -> Option<FirstNames> {
        let mut kept = self.0.try_lock().ok()?;
        kept.take_if(|kept| kept.folder == folder && kept.after == after).map(|kept| kept.names)
    }

    fn keep(&self, folder: &str, after: String, names: FirstNames) {
        if let Ok(mut kept) = self.0.try_lock() {
            *kept = Some(NamesAhead { folder: folder.to_owned(), after, names });
        }
    }
}

/// Visits the sessions below a folder, of one bin or all, in the order of their paths, after a
/// path. `visit` returns whether the walk continues. The order of readdir is not stable everywhere.
pub fn walk_in_order(
    mode: &impl Mode,
    ahead: &Ahead,
    folder: &str,
    after: &str,
    only: Option<&Bin>,
    visit: &mut impl FnMut(&str, &Key) -> Result<bool>,
) -> Result<bool> {
    let mut from = after.to_owned();
    loop {
        let first =
            ahead.take(folder, &from).map_or_else(|| first_names(mode, folder, &from), Ok)?;
        let FirstNames { mut names, are_all } = first;
        while let Some(name) = names.pop_first() {
            let path = format!("{folder}{name}");
            let go_on = match mode.role(folder, &name) {
                FileRole::Session(key) if path.as_str() > after => {
                    let go_on = visit(&path, &key)?;
                    if !go_on {
                        ahead.keep(folder, path, FirstNames { names, are_all });
                        return Ok(false);
                    }
                    true
                }
                FileRole::Folder(bin)
                    if bin.is_none() || only.is_none() || bin.as_ref() == only =>
                {
                    walk_in_order(mode, ahead, &format!("{path}/"), after, only, visit)?
                }
                _ => true,
            };
            if !go_on {
                return Ok(false);
            }
            from = path;
        }
        if are_all {
            return Ok(true);
        }
    }
}

/// The first names of a folder after a path, in order, and the folder that leads to that path.
fn first_names(mode: &impl Mode, folder: &str, after: &str) -> Result<FirstNames> {
    let mut first = BTreeSet::new();
    for entry in open_listing(mode, folder)?.into_iter().flatten() {
        let entry = entry.map_err(cannot_list)?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        let path = format!("{folder}{name}");
        let leads_there =
            after.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('/'));
        if (path.as_str() > after || leads_there)
            && matches!(mode.role(folder, name), FileRole::Session(_) | FileRole::Folder(_))
        {
            first.insert(name.to_owned());
            if first.len() > BATCH {
                first.pop_last();
            }
        }
    }
    Ok(FirstNames { are_all: first.len() < BATCH, names: first })
}
