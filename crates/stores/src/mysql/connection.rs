//! One connection to the server: how it is set up, what is sent over it, and what a fork must not do to it.
//!
//! Invariants:
//!
//! * a connection that failed is never used again;
//! * a child of a fork sends nothing over its parent's connections, not even that it is done with them: it closes its own
//!   descriptor, which the server does not see;
//! * every connection has the settings on which the statements rely, whatever the server's own are.

use std::os::fd::AsRawFd;
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, Row, Statement};
use sessile_core::{Error, ErrorKind};

use super::failure::{Attempt, Fault};
use super::options::Options;
use super::statement::{Message, TEXT_BYTES_MAX, Value, sent};

/// Bytes of a packet that are not payload, amply: a prepared statement with its other values, a row with its other columns.
const PACKET_OVERHEAD: u64 = 1_024;
/// The server closes a connection that was silent for this long, and frees its locks: a host that vanished without a word
/// keeps them no longer. The default of all servers is 8 hours; many hosters have a minute, which a lease may outlive.
const SILENCE_SECONDS_MAX: u32 = 86_400;
/// Longest wait for a row lock, at most half of the time for an answer. They are held for the length of one statement. And for
/// the table, which somebody may be altering: the server does not see that a connection which waits for it was given up, and
/// leaves it the session's lock.
const ROW_LOCK_SECONDS_MAX: u64 = 5;
/// Begins of a connection before it prepares statements: each costs a round trip to prepare, and the server counts them.
const BEGINS_BEFORE_PREPARING: u8 = 8;
/// A process id has at most this many bits (`PID_MAX_LIMIT` of the kernel).
pub(super) const PID_BITS: u32 = 22;

/// What became of one statement of a message.
#[derive(Debug)]
pub(super) enum Answer {
    Rows(Vec<Row>),
    /// The number of rows that it has changed.
    Changed(u64),
}

impl Answer {
    /// The first row, of a statement that gives at most one.
    pub fn row(self) -> Option<Row> {
        match self {
            Answer::Rows(rows) => rows.into_iter().next(),
            Answer::Changed(_) => None,
        }
    }

    pub fn rows(self) -> Vec<Row> {
        match self {
            Answer::Rows(rows) => rows,
            Answer::Changed(_) => Vec::new(),
        }
    }

    pub fn changed(&self) -> u64 {
        match self {
            Answer::Changed(count) => *count,
            Answer::Rows(_) => 0,
        }
    }
}

/// The answers to a message, in order.
pub(super) struct Answers(std::vec::IntoIter<Answer>);

impl Answers {
    /// The next one; asking for more than were sent gives an empty one.
    pub fn next(&mut self) -> Answer {
        self.0.next().unwrap_or(Answer::Changed(0))
    }

    /// Passes over the answers to statements that have none.
    pub fn skip(&mut self, count: usize) -> &mut Answers {
        (0..count).for_each(|_| drop(self.next()));
        self
    }
}

/// A connection of one process.
pub(super) struct Link {
    conn: Option<Conn>,
    pid: u32,
    broken: bool,
    /// How long it waits for an answer.
    response: Duration,
    pub facts: Facts,
    /// Its prepared statements, by their texts. The client crate would look them up, too, after it has parsed the text.
    prepared: Vec<(String, Statement)>,
    /// The server keeps the statement [`READ`](super::lock::READ) for it.
    pub knows_read: bool,
    /// Its begins up to now, as far as they matter.
    begins: u8,
    /// How many of the last ones, without a gap, found their session there; none after one that was taken.
    found: u8,
    /// The server has refused to prepare more statements.
    prepares_no_more: bool,
}

/// What the server tells about itself and the connection.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub version: String,
    pub payload_bytes_max: u64,
    pub read_only: bool,
    /// A commit is on the disk when it is acknowledged. As the server was set when the connection was opened.
    pub commits_are_durable: bool,
    /// Someone else's numbers: what we talk to is not the server itself.
    pub behind_proxy: bool,
}

impl Facts {
    /// MariaDB waits for fractions of a second; MySQL rounds them.
    pub fn is_mariadb(&self) -> bool {
        self.version.contains("MariaDB")
    }

    /// Whether a read may pass over a row that is locked, and a lock be taken by what it reads. MySQL 8 could, too, but that
    /// is untested.
    pub fn begins_at_once(&self) -> bool {
        self.is_mariadb() && numbers_of(&self.version) >= (10, 6)
    }
}

