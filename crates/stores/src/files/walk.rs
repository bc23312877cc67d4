//! Walks through the files of a store, in the order of directories or of names.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::fs::Dir;
use sessile_core::{Bin, Key, Result};

use super::directory::cannot_list;
use super::mode::{FileRole, Mode};
use crate::locks::process_local::ProcessLocal;

/// Names that an ordered walk holds in memory for each level, and a store between two pages.
const BATCH: usize = 10_000;
/// A listing that pauses for longer looks anew.
const LOOK_AGE_MAX: Duration = Duration::from_secs(10);

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
/// like one that is added before that place.
///
/// Invariant: what is kept is never replaced by an older look, so that a page gets names of a look
/// at the folder that is no older than its listing.
pub struct Ahead {
    kept: ProcessLocal<Option<NamesAhead>>,
    batch: usize,
}

impl Default for Ahead {
    fn default() -> Ahead {
        Ahead { kept: ProcessLocal::default(), batch: BATCH }
    }
}

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
    /// When the look at the folder began.
    seen: Instant,
}

impl Ahead {
    fn take(&self, folder: &str, after: &str) -> Option<FirstNames> {
        let is_it = |kept: &mut NamesAhead| {
            kept.folder == folder && kept.after == after && kept.names.seen.elapsed() < LOOK_AGE_MAX
        };
        let kept = self.kept.with(|kept| kept.take_if(is_it)).flatten()?;
        Some(kept.names)
    }

    fn keep(&self, folder: &str, after: String, names: FirstNames) {
        let ahead = NamesAhead { folder: folder.to_owned(), after, names };
        // What it replaces is dropped without the mutex.
        let _old = self.kept.with(|kept| match kept {
            Some(newer) if newer.names.seen > ahead.names.seen => Some(ahead),
            _ => kept.replace(ahead),
        });
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
    let mut ahead_of_it = ahead.take(folder, after);
    loop {
        let first =
            ahead_of_it.take().map_or_else(|| first_names(mode, ahead, folder, &from), Ok)?;
        let FirstNames { mut names, are_all, seen } = first;
        while let Some(name) = names.pop_first() {
            let path = format!("{folder}{name}");
            let go_on = match mode.role(folder, &name) {
                FileRole::Session(key) if path.as_str() > after => {
                    let go_on = visit(&path, &key)?;
                    if !go_on {
                        ahead.keep(folder, path, FirstNames { names, are_all, seen });
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
fn first_names(
    mode: &impl Mode,
    Ahead { batch, .. }: &Ahead,
    folder: &str,
    after: &str,
) -> Result<FirstNames> {
    let (mut first, seen) = (BTreeSet::new(), Instant::now());
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
            if first.len() > *batch {
                first.pop_last();
            }
        }
    }
    Ok(FirstNames { are_all: first.len() < *batch, names: first, seen })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use sessile_core::Clock;

    use super::*;
    use crate::files::php::PhpMode;

    const BATCH_OF_TEST: usize = 3;

    fn open(path: &Path, depth: usize) -> PhpMode {
        PhpMode::open(path, depth, Duration::from_secs(1_440), 99, Clock::system(), false).unwrap()
    }

    /// All paths, in pages; `between` happens after each page.
    fn paths(mode: &PhpMode, ahead: &Ahead, page: usize, mut between: impl FnMut()) -> Vec<String> {
        let (mut all, mut pages) = (Vec::<String>::new(), 0);
        loop {
            let (after, before) = (all.last().cloned().unwrap_or_default(), all.len());
            let is_done = walk_in_order(mode, ahead, "", &after, None, &mut |path, _| {
                all.push(path.to_owned());
                Ok(all.len() - before < page)
            });
            if is_done.unwrap() {
                return all;
            }
            between();
            pages += 1;
            assert!(pages < 100, "it comes to no end");
        }
    }

    fn ahead() -> Ahead {
        Ahead { batch: BATCH_OF_TEST, ..Ahead::default() }
    }

    #[test]
    fn pages_of_any_length_list_each_session_once_in_one_folder_and_in_many() {
        for depth in [0, 1] {
            let directory = tempfile::tempdir().unwrap();
            let mut expected = Vec::new();
            for digit in "0123456789abcdef".chars().filter(|_| depth == 1) {
                fs::create_dir(directory.path().join(String::from(digit))).unwrap();
            }
            for number in 0..10 {
                let folder = if depth == 1 { ["3/", "c/"][number % 2] } else { "" };
                let first = folder.trim_end_matches('/');
                expected.push(format!("{folder}sess_{first}x{number}"));
            }
            expected.sort();
            for path in &expected {
                fs::write(directory.path().join(path), "a|i:1;").unwrap();
            }
            let mode = open(directory.path(), depth);
            for page in 1..=11 {
                assert_eq!(paths(&mode, &ahead(), page, || ()), expected, "{depth} {page}");
            }
        }
    }

    #[test]
    fn a_listing_sees_what_was_there_when_it_began_whatever_another_one_keeps() {
        let directory = tempfile::tempdir().unwrap();
        let add = |name: &str| fs::write(directory.path().join(name), "a|i:1;").unwrap();
        ["sess_1", "sess_2", "sess_9"].into_iter().for_each(add);
        let (mode, ahead) = (open(directory.path(), 0), Ahead::default());
        let early = first_names(&mode, &ahead, "", "sess_2").unwrap();
        let mut early = Some(early);
        add("sess_3");
        // The other listing ends its page at the same place.
        let seen = paths(&mode, &ahead, 2, || {
            early.take().into_iter().for_each(|names| ahead.keep("", "sess_2".into(), names));
        });
        assert_eq!(seen, ["sess_1", "sess_2", "sess_3", "sess_9"]);
        let mut old = first_names(&mode, &ahead, "", "").unwrap();
        old.seen = old.seen.checked_sub(LOOK_AGE_MAX).unwrap();
        ahead.keep("", "sess_1".into(), old);
        assert!(ahead.take("", "sess_1").is_none(), "it is too old");
    }
}
