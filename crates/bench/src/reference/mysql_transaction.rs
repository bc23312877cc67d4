//! A transaction that holds the row of its session over the request, on MySQL and MariaDB.
//!
//! BEGIN, SELECT FOR UPDATE, UPDATE, COMMIT over one reused connection to the same kind of private
//! server, with the maintained client library. `mysql-transaction` takes four round trips, as
//! today's handlers do, in prepared statements; `mysql-two-trips` sends two statements as one text,
//! which is what the client can send in one write. READ COMMITTED, which handlers over PDO and our
//! store also set, does not lock missing rows. As in our store, the index is on a moment that
//! commits do not name (`due`, never later than the expiry).
//!
//! A deadlocked transaction is repeated, as MySQL's manual requires of every application.

use std::path::Path;
use std::time::Duration;

use mysql::consts::CapabilityFlags;
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Statement};
use sessile_core::{Durability, Error, ErrorKind, Result};

use super::handlers::{check_one_row, expiry_seconds, ids, lock_timeout, prefetch};
use crate::contender::Contender;
use crate::defaults::WAIT_MAX;
use crate::reference::{AfterDeath, Reference, unprepared};
use crate::worker::protocol::OpenRequest;

pub(super) const FOUR_TRIPS: Reference = Reference {
    name: "mysql-transaction",
    sentence: "MySQL as today's handlers use it: a transaction with a row lock, held over the \
               request",
    server: Some("mariadbd"),
    durability: &[Durability::None, Durability::Second, Durability::Commit],
    after_death: AfterDeath::Freed,
    ..Reference::shared(|place, opening| open(place, opening, false))
};
pub(super) const TWO_TRIPS: Reference = Reference {
    name: "mysql-two-trips",
    sentence: "MySQL with BEGIN and SELECT in one write, and UPDATE and COMMIT in one",
    only_throughput: true,
    open: |place, opening| open(place, opening, true),
    ..FOUR_TRIPS
};

/// A row lock was not granted within `innodb_lock_wait_timeout`.
const LOCK_WAIT_TIMEOUT: u16 = 1_205;
/// InnoDB has rolled back this transaction to end a deadlock.
const DEADLOCK: u16 = 1_213;
/// The row exists.
const DUPLICATE: u16 = 1_062;
/// A request that is restarted more often fails.
const RESTARTS_MAX: u64 = 10;
const PACKET_BYTES_MAX: usize = 1 << 30;

struct MysqlTransaction {
    conn: Conn,
    pipelined: bool,
    statements: MysqlStatements,
    ids: Vec<String>,
    ttl: Duration,
    out: Option<Vec<u8>>,
    begun: Option<usize>,
    restarts: Restarts,
}

#[derive(Default)]
struct Restarts {
    all: u64,
    of_this_request: u64,
}

struct MysqlStatements {
    insert: Statement,
    select: Statement,
    select_for_update: Statement,
    update: Statement,
    touch: Statement,
}

fn open(place: &Path, opening: &OpenRequest, pipelined: bool) -> Result<Box<dyn Contender>> {
    connect(place, opening, pipelined)
        .map(|transaction| Box::new(transaction) as Box<dyn Contender>)
}

fn connect(place: &Path, opening: &OpenRequest, pipelined: bool) -> Result<MysqlTransaction> {
    let settings = OptsBuilder::new()
        .socket(Some(place.display().to_string()))
        .user(Some("root"))
        .db_name(Some("test"))
        .prefer_socket(false)
        // A touch within the same second finds its row and changes nothing.
        .additional_capabilities(CapabilityFlags::CLIENT_FOUND_ROWS)
        .max_allowed_packet(Some(PACKET_BYTES_MAX));
    let mut conn = Conn::new(settings).map_err(failed)?;
    let lines = [
        // The server's default, REPEATABLE READ, locks the gap around a missing row. Two requests
        // that create sessions in one gap both get that lock, neither can insert, and one is rolled
        // back.
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned(),
        format!("SET SESSION innodb_lock_wait_timeout = {}", WAIT_MAX.as_secs()),
        "CREATE TABLE IF NOT EXISTS sessions (id VARBINARY(128) NOT NULL PRIMARY KEY, data \
         LONGBLOB NOT NULL, \
         expires INT UNSIGNED NOT NULL, due INT UNSIGNED NOT NULL, KEY due (due)) \
         ENGINE = InnoDB"
            .to_owned(),
    ];
    lines.iter().try_for_each(|line| conn.query_drop(line)).map_err(failed)?;
    let mut prepare = |text: &str| conn.prep(text).map_err(failed);
    let statements = MysqlStatements {
        insert: prepare("INSERT INTO sessions (data, expires, id, due) VALUES (?, ?, ?, ?)")?,
        select: prepare("SELECT data FROM sessions WHERE id = ?")?,
        select_for_update: prepare("SELECT data FROM sessions WHERE id = ? FOR UPDATE")?,
        // A statement that names an indexed column costs more, also if it does not change. A commit
        // that lets a session expire before it is due finds no row; the ttl never shrinks here.
        update: prepare("UPDATE sessions SET data = ?, expires = ? WHERE id = ? AND due + 0 <= ?")?,
        touch: prepare("UPDATE sessions SET expires = ? WHERE id = ? AND due + 0 <= ?")?,
    };
    let ids = ids(opening).collect();
    Ok(MysqlTransaction {
        conn,
        pipelined,
        statements,
        ids,
        ttl: opening.ttl,
        out: None,
        begun: None,
        restarts: Restarts::default(),
    })
}