impl Link {
    /// Connects; one answer may take as long as `response`.
    pub fn open(options: &Options, response: Duration) -> Attempt<Link> {
        let conn = Conn::new(options.answering_within(response))?;
        let facts = Facts {
            version: String::new(),
            payload_bytes_max: 0,
            read_only: false,
            commits_are_durable: true,
            behind_proxy: false,
        };
        let mut link = Link {
            conn: Some(conn),
            pid: std::process::id(),
            broken: false,
            response,
            facts,
            prepared: Vec::new(),
            knows_read: false,
            begins: 0,
            found: 0,
            prepares_no_more: false,
        };
        link.set_up()?;
        Ok(link)
    }

    /// Settings, facts and the bits of our process id, in one round trip.
    ///
    /// The server does not know who its clients are, and the contract wants a lock's holder named. So each connection takes
    /// a lock for each bit that is set in its process id, named after the connection: who waits reads them off
    /// (`lock.rs`). It needs no right and no table, and it ends with the connection.
    fn set_up(&mut self) -> Attempt<()> {
        let row_lock_seconds = self.patience().as_secs().clamp(1, ROW_LOCK_SECONDS_MAX);
        // Words are compared with columns in ASCII: another character set would be converted for each statement. And no
        // statement needs statistics: all name their rows by a key.
        let settings = format!(
            "SET NAMES ascii COLLATE ascii_bin, SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
             SESSION autocommit = 1, SESSION completion_type = 0, SESSION wait_timeout = {SILENCE_SECONDS_MAX}, \
             SESSION innodb_lock_wait_timeout = {row_lock_seconds}, SESSION lock_wait_timeout = {row_lock_seconds} \
             /*M!100101 , SESSION max_statement_time = 0, SESSION use_stat_tables = 'never', \
             SESSION optimizer_use_condition_selectivity = 1 */ /*!50708 , SESSION max_execution_time = 0 */"
        );
        let bits = (0..PID_BITS).filter(|bit| self.pid >> bit & 1 == 1);
        let bits: Vec<String> =
            bits.map(|bit| format!("GET_LOCK(CONCAT('sessile.pid.', CONNECTION_ID(), '.{bit}'), 0)")).collect();
        let message = Message::new()
            .then(&settings, &[])
            // A record that is not there is not locked either: gap locks would make strangers wait.
            .then("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE", &[])
            .then("SELECT VERSION(), @@max_allowed_packet, @@read_only, CONNECTION_ID(), @@innodb_flush_log_at_trx_commit", &[])
            .then(&format!("DO {}", bits.join(", ")), &[]);
        let row = self.ask(&message)?.skip(2).next().row();
        let told: Option<(String, u64, bool, u64, u64)> = row.and_then(|row| mysql::from_row_opt(row).ok());
        let Some((version, packet_bytes_max, read_only, id, flush)) = told else {
            return Err(unexpected().into());
        };
        let known = self.conn.as_ref().map(Conn::connection_id);
        self.facts = Facts {
            version,
            payload_bytes_max: packet_bytes_max.saturating_sub(PACKET_OVERHEAD),
            read_only,
            // MariaDB's 3 is its 1 with group commit as it once was.
            commits_are_durable: matches!(flush, 1 | 3),
            behind_proxy: known.map(u64::from) != Some(id & u64::from(u32::MAX)),
        };
        Ok(())
    }

    /// Whether this process opened it.
    pub fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Whether it can be used for whatever comes next.
    pub fn is_fit(&self) -> bool {
        !self.broken && self.is_ours()
    }

    /// Whether a payload may travel in the text of a statement, where it takes twice its bytes.
    pub fn takes_text(&self, payload: &[u8]) -> bool {
        payload.len() <= TEXT_BYTES_MAX && 2 * payload.len() as u64 <= self.facts.payload_bytes_max
    }

    /// Nothing more is sent over it.
    pub fn give_up(&mut self) {
        self.broken = true;
    }

    /// The longest that a statement may take on purpose.
    pub fn patience(&self) -> Duration {
        self.response / 2
    }

