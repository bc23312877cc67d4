//! The sessions of one store of ours into another one, copied or moved.

use std::time::Duration;

use indicatif::ProgressBar;
use sessile_core::{Absence, Cursor, Detail, Error, ErrorKind, Filter, Key, Sessions};
use sessile_stores::copy::Pair;
use sessile_stores::layouts::end_without_tombstone;

use super::counts::Counts;

/// How long a move waits for a session that is in use.
const WAIT_MAX: Duration = Duration::from_secs(1);

pub struct Stores {
    pair: Pair,
    /// The two stores as one that moves sessions.
    both: Option<Sessions>,
    /// The new store is another program's.
    is_way_back: bool,
    is_dry: bool,
    /// Behind the last page.
    cursor: Option<Cursor>,
}

impl Stores {
    pub fn new(pair: Pair, both: Option<Sessions>, is_way_back: bool, is_dry: bool) -> Stores {
        Stores { pair, both, is_way_back, is_dry, cursor: None }
    }

    pub fn labels(&self) -> [&str; 2] {
        [self.pair.from.label(), self.pair.to.label()]
    }

    /// How many sessions there are, as far as the old store tells.
    pub fn count(&self) -> u64 {
        self.pair.from.stat().map_or(0, |stat| stat.sessions)
    }

    /// Counts the sessions that another program has under ids that no store of ours takes.
    pub fn count_refused(&self, counts: &mut Counts) -> Result<(), Error> {
        for (name, detail) in self.pair.from.details()? {
            if let ("refused_ids", Detail::Count(number)) = (name, detail)
                && let Err(refused) = Key::session(".")
            {
                counts.refuse_several(number, refused)?;
            }
        }
        Ok(())
    }

    /// Copies the next sessions, about so many. Returns whether there are more.
    pub fn page(
        &mut self,
        entries_max: usize,
        counts: &mut Counts,
        bar: &ProgressBar,
    ) -> Result<bool, Error> {
        let filter = Filter { entries_max, ..Filter::default() };
        let page = self.pair.from.list(self.cursor.as_ref(), &filter)?;
        for entry in &page.entries {
            self.one(&entry.key, counts)?;
            bar.inc(1);
        }
        self.cursor = page.next;
        Ok(self.cursor.is_some())
    }

    fn one(&self, key: &Key, counts: &mut Counts) -> Result<(), Error> {
        let Some(both) = &self.both else {
            let is_dry = self.is_dry;
            return counts.count(if is_dry { self.pair.compare(key) } else { self.pair.copy(key) });
        };
        match self.move_one(both, key) {
            Ok(moved) => counts.moved += u64::from(moved),
            Err(error) => counts.refuse(error)?,
        }
        Ok(())
    }

    /// The move is a part of the begin.
    fn move_one(&self, both: &Sessions, key: &Key) -> Result<bool, Error> {
        let begun = both.begin(key, WAIT_MAX)?;
        let moved = begun.record.is_some();
        if moved || begun.moved || begun.absence == Absence::Regenerated {
            self.remove_leftover(key)?;
        }
        begun.lease.release()?;
        Ok(moved)
    }

    /// What an interrupted move has left. Under the lock of the old store, too: another move may be
    /// under way.
    fn remove_leftover(&self, key: &Key) -> Result<(), Error> {
        let from = &self.pair.from;
        // Without the lock first: a begin may leave a file that PHP takes for a session.
        let found = from.find(key)?;
        if found.record.is_none() || found.moved_to.is_some() {
            return Ok(());
        }
        let mut left = from.begin_at_once(key)?;
        if left.record.is_none() || left.moved {
            return Ok(());
        }
        match self.pair.to.sync() {
            Err(error) if *error.kind() != ErrorKind::Unsupported => Err(error),
            _ if self.is_way_back => end_without_tombstone(from, &mut left.lease, key),
            _ => from.destroy(key),
        }
    }
}
