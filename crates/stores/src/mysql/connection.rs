//! One connection to the server: its settings, what is sent over it, and what a fork must not do to
//! it.
//!
//! Invariants:
//!
//! * a connection that failed is never used again;
//! * a child of a fork sends nothing over its parent's connections, not even a good-bye: it closes
//!   its own descriptor, which the server does not see;
//! * every connection has the settings on which the statements rely, whatever the server's own are.

use std::os::fd::AsRawFd;
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, Row};
use sessile_core::{Error, ErrorKind, Result};

use super::failure::{Attempt, FORGOTTEN, MysqlFailure, NO_MORE_STATEMENTS};
use super::options::Options;
use super::statement::{Message, TEXT_BYTES_MAX, sent};
use crate::connections::pool::{AttemptFailure, PooledConnection};
use crate::locks::check_process;
use crate::sql::value::Value;

/// Ample for what a packet has beside the payload: the other values of a statement, the other
/// columns of a row.
const PACKET_OVERHEAD: u64 = 1_024;
/// The server closes a connection that was silent for this long, and frees its locks, also those of
/// a host that vanished. Many hosters have a minute, which a lease may outlive.
const SILENCE_SECONDS_MAX: u32 = 86_400;
/// Longest wait for a row lock, which is held for one statement; at most half of the time for an
/// answer. And for a table that somebody alters: the server does not see that the waiting
/// connection was given up, and leaves it the session's lock.
const ROW_LOCK_SECONDS_MAX: u64 = 5;
/// Begins before a connection prepares statements: each costs a round trip, and the server counts
/// them.
const BEGINS_BEFORE_PREPARING: u8 = 8;
/// `PID_MAX_LIMIT` of the kernel has this many bits.
pub(super) const PID_BITS: u32 = 22;

/// The results of a message. Rows are taken from the last statement on, counts of changed rows from
/// the first one on. What is not there is empty.
pub(super) struct Results(std::vec::IntoIter<(Vec<Row>, u64)>);

impl Results {
    pub fn rows(&mut self) -> Vec<Row> {
        self.0.next_back().unwrap_or_default().0
    }

    pub fn row(&mut self) -> Option<Row> {
        self.rows().into_iter().next()
    }

    pub fn changed(&mut self) -> u64 {
        self.0.next().unwrap_or_default().1
    }
}

pub struct Connection {
    conn: Option<Conn>,
    pid: u32,
    broken: bool,
    single_use: bool,
    response: Duration,
    pub facts: Facts,
    /// The server keeps the statement [`READ_IF_LOCKED`](super::statements::READ_IF_LOCKED) for it.
    pub knows_read: bool,
    begins: u8,
    /// How many of the last begins, without a gap, found their session there and free.
    found: u8,
    prepares_no_more: bool,
}

#[derive(Default)]
pub(super) struct Facts {
    pub version: String,
    pub payload_bytes_max: u64,
    pub read_only: bool,
    /// A commit is on the disk when it is acknowledged, as the server was set when the connection
    /// was opened.
    pub commits_are_durable: bool,
    /// The server's number of the connection is not the one that the handshake told.
    pub behind_proxy: bool,
}

impl Facts {
    /// MariaDB waits for fractions of a second; MySQL rounds them.
    pub fn is_mariadb(&self) -> bool {
        self.version.contains("MariaDB")
    }

    /// Whether a read can pass over a locked row, and take a lock by what it reads. Untested with
    /// MySQL 8.
    pub fn begins_at_once(&self) -> bool {
        self.is_mariadb() && numbers_of(&self.version) >= (10, 6)
    }
}

impl PooledConnection for Connection {
    type Settings = Options;
    type Failure = MysqlFailure;

    fn open(options: &Options) -> Attempt<Connection> {
        Connection::connect(options, options.timeouts.response)
    }

    fn is_reusable(&self) -> bool {
        !self.broken && !self.single_use && self.check_owner().is_ok()
    }

    fn translate(_: &Options, failure: MysqlFailure) -> Error {
        failure.into()
    }
}

