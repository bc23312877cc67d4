//! `mysql-transaction`: how today's session handlers lock on MySQL and MariaDB.
//!
//! BEGIN, SELECT FOR UPDATE, UPDATE, COMMIT, with the transaction held over the request: four round trips over one reused
//! connection to the same kind of private server, prepared statements, and the same client library as our store.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Statement};
use sessile_core::{Durability, Error, ErrorKind, Holder, Result};

use crate::contender::Contender;
use crate::reference::{AfterDeath, Reference};
use crate::worker::protocol::Opening;
use crate::workload::WAIT_MAX;

pub(super) const REFERENCE: Reference = Reference {
    name: "mysql-transaction",
    sentence: "MySQL as today's handlers use it: a transaction with a row lock, held over the request",
    shared_by_processes: true,
    server: Some("mariadbd"),
    durability: &[Durability::None, Durability::Second, Durability::Commit],
    creates: true,
    any_size: true,
    keeps_payloads: true,
    loses_large: false,
    after_death: AfterDeath::Freed,
    open,
};

/// Waiting for a row lock took longer than `innodb_lock_wait_timeout`.
const LOCK_WAIT_TIMEOUT: u16 = 1_205;
const PACKET_BYTES_MAX: usize = 1 << 30;

struct Transaction {
    conn: Conn,
    statements: Statements,
    ids: Vec<String>,
    ttl: Duration,
    out: Option<Vec<u8>>,
    begun: Option<usize>,
}

struct Statements {
    insert: Statement,
    select: Statement,
    select_for_update: Statement,
    update: Statement,
}

fn open(place: &Path, opening: &Opening) -> Result<Box<dyn Contender>> {
    let settings = OptsBuilder::new()
        .socket(Some(place.display().to_string()))
        .user(Some("root"))
        .db_name(Some("test"))
        .prefer_socket(false)
        .max_allowed_packet(Some(PACKET_BYTES_MAX));
    let mut conn = Conn::new(settings).map_err(failed)?;
    let lines = [
        format!("SET SESSION innodb_lock_wait_timeout = {}", WAIT_MAX.as_secs()),
        "CREATE TABLE IF NOT EXISTS sessions (id VARBINARY(128) NOT NULL PRIMARY KEY, data LONGBLOB NOT NULL, \
         expires INT UNSIGNED NOT NULL, KEY expires (expires)) ENGINE = InnoDB"
            .to_owned(),
    ];
    lines.iter().try_for_each(|line| conn.query_drop(line)).map_err(failed)?;
    let mut prepare = |text: &str| conn.prep(text).map_err(failed);
    let statements = Statements {
        insert: prepare("INSERT INTO sessions (data, expires, id) VALUES (?, ?, ?)")?,
        select: prepare("SELECT data FROM sessions WHERE id = ?")?,
        select_for_update: prepare("SELECT data FROM sessions WHERE id = ? FOR UPDATE")?,
        update: prepare("UPDATE sessions SET data = ?, expires = ? WHERE id = ?")?,
    };
    let mut random = fastrand::Rng::with_seed(opening.seed);
    let ids = std::iter::repeat_with(|| format!("{:032x}", random.u128(..))).take(opening.ids).collect();
    Ok(Box::new(Transaction { conn, statements, ids, ttl: opening.ttl, out: None, begun: None }))
}

fn failed(error: mysql::Error) -> Error {
    match error {
        mysql::Error::MySqlError(error) if error.code == LOCK_WAIT_TIMEOUT => {
            let kind = ErrorKind::LockTimeout { holder: Holder::default(), waited: WAIT_MAX };
            Error::new(kind, "another request holds the session")
        }
        error => Error::new(ErrorKind::Io, "the server refused the operation").source(error),
    }
}

fn unprepared() -> Error {
    Error::new(ErrorKind::InvalidArgument, "no id was prepared for this session")
}

fn expires(ttl: Duration) -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| (now + ttl).as_secs())
}

impl Contender for Transaction {
    fn announce(&mut self, sessions: &[usize]) {
        let ids = sessions.iter().filter_map(|session| self.ids.get(*session));
        std::hint::black_box(ids.fold(0, |all, id| all ^ id.as_bytes().first().copied().unwrap_or(0)));
    }

    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        self.conn.exec_drop(&self.statements.insert, (payload, expires(ttl), id)).map_err(failed)
    }

    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        self.out = self.conn.exec_first(&self.statements.select, (id,)).map_err(failed)?;
        Ok(self.out.as_deref())
    }

    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        self.conn.query_drop("BEGIN").map_err(failed)?;
        let selected = self.conn.exec_first(&self.statements.select_for_update, (id,));
        if selected.is_err() {
            let _ = self.conn.query_drop("ROLLBACK"); // a time-out ends the statement, not the transaction
        }
        self.out = selected.map_err(failed)?;
        self.begun = Some(session);
        Ok(self.out.as_deref())
    }

    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        let session = self.begun.take().ok_or_else(unprepared)?;
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        let statement = if self.out.is_some() { &self.statements.update } else { &self.statements.insert };
        let written = self.conn.exec_drop(statement, (payload, expires(self.ttl), id));
        let ended = self.conn.query_drop(if written.is_ok() { "COMMIT" } else { "ROLLBACK" });
        written.and(ended).map_err(failed)
    }

    fn release(&mut self) -> Result<()> {
        match self.begun.take() {
            Some(_) => self.conn.query_drop("ROLLBACK").map_err(failed),
            None => Ok(()),
        }
    }
}
