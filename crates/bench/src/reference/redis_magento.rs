//! Sessions in Redis as Magento's own handler (php-redis-session-abstract) keeps them, with the
//! library's defaults.
//!
//! A session is a hash. HINCRBY of its field `lock` gives 1 to whoever has the lock; the others try
//! again every half a second, and break it after 30 seconds (the library also frees that of a dead
//! process of the same host, after about 10). A request takes six round trips:
//! SELECT; HINCRBY; HMGET; the holder and a life of six hours; the holder once more; the payload,
//! the lock set to 0, a counter of writes and the session's life. Unlike the library the row keeps
//! its connection, compresses nothing (the library does from 2 KiB on), lets any number wait
//! (the library refuses the sixth), and can give a lock up without writing.

use std::path::Path;
use std::time::{Duration, Instant};

use redis::ConnectionLike;
use sessile_core::{Error, ErrorKind, Result};

use super::handlers::{ids, prefetch, wait_for_lock};
use super::redis_trips::{connect, failed};
use crate::contender::Contender;
use crate::reference::unprepared;
use crate::worker::protocol::OpenRequest;

/// The library's `SLEEP_TIME`.
const POLL: Duration = Duration::from_millis(500);
/// The library's `DEFAULT_BREAK_AFTER`.
const BREAK_AFTER: Duration = Duration::from_secs(30);
const HOURS_6: u64 = 6 * 3_600;

struct RedisMagento {
    connection: Box<dyn ConnectionLike>,
    keys: Vec<String>,
    holder: String,
    ttl: Duration,
    break_after: Duration,
    out: Option<Vec<u8>>,
    begun: Option<usize>,
}

pub(super) fn open(place: &Path, opening: &OpenRequest) -> Result<Box<dyn Contender>> {
    Ok(Box::new(RedisMagento {
        connection: connect(place).map_err(failed)?,
        keys: ids(opening).map(|id| format!("sess_{id}")).collect(),
        holder: format!("{}|localhost", std::process::id()),
        ttl: opening.ttl,
        break_after: opening.lock_ttl.unwrap_or(BREAK_AFTER),
        out: None,
        begun: None,
    }))
}

impl RedisMagento {
    fn select(&mut self) -> Result<()> {
        redis::cmd("SELECT").arg(0).exec(self.connection.as_mut()).map_err(failed)
    }

    fn get(&mut self, session: usize) -> Result<()> {
        let key = self.keys.get(session).ok_or_else(unprepared)?;
        let mut get = redis::cmd("HMGET");
        get.arg(key).arg("data").arg("writes");
        let found: (Option<Vec<u8>>, Option<u64>) =
            get.query(self.connection.as_mut()).map_err(failed)?;
        self.out = found.0;
        Ok(())
    }

    fn write(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        let key = self.keys.get(session).ok_or_else(unprepared)?;
        let mut write = redis::pipe();
        write.cmd("SELECT").arg(0).ignore();
        write.cmd("HMSET").arg(key).arg("data").arg(payload).arg("lock").arg(0).ignore();
        write.cmd("HINCRBY").arg(key).arg("writes").arg(1).ignore();
        write.cmd("EXPIRE").arg(key).arg(ttl.as_secs().max(1)).ignore();
        write.exec(self.connection.as_mut()).map_err(failed)
    }
}

impl Contender for RedisMagento {
    fn prefetch_ids(&mut self, sessions: &[usize]) {
        prefetch(sessions.iter().filter_map(|session| self.keys.get(*session)));
    }

    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        self.write(session, payload, ttl)
    }

    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        self.select()?;
        self.get(session)?;
        let key = self.keys.get(session).ok_or_else(unprepared)?;
        let mut keep = redis::cmd("EXPIRE");
        keep.arg(key).arg(HOURS_6).exec(self.connection.as_mut()).map_err(failed)?;
        Ok(self.out.as_deref())
    }

    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        self.select()?;
        let key = self.keys.get(session).ok_or_else(unprepared)?;
        let (start, connection) = (Instant::now(), self.connection.as_mut());
        let mut take = redis::cmd("HINCRBY");
        take.arg(key).arg("lock").arg(1);
        wait_for_lock(POLL, || {
            let taken: u64 = take.query(connection).map_err(failed)?;
            Ok(taken == 1 || start.elapsed() >= self.break_after)
        })?;
        self.begun = Some(session);
        self.get(session)?;
        let key = self.keys.get(session).ok_or_else(unprepared)?;
        let mut hold = redis::pipe();
        let holder = hold.cmd("HMSET").arg(key).arg("pid").arg(&self.holder);
        holder.arg("lock").arg(1).arg("req").arg("GET shop.example/cart").ignore();
        hold.cmd("EXPIRE").arg(key).arg(HOURS_6).ignore();
        hold.exec(self.connection.as_mut()).map_err(failed)?;
        Ok(self.out.as_deref())
    }

    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        let session = self.begun.take().ok_or_else(unprepared)?;
        let key = self.keys.get(session).ok_or_else(unprepared)?;
        let holder: Option<String> = redis::cmd("HGET")
            .arg(key)
            .arg("pid")
            .query(self.connection.as_mut())
            .map_err(failed)?;
        if holder.as_ref() != Some(&self.holder) {
            return Err(Error::new(ErrorKind::Stale, "another request has broken the lock"));
        }
        self.write(session, payload, self.ttl)
    }

    /// The library writes a session also if nothing has changed.
    fn touch(&mut self) -> Result<()> {
        let payload = self.out.take().unwrap_or_default();
        self.commit(&payload)
    }

    fn release(&mut self) -> Result<()> {
        let Some(session) = self.begun.take() else { return Ok(()) };
        let key = self.keys.get(session).ok_or_else(unprepared)?;
        let mut unlock = redis::cmd("HSET");
        unlock.arg(key).arg("lock").arg(0);
        unlock.exec(self.connection.as_mut()).map_err(failed)
    }
}
