//! The sessions of phpredis listed and counted, for `stat` of `migrate:` and for `copy --move`.
//!
//! Invariant: nothing is transferred but names, ends and lengths, and no step blocks the server.
//! Not here: the walk for `analyze` and for copies, which must not end idle times.

use std::time::{Duration, Instant};

use sessile_core::{Cursor, Filter, Key, Listed, Page, Result, Stat};

use super::store::PhpRedis;
use super::{LOCK_SUFFIX, beginning_with};
use crate::redis::failure::unexpected;

/// The detail that counts sessions whose ids no key of ours can have: they do not move.
pub const REFUSED_IDS: &str = "refused_ids";
/// As in the store for our own sessions.
const COUNT_FOR: Duration = Duration::from_secs(5);
const STEP: usize = 1_000;

/// One step of a scan.
struct Step {
    /// The next cursor.
    next: String,
    keys: Vec<Key>,
    refused_ids: u64,
}

impl PhpRedis {
    /// The cursor is that of the server. A page may have a few entries more than were asked for.
    pub fn page(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let at = match cursor {
            None => "0",
            Some(cursor) => cursor
                .parse(|text| text.bytes().all(|byte| byte.is_ascii_digit()).then_some(text))?,
        };
        let Step { next, keys, .. } = self.scan(at, filter.entries_max)?;
        let mut entries = self.listed(keys)?;
        entries.retain(|entry| filter.matches(&entry.key, entry.payload_bytes, None));
        Ok(Page { entries, next: (next != "0").then_some(Cursor(next)) })
    }

    pub fn count_sessions(&self) -> Result<Stat> {
        let (now, mut stat) = (self.clock.now(), Stat::default());
        stat.complete = self.scan_all(|step| {
            for entry in self.listed(step.keys)? {
                stat.count(&entry.head, entry.payload_bytes, now);
            }
            Ok(())
        })?;
        // phpredis keeps no moment of a write.
        stat.oldest_written = None;
        Ok(stat)
    }

    /// A lower bound where there are too many sessions to look at all.
    pub fn count_refused_ids(&self) -> Result<u64> {
        let mut refused = 0;
        self.scan_all(|step| {
            refused += step.refused_ids;
            Ok(())
        })?;
        Ok(refused)
    }

    /// Scans for a limited time, and returns whether that was enough.
    fn scan_all(&self, mut look_at: impl FnMut(Step) -> Result<()>) -> Result<bool> {
        let (start, mut cursor) = (Instant::now(), "0".to_owned());
        while start.elapsed() <= COUNT_FOR {
            let step = self.scan(&cursor, STEP)?;
            cursor.clone_from(&step.next);
            look_at(step)?;
            if cursor == "0" {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn scan(&self, cursor: &str, count: usize) -> Result<Step> {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(beginning_with(&self.prefix));
        scan.arg("COUNT").arg(count).arg("TYPE").arg("string");
        let any_key = Key::session("a")?;
        let (next, names): (String, Vec<Vec<u8>>) = self.ask(self.soon(), &any_key, &scan)?;
        let id = |name: &Vec<u8>| {
            let id = name.strip_prefix(self.prefix.as_bytes())?;
            Key::session(str::from_utf8(id).ok()?).ok()
        };
        let sessions = names.iter().filter(|name| !name.ends_with(LOCK_SUFFIX));
        let (mut keys, mut refused_ids) = (Vec::new(), 0);
        for session in sessions {
            match id(session) {
                Some(key) => keys.push(key),
                None => refused_ids += 1,
            }
        }
        Ok(Step { next, keys, refused_ids })
    }

    /// The sessions of these keys that are still there, without their contents.
    fn listed(&self, keys: Vec<Key>) -> Result<Vec<Listed>> {
        let Some(any_key) = keys.first() else { return Ok(Vec::new()) };
        let mut asked = redis::pipe();
        for key in &keys {
            let [session, _] = self.names(key);
            asked.cmd("PTTL").arg(&session).cmd("STRLEN").arg(&session);
        }
        let answers: Vec<i64> =
            self.servers.with(self.soon(), any_key, |connection| asked.query(connection))?;
        let (answers, _) = answers.as_chunks::<2>();
        if answers.len() != keys.len() {
            return Err(unexpected());
        }
        let listed = keys.into_iter().zip(answers).filter_map(|(key, [ttl, bytes])| {
            let payload_bytes = u64::try_from(*bytes).ok()?;
            Some(Listed { key, payload_bytes, head: self.head(*ttl)? })
        });
        Ok(listed.collect())
    }
}
