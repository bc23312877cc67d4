//! One connection to the server: its settings, what is sent over it, and what a fork must not do to
//! it.
//!
//! Invariants:
//!
//! * a connection that failed is never used again;
//! * a child of a fork sends nothing over its parent's connections, not even COM_QUIT: it
//!   closes its own descriptor, which the server does not see;
//! * every connection has the settings on which the statements rely, whatever the server's own are;
//! * of several servers, it leads to one that took changes when it was opened.

use std::time::{Duration, Instant};

use mysql_common::constants::Command;
use sessile_core::{Error, ErrorKind, Result};

use super::failure::{Attempt, FORGOTTEN, MysqlFailure, NO_MORE_STATEMENTS};
use super::lock::IS_READ_ONLY;
use super::options::Options;
use super::role::{self, Role};
use super::row::Row;
use super::statement::{Message, TEXT_BYTES_MAX};
use super::wire::{Prepared, ResultSet, Wire};
use crate::connections::deadline::Deadline;
use crate::connections::options::Timeouts;
use crate::connections::pool::{AttemptFailure, PooledConnection};
use crate::connections::tls::Host;
use crate::locks::check_process;
use crate::sql::row::{Columns, unsigned};
use crate::sql::value::Value;

/// Ample for what a packet has beside the payload: the other values of a statement, the other
/// columns of a row.
const PACKET_OVERHEAD: u64 = 1_024;
/// The server closes a connection that was silent for this long, and frees its locks, also those of
/// a host that vanished. Many hosters have a minute, which a lease may outlive.
const SILENCE_SECONDS_MAX: u32 = 86_400;
/// For COM_QUIT: five bytes, for which there is room.
const QUIT_WITHIN: Duration = Duration::from_millis(10);
/// Begins before a connection prepares statements: each costs a round trip, and the server counts
/// them.
const BEGINS_BEFORE_PREPARING: u8 = 8;
/// `PID_MAX_LIMIT` of the kernel has this many bits.
pub(super) const PID_BITS: u32 = 22;

/// The results of a message. Rows are taken from the last statement on, counts of changed rows from
/// the first one on. What is not there is empty.
pub(super) struct Results(std::vec::IntoIter<ResultSet>);

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
    wire: Wire,
    deadline: Instant,
    /// See [`row_wait`].
    row_wait: Duration,
    pid: u32,
    broken: bool,
    pub facts: Facts,
    /// Statements that the server has prepared.
    prepared: Vec<(String, Prepared)>,
    /// The server keeps the statement [`READ_IF_LOCKED`](super::statements::READ_IF_LOCKED) for it;
    /// whether that names the columns of owners.
    pub knows_read: Option<bool>,
    begins: u8,
    /// How many of the last begins, without a gap, found their session there and free.
    found: u8,
    prepares_no_more: bool,
    /// Since when it leads to a node of a cluster that is not the first one of the URL.
    elsewhere: Option<Instant>,
    /// It leads to a node of Galera, of which the URL names several.
    pub is_of_galera: bool,
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

    fn timeouts(options: &Options) -> Timeouts {
        options.timeouts
    }

    /// To the only server of the URL, whether it takes changes or not, or to one of several that
    /// does. Of a cluster, all workers go to the first node that is there.
    fn open(options: &Options, deadline: Instant) -> Attempt<Connection> {
        let Options { hosts, .. } = options;
        let open = |host: &Host, end| -> Attempt<Connection> {
            let mut connection = Connection::connect(options, host, end)?;
            if hosts.failover().is_some()
                && role::of(&mut connection)? == Role::Peer
                && !hosts.is_first(host)
            {
                connection.elsewhere = Some(Instant::now());
            }
            connection.set_deadline(deadline);
            Ok(connection)
        };
        let connection = hosts
            .connect(deadline, open)
            .map_err(|failure| failure.unwrap_or_else(|| unexpected().into()))?;
        if connection.elsewhere.is_some() {
            hosts.look_back();
        }
        Ok(connection)
    }

    fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
        self.wire.set_deadline(deadline);
    }

    /// One to a read-only server is not kept: the next may lead to the primary.
    fn is_reusable(&self) -> bool {
        self.is_ours() && !self.facts.read_only
    }

    fn translate(_: &Options, failure: MysqlFailure) -> Error {
        failure.into()
    }

    fn is_current(&self, options: &Options, _: Deadline) -> bool {
        let stays = |since: Instant| since.elapsed() < options.hosts.pause_before_look();
        self.elsewhere.is_none_or(stays)
    }

    fn failover(options: &Options) -> Option<Duration> {
        options.hosts.failover()
    }
}

