//! A transaction that holds the row of its session over the request, on MySQL and MariaDB.
//!
//! BEGIN, SELECT FOR UPDATE, UPDATE, COMMIT over one reused connection to the same kind of private
//! server, with the maintained client library and prepared statements. `mysql-transaction` takes
//! four round trips, as today's handlers do. `mysql-two-trips` has `autocommit` off, so that the
//! SELECT begins the transaction, and calls a stored procedure that changes the row and commits:
//! the client library cannot send two statements at once, as MariaDB's own clients do.
//! `mysql-unlocked` reads and writes by two statements without a transaction, as the handlers of
//! Drupal and Django do: updates of two at once are lost. READ COMMITTED, which
//! handlers over PDO and our store also set, does not lock missing rows. As in our store, the index
//! is on a moment that commits do not name (`due`, never later than the expiry), no word is
//! converted from another character set, and no statement asks for statistics.
//!
//! A deadlocked transaction is repeated, as MySQL's manual requires of every application.

use std::path::Path;
use std::time::Duration;

use mysql::consts::CapabilityFlags;
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Statement, Value};
use sessile_core::{Error, ErrorKind, Result};

use super::handlers::{Locking, check_one_row, expiry_seconds, ids, lock_timeout, prefetch};
use crate::contender::Contender;
use crate::defaults::WAIT_MAX;
use crate::reference::unprepared;
use crate::worker::protocol::OpenRequest;

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
    locking: Locking,
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

/// With two trips `insert`, `update` and `touch` call procedures that commit.
struct MysqlStatements {
    insert: Statement,
    select: Statement,
    select_for_update: Statement,
    update: Statement,
    touch: Statement,
}

/// The statements that change a row: insert, update, touch.
///
/// A statement that names an indexed column costs more, also if it does not change. A commit that
/// lets a session expire before it is due finds no row; the ttl never shrinks here.
fn changes(data: &str, expires: &str, id: &str) -> [String; 3] {
    let found = format!("expires = {expires} WHERE id = {id} AND due + 0 <= {expires}");
    [
        format!(
            "INSERT INTO sessions (data, expires, id, due) VALUES ({data}, {expires}, {id}, \
             {expires})"
        ),
        format!("UPDATE sessions SET data = {data}, {found}"),
        format!("UPDATE sessions SET {found}"),
    ]
}

/// A procedure of data, expiry and id that does this, commits, and returns the number of rows.
fn procedure(name: &str, does: &str) -> String {
    format!(
        "CREATE PROCEDURE IF NOT EXISTS {name}(d LONGBLOB, e INT UNSIGNED, i VARBINARY(128)) BEGIN \
         {does}; SELECT ROW_COUNT(); COMMIT; END"
    )
}

pub(super) fn open(
    place: &Path,
    opening: &OpenRequest,
    locking: Locking,
) -> Result<Box<dyn Contender>> {
    connect(place, opening, locking).map(|transaction| Box::new(transaction) as Box<dyn Contender>)
}

