//! A session that another request has stored since it was read.

use sessile_core::{Counter, Error, ErrorKind, Key, Result, Sessions};

use crate::format::{can_split, merge_payloads};
use crate::merge::Removals;
use crate::rules::{Concurrency, OnConflict, Rules};

/// The paths that are logged of one save.
const PATHS_SHOWN: usize = 5;

const CHANGED: &str = "another request has changed the session since it was read; nothing is saved";
const UNSPLIT: &str = "another request has changed the session, and two values of it share a \
                       reference or an object, so that it cannot be merged; nothing is saved";

pub(crate) struct Diverged {
    /// What this request has read.
    pub(crate) base: Vec<u8>,
    /// What is stored now.
    pub(crate) theirs: Vec<u8>,
    pub(crate) removals: Removals,
}

pub(crate) struct Merged {
    pub(crate) payload: Vec<u8>,
    conflicts: usize,
    paths: String,
}

impl Diverged {
    /// Whether a save can merge, whatever this request still changes, unless two have changed the
    /// same values.
    ///
    /// # Errors
    ///
    /// `Stale` if it cannot; it is counted and logged.
    #[cold]
    pub(crate) fn can_merge(&self, sessions: &Sessions, rules: &Rules, key: &Key) -> Result<()> {
        let Concurrency::Merge { format: Some(format), .. } = rules.concurrency else {
            return Err(stale(sessions, key, 1, CHANGED));
        };
        match can_split(format, &self.base) && can_split(format, &self.theirs) {
            true => Ok(()),
            false => Err(stale(sessions, key, 1, UNSPLIT)),
        }
    }

    /// Applies what this request has changed to what is stored.
    #[cold]
    pub(crate) fn merge(
        &self,
        sessions: &Sessions,
        rules: &Rules,
        key: &Key,
        mine: &[u8],
    ) -> Result<Merged> {
        let Diverged { base, theirs, removals } = self;
        let refuse = |conflicts, why: &str| Err(stale(sessions, key, conflicts, why));
        if mine == base {
            return Ok(Merged { payload: theirs.clone(), conflicts: 0, paths: String::new() });
        }
        let Concurrency::Merge { format: Some(format), on_conflict } = rules.concurrency else {
            return refuse(1, CHANGED);
        };
        let merged = merge_payloads(format, [base, mine, theirs], *removals);
        let Some((payload, conflicts)) = merged else {
            return refuse(1, UNSPLIT);
        };
        let paths = shown(&conflicts);
        if on_conflict == OnConflict::Fail && !conflicts.is_empty() {
            let why =
                format!("nothing is saved: another request has changed the same values: {paths}");
            return refuse(conflicts.len(), &why);
        }
        Ok(Merged { payload, conflicts: conflicts.len(), paths })
    }
}

impl Merged {
    /// Counts and logs the conflicts of a save that is stored.
    pub(crate) fn stored(&self, sessions: &Sessions, key: &Key) {
        if self.conflicts > 0 {
            sessions.add_to_count(Counter::MergeConflicts, self.conflicts as u64);
            let (label, tag, paths) = (sessions.label(), key.tag(), &self.paths);
            log::warn!(
                "{label}: session {tag}: two requests have changed the same values, and the last \
                 change stays: {paths}"
            );
        }
    }
}

fn stale(sessions: &Sessions, key: &Key, conflicts: usize, why: &str) -> Error {
    sessions.add_to_count(Counter::MergeConflicts, conflicts as u64);
    let error = Error::new(ErrorKind::Stale, why.to_owned()).advice("send the request again");
    sessions.refuse_save(key, error)
}

fn shown(conflicts: &[Vec<&[u8]>]) -> String {
    let path = |path: &Vec<&[u8]>| {
        let names: Vec<_> = path.iter().map(|name| name.escape_ascii().to_string()).collect();
        names.join(".").chars().take(100).collect::<String>()
    };
    let paths: Vec<_> = conflicts.iter().take(PATHS_SHOWN).map(path).collect();
    match conflicts.len().saturating_sub(PATHS_SHOWN) {
        0 => paths.join(", "),
        more => format!("{} and {more} more", paths.join(", ")),
    }
}