impl Connection {
    fn connect(options: &Options, host: &Host, deadline: Instant) -> Attempt<Connection> {
        let mut connection = Connection {
            wire: Wire::open(options, host, deadline)?,
            deadline,
            row_wait: row_wait(options.timeouts.response),
            pid: std::process::id(),
            broken: false,
            facts: Facts::default(),
            prepared: Vec::new(),
            knows_read: None,
            begins: 0,
            found: 0,
            prepares_no_more: false,
            elsewhere: None,
            is_of_galera: false,
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
        let row_lock_seconds = self.row_wait.as_secs();
        // In another character set words would be converted for each statement. No statement needs
        // statistics: all name their rows by a key.
        let settings = format!(
            "SET NAMES ascii COLLATE ascii_bin, SESSION sql_mode = \
             'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
             SESSION autocommit = 1, SESSION time_zone = '+00:00', SESSION completion_type = 0, \
             SESSION wait_timeout = \
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
                &format!(
                    "SELECT VERSION(), @@max_allowed_packet, {IS_READ_ONLY}, CONNECTION_ID(), \
                     @@innodb_flush_log_at_trx_commit"
                ),
                &[],
            );
        let row = self.run(&message)?.row().ok_or_else(unexpected)?;
        let version = row.text(0)?.unwrap_or_default().to_owned();
        let (packet_bytes_max, flush) = (unsigned(&row, 1)?, unsigned(&row, 4)?);
        self.facts = Facts {
            version,
            payload_bytes_max: packet_bytes_max.saturating_sub(PACKET_OVERHEAD),
            read_only: unsigned(&row, 2)? != 0,
            // MariaDB's 3 is its 1 with an older group commit.
            commits_are_durable: matches!(flush, 1 | 3),
            behind_proxy: u64::from(self.wire.number) != unsigned(&row, 3)? & u64::from(u32::MAX),
        };
        Ok(())
    }

    fn is_ours(&self) -> bool {
        !self.broken && self.check_owner().is_ok()
    }

    pub fn check_owner(&self) -> Result<()> {
        check_process(self.pid)
    }

    /// Whether a payload may travel in the text of a statement, where it takes twice its bytes.
    pub fn takes_text(&self, payload: &[u8]) -> bool {
        payload.len() <= TEXT_BYTES_MAX && 2 * payload.len() as u64 <= self.facts.payload_bytes_max
    }

    /// Whether a statement that waits for a row may have no time left for its answer.
    pub fn is_late(&self) -> bool {
        self.deadline.saturating_duration_since(Instant::now()) <= self.row_wait
    }

    pub fn give_up(&mut self) {
        self.broken = true;
    }

    pub fn row(&mut self, statement: &str, values: &[Value<'_>]) -> Attempt<Option<Row>> {
        Ok(self.run(&Message::of(statement, values))?.row())
    }

    /// One round trip.
    pub fn run(&mut self, message: &Message) -> Attempt<Results> {
        self.send(|wire, _| Ok(Results(wire.query(message.text())?.into_iter())))
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
        let (rows, _) = self.run_prepared(statement, values)?;
        Ok(rows.into_iter().next())
    }

    /// Returns the number of rows changed.
    pub fn execute(&mut self, statement: &str, values: &[Value<'_>]) -> Attempt<u64> {
        let (_, changed) = self.run_prepared(statement, values)?;
        Ok(changed)
    }

    /// Prepares the statement if necessary, and anew what the server has lost.
    fn run_prepared(&mut self, statement: &str, values: &[Value<'_>]) -> Attempt<ResultSet> {
        let mut run = || {
            self.send(|wire, prepared| {
                let at = match prepared.iter().position(|(text, _)| text == statement) {
                    Some(at) => at,
                    None => {
                        prepared.push((statement.to_owned(), wire.prepare(statement)?));
                        prepared.len() - 1
                    }
                };
                let (_, known) = prepared.get_mut(at).ok_or(MysqlFailure::Garbled)?;
                let done = wire.execute(known, values);
                if done.as_ref().is_err_and(|failure| failure.is(&FORGOTTEN)) {
                    wire.close(&prepared.swap_remove(at).1)?;
                }
                done
            })
        };
        match run() {
            Err(failure) if failure.is(&FORGOTTEN) => run(),
            done => done,
        }
    }

    fn send<T>(
        &mut self,
        run: impl FnOnce(&mut Wire, &mut Vec<(String, Prepared)>) -> Attempt<T>,
    ) -> Attempt<T> {
        if self.broken {
            return Err(closed().into());
        }
        let done = run(&mut self.wire, &mut self.prepared);
        self.broken = done.as_ref().is_err_and(MysqlFailure::breaks_connection);
        done
    }
}

/// Sends COM_QUIT: the server writes connections that end without it to its log.
impl Drop for Connection {
    fn drop(&mut self) {
        if self.is_ours() {
            self.wire.set_deadline(Instant::now() + QUIT_WITHIN);
            let _ = self.wire.command(Command::COM_QUIT, b"");
        }
    }
}

/// How long the server waits for a row, which is locked for one statement; at most half of the time
/// for an answer. And for a table that somebody alters: the server does not see that the waiting
/// connection was given up, and leaves it the session's lock.
fn row_wait(response: Duration) -> Duration {
    Duration::from_secs((response / 2).as_secs().clamp(1, 5))
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