    /// Sends statements as one message: one round trip.
    pub fn ask(&mut self, message: &Message) -> Attempt<Answers> {
        self.send(|conn| {
            let mut answers = Vec::with_capacity(4);
            let mut result = conn.query_iter(message.text())?;
            while let Some(set) = result.iter() {
                if set.columns().as_ref().is_empty() {
                    let changed = set.affected_rows();
                    set.collect::<mysql::Result<Vec<Row>>>()?; // an error that came instead
                    answers.push(Answer::Changed(changed));
                } else {
                    answers.push(Answer::Rows(set.collect::<mysql::Result<Vec<Row>>>()?));
                }
            }
            Ok(Answers(answers.into_iter()))
        })
    }

    /// Whether preparing a statement is likely to pay.
    pub fn prepares(&self) -> bool {
        self.begins >= BEGINS_BEFORE_PREPARING && !self.prepares_no_more
    }

    /// Whether the next session is likely to be there and free, too.
    pub fn expects_to_find(&self) -> bool {
        self.facts.begins_at_once() && self.prepares() && self.found >= BEGINS_BEFORE_PREPARING
    }

    /// Remembers what a begin met.
    pub fn has_begun(&mut self, found: bool) {
        self.begins = self.begins.saturating_add(1);
        self.found = if found { self.found.saturating_add(1) } else { 0 };
    }

    /// Executes one statement as a prepared one, as long as the server takes more of them: `None` means that it was not
    /// executed.
    pub fn if_prepared<T>(&mut self, run: impl FnOnce(&mut Link) -> Attempt<T>) -> Attempt<Option<T>> {
        match run(self) {
            Err(fault) if fault.is_lack_of_statements() => {
                self.prepares_no_more = true;
                Ok(None)
            }
            done => done.map(Some),
        }
    }

    /// Executes one statement as a prepared one. Returns its first row.
    pub fn fetch(&mut self, statement: &str, values: &[Value<'_>]) -> Attempt<Option<Row>> {
        self.run(statement, |conn, statement| conn.exec_first(statement, sent(values)))
    }

    /// Executes one statement as a prepared one. Returns the number of rows that it has changed.
    pub fn execute(&mut self, statement: &str, values: &[Value<'_>]) -> Attempt<u64> {
        self.run(statement, |conn, statement| {
            conn.exec_drop(statement, sent(values))?;
            Ok(conn.affected_rows())
        })
    }

    /// Runs a prepared statement; anew and once more if the server has lost it.
    fn run<T>(&mut self, text: &str, run: impl Fn(&mut Conn, &Statement) -> mysql::Result<T>) -> Attempt<T> {
        let statement = self.prepare(text)?;
        match self.send(|conn| run(conn, &statement)) {
            Err(fault) if fault.is_forgotten() => {
                self.prepared.retain(|(of, _)| of != text);
                self.send(|conn| conn.close(statement))?; // which takes it out of the client crate's own list, too
                let statement = self.prepare(text)?;
                self.send(|conn| run(conn, &statement))
            }
            done => done,
        }
    }

    fn prepare(&mut self, text: &str) -> Attempt<Statement> {
        if let Some((_, statement)) = self.prepared.iter().find(|(of, _)| of == text) {
            return Ok(statement.clone());
        }
        let statement = self.send(|conn| conn.prep(text))?;
        self.prepared.push((text.to_owned(), statement.clone()));
        Ok(statement)
    }

    fn send<T>(&mut self, run: impl FnOnce(&mut Conn) -> mysql::Result<T>) -> Attempt<T> {
        let Some(conn) = self.conn.as_mut().filter(|_| !self.broken) else {
            return Err(closed().into());
        };
        let done = run(conn).map_err(Fault::from);
        self.broken = done.as_ref().err().is_some_and(Fault::breaks_connection);
        done
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.is_ours() {
            return; // the client says good-bye, and the server frees the locks at once
        }
        if let Some(conn) = self.conn.take() {
            // Dropping it would say good-bye in the parent's name. Leaving its descriptor open would keep the parent's
            // locks when the parent dies. So the descriptor is closed and the memory around it is leaked.
            let descriptor = conn.as_raw_fd();
            std::mem::forget(conn);
            let _ = nix::unistd::close(descriptor);
        }
    }
}

/// The first two numbers of a version.
pub(super) fn numbers_of(version: &str) -> (u32, u32) {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn closed() -> Error {
    Error::new(ErrorKind::Unreachable, "the connection that held the lock is gone")
        .advice("nothing was overwritten; begin anew")
}

pub(super) fn unexpected() -> Error {
    Error::new(ErrorKind::Incompatible, "the server gave an answer that no statement of this store gives")
        .advice("connect to MariaDB 10.2 or MySQL 5.7, or later")
}
