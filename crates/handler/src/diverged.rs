//! A session that another request has stored since it was read.

use sessile_core::{Counter, Error, ErrorKind, Key, Result, Sessions};

use crate::merge::merge;
use crate::php_format::{join, split};
use crate::rules::{Concurrency, OnConflict, Rules};

pub(crate) struct Diverged {
    /// What this request has read.
    pub(crate) base: Vec<u8>,
    /// What is stored now.
    pub(crate) theirs: Vec<u8>,
}

impl Diverged {
    /// Applies what this request has changed to what is stored.
    #[cold]
    pub(crate) fn merge(
        &self,
        sessions: &Sessions,
        rules: &Rules,
        key: &Key,
        mine: &[u8],
    ) -> Result<Vec<u8>> {
        let Diverged { base, theirs } = self;
        let Concurrency::Merge { format: Some(format), on_conflict } = rules.concurrency else {
            // The setting was changed while the session was open.
            return Err(sessions.refuse_save(key, ErrorKind::Stale.into()));
        };
        if mine == base {
            return Ok(theirs.clone());
        }
        let split = |payload| split(format, payload);
        let (payload, conflicts) = match (split(base), split(mine), split(theirs)) {
            (Some(base), Some(mine), Some(theirs)) => {
                let (merged, conflicts) = merge(&base, &mine, &theirs);
                (join(format, &merged), conflicts.iter().map(|path| shown(path)).collect())
            }
            _ => (mine.to_vec(), vec!["the whole session, which cannot be split".to_owned()]),
        };
        if conflicts.is_empty() {
            return Ok(payload);
        }
        sessions.add_to_count(Counter::MergeConflicts, conflicts.len() as u64);
        let paths = conflicts.join(", ");
        if on_conflict == OnConflict::Fail {
            let why =
                format!("another request has changed the same values: {paths}; nothing is saved");
            let error = Error::new(ErrorKind::Stale, why).advice("send the request again");
            return Err(sessions.refuse_save(key, error));
        }
        let (label, tag) = (sessions.label(), key.tag());
        log::warn!(
            "{label}: session {tag}: two requests have changed the same values, and the last one \
             wins: {paths}"
        );
        Ok(payload)
    }
}

/// A path for the log.
fn shown(path: &[&[u8]]) -> String {
    let names: Vec<_> = path.iter().map(|name| name.escape_ascii().to_string()).collect();
    names.join(".").chars().take(100).collect()
}