impl Connection {
    pub fn connect(options: &Options, response: Duration) -> Attempt<Connection> {
        let conn = Conn::new(options.answering_within(response))?;
        let mut connection = Connection {
            conn: Some(conn),
            pid: std::process::id(),
            broken: false,
            single_use: false,
            response,
            facts: Facts::default(),
            knows_read: false,
            begins: 0,
            found: 0,
            prepares_no_more: false,
        };
        connection.set_up()?;
        Ok(connection)
    }

    /// Settings, facts and the bits of the process id, in one round trip.
    ///
    /// The server does not know the process ids of its clients. So each connection takes a lock,
    /// named after itself, for each bit that is set in its process id; waiters read them
    /// (`lock.rs`). That needs no right and no table, and ends with the connection.
    fn set_up(&mut self) -> Attempt<()> {
        let row_lock_seconds = self.patience().as_secs().clamp(1, ROW_LOCK_SECONDS_MAX);
        // In another character set words would be converted for each statement. No statement needs
        // statistics: all name their rows by a key.
        let settings = format!(
            "SET NAMES ascii COLLATE ascii_bin, SESSION sql_mode = \
             'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
             SESSION autocommit = 1, SESSION completion_type = 0, SESSION wait_timeout = \
             {SILENCE_SECONDS_MAX}, \
             SESSION innodb_lock_wait_timeout = {row_lock_seconds}, SESSION lock_wait_timeout = \
             {row_lock_seconds} \
             /*M!100101 , SESSION max_statement_time = 0, SESSION use_stat_tables = 'never', \
             SESSION optimizer_use_condition_selectivity = 1 */ /*!50708 , SESSION \
             max_execution_time = 0 */"
        );
        let bits = (0..PID_BITS).filter(|bit| self.pid >> bit & 1 == 1);
        let bits: Vec<String> = bits
            .map(|bit| format!("GET_LOCK(CONCAT('sessile.pid.', CONNECTION_ID(), '.{bit}'), 0)"))
            .collect();
        let message = Message::of(&settings, &[])
            // A missing record is not locked either: gap locks would make strangers wait.
            .then("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE", &[])
            .then(&format!("DO {}", bits.join(", ")), &[])
            .then(
                "SELECT VERSION(), @@max_allowed_packet, @@read_only, CONNECTION_ID(), \
                   @@innodb_flush_log_at_trx_commit",
                &[],
            );
        let row = self.run(&message)?.row();
        let told: Option<(String, u64, bool, u64, u64)> =
            row.and_then(|row| mysql::from_row_opt(row).ok());
        let Some((version, packet_bytes_max, read_only, id, flush)) = told else {
            return Err(unexpected().into());
        };
        let known = self.conn.as_ref().map(Conn::connection_id);
        self.facts = Facts {
            version,
            payload_bytes_max: packet_bytes_max.saturating_sub(PACKET_OVERHEAD),
            read_only,
            // MariaDB's 3 is its 1 with an older group commit.
            commits_are_durable: matches!(flush, 1 | 3),
            behind_proxy: known.map(u64::from) != Some(id & u64::from(u32::MAX)),
        };
        Ok(())
    }

    /// A connection that may wait this long for one lock. It is not used again: it would wait as
    /// long for a server that is gone.
    pub fn for_a_wait(options: &Options, longest: Duration) -> Attempt<Connection> {
        let response = 2 * longest + options.timeouts.response;
        let mut connection = Connection::connect(options, response)?;
        connection.single_use = true;
        Ok(connection)
    }

    pub fn check_owner(&self) -> Result<()> {
        check_process(self.pid)
    }

    /// Whether a payload may travel in the text of a statement, where it takes twice its bytes.
    pub fn takes_text(&self, payload: &[u8]) -> bool {
        payload.len() <= TEXT_BYTES_MAX && 2 * payload.len() as u64 <= self.facts.payload_bytes_max
    }

    pub fn give_up(&mut self) {
        self.broken = true;
    }

    /// The longest that a statement may take on purpose.
    pub fn patience(&self) -> Duration {
        self.response / 2
    }