fn connect(place: &Path, opening: &OpenRequest, locking: Locking) -> Result<MysqlTransaction> {
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
        "SET NAMES ascii COLLATE ascii_bin /*M!100101 , SESSION use_stat_tables = 'never', \
         SESSION optimizer_use_condition_selectivity = 1 */"
            .to_owned(),
        format!("SET SESSION innodb_lock_wait_timeout = {}", WAIT_MAX.as_secs()),
        "CREATE TABLE IF NOT EXISTS sessions (id VARBINARY(128) NOT NULL PRIMARY KEY, data \
         LONGBLOB NOT NULL, \
         expires INT UNSIGNED NOT NULL, due INT UNSIGNED NOT NULL, KEY due (due)) \
         ENGINE = InnoDB"
            .to_owned(),
    ];
    lines.iter().try_for_each(|line| conn.query_drop(line)).map_err(failed)?;
    let statements = if locking == Locking::TwoTrips {
        let names = ["session_insert", "session_update", "session_touch"];
        for (name, change) in names.into_iter().zip(changes("d", "e", "i")) {
            conn.query_drop(procedure(name, &change)).map_err(failed)?;
        }
        conn.query_drop("SET SESSION autocommit = 0").map_err(failed)?;
        names.map(|name| format!("CALL {name}(?, ?, ?)"))
    } else {
        changes("?", "?", "?")
    };
    let mut prepare = |text: &str| conn.prep(text).map_err(failed);
    let [insert, update, touch] = statements;
    let statements = MysqlStatements {
        insert: prepare(&insert)?,
        select: prepare("SELECT data FROM sessions WHERE id = ?")?,
        select_for_update: prepare("SELECT data FROM sessions WHERE id = ? FOR UPDATE")?,
        update: prepare(&update)?,
        touch: prepare(&touch)?,
    };
    let ids = ids(opening).collect();
    Ok(MysqlTransaction {
        conn,
        locking,
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

impl MysqlTransaction {
    fn begin_locked(&mut self, session: usize) -> Result<Option<Vec<u8>>> {
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        loop {
            if self.locking == Locking::FourTrips {
                self.conn.query_drop("BEGIN").map_err(failed)?;
            }
            let select = match self.locking {
                Locking::Without => &self.statements.select,
                Locking::FourTrips | Locking::TwoTrips => &self.statements.select_for_update,
            };
            match self.conn.exec_first(select, (id,)) {
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
        let MysqlStatements { insert, update, touch, .. } = &self.statements;
        let statement = match payload {
            Some(_) if self.out.is_some() => update,
            Some(_) => insert,
            None => touch,
        };
        // A procedure has all three parameters.
        let is_procedure = self.locking == Locking::TwoTrips;
        let data = payload.map(Value::from).or(is_procedure.then_some(Value::NULL));
        let mut values: Vec<Value> = data.into_iter().collect();
        values.extend([Value::from(expires), Value::from(id)]);
        if is_procedure {
            return Ok(self.conn.exec_first(statement, values)?.unwrap_or(0));
        }
        values.push(Value::from(expires));
        self.conn.exec_drop(statement, values)?;
        let changed = self.conn.affected_rows();
        if self.locking == Locking::Without {
            return Ok(changed);
        }
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
        let insert = &self.statements.insert;
        let inserted = if self.locking == Locking::TwoTrips {
            self.conn.exec_drop(insert, (payload, expires, id))
        } else {
            self.conn.exec_drop(insert, (payload, expires, id, expires))
        };
        inserted.map_err(failed)
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
            Some(_) if self.locking != Locking::Without => {
                self.conn.query_drop("ROLLBACK").map_err(failed)
            }
            _ => Ok(()),
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
        let place = Place::start("mysql-transaction")?;
        let opening = opening(&place);
        // In two threads: a commit may wait for the other one.
        let held = std::sync::Barrier::new(2);
        let change = |session: usize| {
            let mut contender = connect(place.path(), &opening, Locking::FourTrips).unwrap();
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

    /// Two statements went as one text, with the payload in hexadecimal: the client spent twice as
    /// long on that as the rows of four trips do, and our store looked better than it is.
    #[test]
    fn two_trips_are_two_prepared_statements() {
        let Some(place) = Place::start("mysql-two-trips") else { return };
        let mut contender = connect(place.path(), &opening(&place), Locking::TwoTrips).unwrap();
        contender.create(0, b"a cart", Duration::from_secs(60)).unwrap();
        let executed = |contender: &mut MysqlTransaction| {
            let row = contender.conn.query_first("SHOW SESSION STATUS LIKE 'Com_stmt_execute'");
            let (_, count): (String, u64) = row.unwrap().unwrap();
            count
        };
        let before = executed(&mut contender);
        for _ in 0..3 {
            assert_eq!(contender.begin(0).unwrap(), Some(&b"a cart"[..]));
            contender.commit(b"a cart").unwrap();
        }
        assert_eq!(executed(&mut contender) - before, 6);
    }

    #[test]
    fn of_two_requests_that_create_one_session_the_second_is_told_that_it_came_too_late() {
        let Some((told, _)) = two_at_once([0, 0], None) else { return };
        assert_eq!(told.iter().filter(|told| told.is_ok()).count(), 1, "{told:?}");
        let late = told.into_iter().find_map(Result::err).unwrap();
        assert!(matches!(late.kind(), ErrorKind::Stale), "{late}");
    }
}