fn failed(error: mysql::Error) -> Error {
    match error {
        mysql::Error::MySqlError(error) if error.code == LOCK_WAIT_TIMEOUT => {
            lock_timeout(WAIT_MAX)
        }
        mysql::Error::MySqlError(error) if error.code == DUPLICATE => {
            Error::new(ErrorKind::Stale, "another request created the session meanwhile")
        }
        error => Error::new(ErrorKind::Io, "the server refused the operation").source(error),
    }
}

impl Restarts {
    /// Whether to repeat a transaction, which is counted.
    fn should_restart(&mut self, error: &mysql::Error) -> bool {
        let victim = matches!(error, mysql::Error::MySqlError(error) if error.code == DEADLOCK);
        let again = victim && self.of_this_request < RESTARTS_MAX;
        self.of_this_request += u64::from(again);
        self.all += u64::from(again);
        again
    }
}

/// Runs several statements in one round trip. Returns the value of the last row and the number of
/// changed rows; after a failure the server leaves out the rest.
fn run_text(conn: &mut Conn, text: &str) -> mysql::Result<(Option<Vec<u8>>, u64)> {
    let mut results = conn.query_iter(text)?;
    let (mut value, mut changed) = (None, 0);
    while let Some(set) = results.iter() {
        changed += set.affected_rows();
        for row in set {
            value = row?.take(0);
        }
    }
    Ok((value, changed))
}

/// Appends a literal of any bytes. The client takes text only, so they are in hexadecimal.
fn append_literal(text: &mut String, bytes: &[u8]) {
    let digit = |four: u8| char::from(if four < 10 { b'0' + four } else { b'a' + four - 10 });
    text.reserve(bytes.len() * 2 + 128);
    text.push_str("x'");
    text.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
    text.push('\'');
}

impl MysqlTransaction {
    fn begin_locked(&mut self, session: usize) -> Result<Option<Vec<u8>>> {
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        loop {
            let found = if self.pipelined {
                let text = format!("BEGIN; SELECT data FROM sessions WHERE id = '{id}' FOR UPDATE");
                run_text(&mut self.conn, &text).map(|(found, _)| found)
            } else {
                self.conn.query_drop("BEGIN").map_err(failed)?;
                self.conn.exec_first(&self.statements.select_for_update, (id,))
            };
            match found {
                Ok(found) => return Ok(found),
                Err(error) if self.restarts.should_restart(&error) => {}
                Err(error) => {
                    // a time-out ends the statement, not the transaction
                    let _ = self.conn.query_drop("ROLLBACK");
                    return Err(failed(error));
                }
            }
        }
    }

    /// Changes the row and ends the transaction. Returns the number of changed rows.
    fn change(&mut self, session: usize, payload: Option<&[u8]>) -> mysql::Result<u64> {
        let Some(id) = self.ids.get(session) else { return Ok(0) };
        let expires = expiry_seconds(self.ttl);
        if self.pipelined {
            let mut text = String::new();
            let end = match (payload, self.out.is_some()) {
                (Some(payload), true) => {
                    text.push_str("UPDATE sessions SET data = ");
                    append_literal(&mut text, payload);
                    format!(", expires = {expires} WHERE id = '{id}' AND due + 0 <= {expires}; ")
                }
                (Some(payload), false) => {
                    text.push_str("INSERT INTO sessions SET data = ");
                    append_literal(&mut text, payload);
                    format!(", expires = {expires}, due = {expires}, id = '{id}'; ")
                }
                (None, _) => format!(
                    "UPDATE sessions SET expires = {expires} WHERE id = '{id}' AND due + 0 <= \
                     {expires}; "
                ),
            };
            text.push_str(&end);
            text.push_str("COMMIT");
            return run_text(&mut self.conn, &text).map(|(_, changed)| changed);
        }
        let MysqlStatements { insert, update, touch, .. } = &self.statements;
        match payload {
            Some(payload) => {
                let statement = if self.out.is_some() { update } else { insert };
                self.conn.exec_drop(statement, (payload, expires, id, expires))?;
            }
            None => self.conn.exec_drop(touch, (expires, id, expires))?,
        }
        let changed = self.conn.affected_rows();
        self.conn.query_drop("COMMIT").map(|()| changed)
    }
}

