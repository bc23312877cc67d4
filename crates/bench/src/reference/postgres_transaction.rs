//! `postgres-transaction`: how today's session handlers lock on PostgreSQL.
//!
//! BEGIN, SELECT FOR UPDATE, UPDATE, COMMIT, with the transaction held over the request: four round trips over one reused
//! connection to the same kind of private server, prepared statements, and the blocking form of the client library of our
//! store.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use postgres::error::SqlState;
use postgres::{Client, Config, NoTls, Row, Statement};
use sessile_core::{Durability, Error, ErrorKind, Holder, Result};

use crate::contender::Contender;
use crate::reference::Reference;
use crate::worker::protocol::Opening;
use crate::workload::WAIT_MAX;

pub(super) const REFERENCE: Reference = Reference {
    name: "postgres-transaction",
    sentence: "PostgreSQL as today's handlers use it: a transaction with a row lock, held over the request",
    shared_by_processes: true,
    server: Some("postgres"),
    durability: &[Durability::None, Durability::Second, Durability::Commit],
    creates: true,
    any_size: true,
    keeps_payloads: true,
    open,
};

/// Made by one worker at a time: the server's IF NOT EXISTS alone is not safe against two at once.
const TABLE: &str = "BEGIN; SELECT pg_advisory_xact_lock(1);
    CREATE TABLE IF NOT EXISTS sessions (id varchar(128) PRIMARY KEY, data bytea NOT NULL, expires integer NOT NULL);
    CREATE INDEX IF NOT EXISTS sessions_expires ON sessions (expires); COMMIT";

struct Transaction {
    client: Client,
    statements: Statements,
    ids: Vec<String>,
    ttl: Duration,
    /// The row that was read last, and whose bytes are lent out.
    out: Option<Row>,
    begun: Option<usize>,
}

struct Statements {
    begin: Statement,
    select_for_update: Statement,
    update: Statement,
    commit: Statement,
    rollback: Statement,
    insert: Statement,
    select: Statement,
}

fn open(place: &Path, opening: &Opening) -> Result<Box<dyn Contender>> {
    let directory = place.parent().unwrap_or(Path::new("/"));
    let connected = Config::new().host_path(directory).user("postgres").dbname("postgres").connect(NoTls);
    let mut client = connected.map_err(failed)?;
    client.batch_execute(TABLE).map_err(failed)?;
    client.batch_execute(&format!("SET lock_timeout = {}", WAIT_MAX.as_millis())).map_err(failed)?;
    let mut prepare = |text: &str| client.prepare(text).map_err(failed);
    let statements = Statements {
        begin: prepare("BEGIN")?,
        select_for_update: prepare("SELECT data FROM sessions WHERE id = $1 FOR UPDATE")?,
        update: prepare("UPDATE sessions SET data = $1, expires = $2 WHERE id = $3")?,
        commit: prepare("COMMIT")?,
        rollback: prepare("ROLLBACK")?,
        insert: prepare("INSERT INTO sessions (data, expires, id) VALUES ($1, $2, $3)")?,
        select: prepare("SELECT data FROM sessions WHERE id = $1")?,
    };
    let mut random = fastrand::Rng::with_seed(opening.seed);
    let ids = std::iter::repeat_with(|| format!("{:032x}", random.u128(..))).take(opening.ids).collect();
    Ok(Box::new(Transaction { client, statements, ids, ttl: opening.ttl, out: None, begun: None }))
}

fn failed(error: postgres::Error) -> Error {
    if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
        let kind = ErrorKind::LockTimeout { holder: Holder::default(), waited: WAIT_MAX };
        return Error::new(kind, "another request holds the session");
    }
    Error::new(ErrorKind::Io, "the server refused the operation").source(error)
}

fn unprepared() -> Error {
    Error::new(ErrorKind::InvalidArgument, "no id was prepared for this session")
}

fn expires(ttl: Duration) -> i32 {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| (now + ttl).as_secs());
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

impl Transaction {
    fn lend(&self) -> Result<Option<&[u8]>> {
        self.out.as_ref().map(|row| row.try_get(0).map_err(failed)).transpose()
    }
}

impl Contender for Transaction {
    fn announce(&mut self, sessions: &[usize]) {
        let ids = sessions.iter().filter_map(|session| self.ids.get(*session));
        std::hint::black_box(ids.fold(0, |all, id| all ^ id.as_bytes().first().copied().unwrap_or(0)));
    }

    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        self.client.execute(&self.statements.insert, &[&payload, &expires(ttl), id]).map(drop).map_err(failed)
    }

    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        self.out = self.client.query_opt(&self.statements.select, &[id]).map_err(failed)?;
        self.lend()
    }

    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        self.client.execute(&self.statements.begin, &[]).map_err(failed)?;
        let selected = self.client.query_opt(&self.statements.select_for_update, &[id]);
        if selected.is_err() {
            let _ = self.client.execute(&self.statements.rollback, &[]);
        }
        self.out = selected.map_err(failed)?;
        self.begun = Some(session);
        self.lend()
    }

    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        let session = self.begun.take().ok_or_else(unprepared)?;
        let id = self.ids.get(session).ok_or_else(unprepared)?;
        let statement = if self.out.is_some() { &self.statements.update } else { &self.statements.insert };
        let written = self.client.execute(statement, &[&payload, &expires(self.ttl), id]);
        let end = if written.is_ok() { &self.statements.commit } else { &self.statements.rollback };
        let ended = self.client.execute(end, &[]);
        written.and(ended).map(drop).map_err(failed)
    }

    fn release(&mut self) -> Result<()> {
        match self.begun.take() {
            Some(_) => self.client.execute(&self.statements.rollback, &[]).map(drop).map_err(failed),
            None => Ok(()),
        }
    }
}