    pub fn row(&mut self, statement: &str, values: &[Value<'_>]) -> Attempt<Option<Row>> {
        Ok(self.run(&Message::of(statement, values))?.row())
    }

    /// One round trip.
    pub fn run(&mut self, message: &Message) -> Attempt<Results> {
        self.send(|conn| {
            let mut results = Vec::with_capacity(4);
            let mut result = conn.query_iter(message.text())?;
            while let Some(set) = result.iter() {
                let changed = set.affected_rows();
                results.push((set.collect::<mysql::Result<_>>()?, changed));
            }
            Ok(Results(results.into_iter()))
        })
    }

    pub fn prepares(&self) -> bool {
        self.begins >= BEGINS_BEFORE_PREPARING && !self.prepares_no_more
    }

    /// Whether the next session is likely to be there and free, too.
    pub fn expects_to_find(&self) -> bool {
        self.facts.begins_at_once() && self.prepares() && self.found >= BEGINS_BEFORE_PREPARING
    }

    pub fn has_begun(&mut self, found: bool) {
        self.begins = self.begins.saturating_add(1);
        self.found = if found { self.found.saturating_add(1) } else { 0 };
    }

    /// `None`: not executed, because the server prepares no more statements.
    pub fn if_prepared<T>(
        &mut self,
        run: impl FnOnce(&mut Connection) -> Attempt<T>,
    ) -> Attempt<Option<T>> {
        match run(self) {
            Err(failure) if failure.is(&FORGOTTEN) || failure.is(&[NO_MORE_STATEMENTS]) => {
                self.prepares_no_more = true;
                Ok(None)
            }
            done => done.map(Some),
        }
    }

    pub fn fetch(&mut self, statement: &str, values: &[Value<'_>]) -> Attempt<Option<Row>> {
        self.run_prepared(statement, |conn| conn.exec_first(statement, sent(values)))
    }

    /// Returns the number of rows changed.
    pub fn execute(&mut self, statement: &str, values: &[Value<'_>]) -> Attempt<u64> {
        self.run_prepared(statement, |conn| {
            conn.exec_drop(statement, sent(values))?;
            Ok(conn.affected_rows())
        })
    }

    /// Prepares anew what the server has lost.
    fn run_prepared<T>(
        &mut self,
        statement: &str,
        run: impl Fn(&mut Conn) -> mysql::Result<T>,
    ) -> Attempt<T> {
        match self.send(&run) {
            Err(failure) if failure.is(&FORGOTTEN) => self.send(|conn| {
                // The client crate has it in its list, so asks the server for nothing.
                let lost = conn.prep(statement)?;
                conn.close(lost)?;
                run(conn)
            }),
            done => done,
        }
    }

    fn send<T>(&mut self, run: impl FnOnce(&mut Conn) -> mysql::Result<T>) -> Attempt<T> {
        let Some(conn) = self.conn.as_mut().filter(|_| !self.broken) else {
            return Err(closed().into());
        };
        let done = run(conn).map_err(MysqlFailure::from);
        self.broken = done.as_ref().is_err_and(MysqlFailure::breaks_connection);
        done
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.check_owner().is_ok() {
            return; // the client says good-bye, and the server frees the locks at once
        }
        if let Some(conn) = self.conn.take() {
            // Dropping it would say good-bye in the parent's name. Leaving its descriptor open
            // would keep the parent's locks when the parent dies. So the memory around the closed
            // descriptor is leaked.
            let descriptor = conn.as_raw_fd();
            std::mem::forget(conn);
            let _ = nix::unistd::close(descriptor);
        }
    }
}

pub(super) fn numbers_of(version: &str) -> (u32, u32) {
    let mut numbers =
        version.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn closed() -> Error {
    Error::new(ErrorKind::Unreachable, "the connection that held the lock is gone")
        .advice("nothing was overwritten; begin anew")
}

pub fn unexpected() -> Error {
    Error::new(
        ErrorKind::Incompatible,
        "the server gave an answer that no statement of this store gives",
    )
    .advice("connect to MariaDB 10.2 or MySQL 5.7, or later")
}