impl Contender for MysqlTransaction {
    fn prefetch_ids(&mut self, sessions: &[usize]) {
        prefetch(sessions.iter().filter_map(|session| self.ids.get(*session)));
    }

    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        let expires = expiry_seconds(ttl);
        self.conn
            .exec_drop(&self.statements.insert, (payload, expires, id, expires))
            .map_err(failed)
    }

    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        self.out = self.conn.exec_first(&self.statements.select, (id,)).map_err(failed)?;
        Ok(self.out.as_deref())
    }

    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        self.restarts.of_this_request = 0;
        self.out = self.begin_locked(session)?;
        self.begun = Some(session);
        Ok(self.out.as_deref())
    }

    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        let session = self.begun.take().ok_or_else(unprepared)?;
        loop {
            let error = match self.change(session, Some(payload)) {
                Ok(changed) => return check_one_row(changed),
                Err(error) => error,
            };
            if !self.restarts.should_restart(&error) {
                let _ = self.conn.query_drop("ROLLBACK"); // the error above matters more
                return Err(failed(error));
            }
            // The new payload follows from the old one and may replace only that.
            if self.begin_locked(session)? != self.out {
                let _ = self.conn.query_drop("ROLLBACK");
                return Err(Error::new(
                    ErrorKind::Stale,
                    "another request changed the session after a deadlock",
                ));
            }
        }
    }

    fn touch(&mut self) -> Result<()> {
        let session = self.begun.take().ok_or_else(unprepared)?;
        let moved = self.change(session, None).map_err(failed);
        let moved = moved.inspect_err(|_| {
            let _ = self.conn.query_drop("ROLLBACK"); // the error above matters more
        });
        check_one_row(moved?)
    }

    fn restarted(&self) -> Option<u64> {
        Some(self.restarts.all)
    }

    fn release(&mut self) -> Result<()> {
        match self.begun.take() {
            Some(_) => self.conn.query_drop("ROLLBACK").map_err(failed),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::tests::{Place, opening};

    /// Each attempt to commit once had its own limit of ten restarts: up to a hundred for a
    /// request.
    #[test]
    fn a_request_is_done_again_ten_times_in_all_and_only_after_a_deadlock() {
        let error = |code| {
            mysql::Error::MySqlError(mysql::MySqlError {
                state: "40001".into(),
                message: "given up".into(),
                code,
            })
        };
        let mut restarts = Restarts::default();
        assert!(!restarts.should_restart(&error(LOCK_WAIT_TIMEOUT)));
        let allowed = (0..30).filter(|_| restarts.should_restart(&error(DEADLOCK))).count();
        assert_eq!((allowed, restarts.all), (10, 10));
        restarts.of_this_request = 0;
        assert!(
            restarts.should_restart(&error(DEADLOCK)) && restarts.all == 11,
            "the next request has its own"
        );
    }

    /// Results and number of restarted transactions of two requests that begin and then commit a
    /// session each; `None` without the server.
    fn two_at_once(sessions: [usize; 2], level: Option<&str>) -> Option<([Result<()>; 2], u64)> {
        let place = Place::start(FOUR_TRIPS.name)?;
        let opening = opening(&place);
        // In two threads: a commit may wait for the other one.
        let held = std::sync::Barrier::new(2);
        let change = |session: usize| {
            let mut contender = connect(place.path(), &opening, false).unwrap();
            if let Some(level) = level {
                contender
                    .conn
                    .query_drop(format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"))
                    .unwrap();
            }
            assert_eq!(contender.begin(session).unwrap(), None);
            held.wait();
            let committed = contender.commit(b"payload");
            assert_eq!(contender.read(session).unwrap(), Some(&b"payload"[..]));
            (committed, contender.restarted().unwrap())
        };
        let [first, second] = std::thread::scope(|scope| {
            let both = sessions.map(|session| scope.spawn(move || change(session)));
            both.map(|thread| thread.join().unwrap())
        });
        Some(([first.0, second.0], first.1 + second.1))
    }

    /// The row once kept the default isolation level, which handlers do not: workers that created
    /// their sessions anew after a server kill got deadlocks.
    #[test]
    fn creates_in_one_gap_deadlock_only_at_the_default_isolation_level() {
        let Some((told, restarted)) = two_at_once([0, 1], None) else { return };
        assert!(told.iter().all(Result::is_ok) && restarted == 0, "{told:?}, {restarted}");
        // The remaining deadlocks are repeated and counted.
        let (told, restarted) = two_at_once([0, 1], Some("REPEATABLE READ")).unwrap();
        assert!(told.iter().all(Result::is_ok), "{told:?}");
        assert!(restarted > 0, "there was no deadlock, so this shows nothing");
    }

    #[test]
    fn of_two_requests_that_create_one_session_the_second_is_told_that_it_came_too_late() {
        let Some((told, _)) = two_at_once([0, 0], None) else { return };
        assert_eq!(told.iter().filter(|told| told.is_ok()).count(), 1, "{told:?}");
        let late = told.into_iter().find_map(Result::err).unwrap();
        assert!(matches!(late.kind(), ErrorKind::Stale), "{late}");
    }
}
