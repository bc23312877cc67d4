//! The tables, how they come to be, and how they are recognised as ours.
//!
//! Invariants: a table that is not ours is never changed; whoever opens first creates them, in one transaction under a
//! lock, so that any number of processes may open a new store at once; an older program never works on a newer schema;
//! the sequence of fences jumps ahead when the server was started anew, before anything else is done on it.
//! `docs/stores/postgres.md` shows the layout for people.

use sessile_core::{Error, ErrorKind, Result};
use sha2::{Digest, Sha256};

use super::failure::{Failure, Tried, code};
use super::link::Link;
use super::options::Options;

const VERSION: i64 = 1;

/// How far fences jump when the server was started anew: a crash may have lost the last numbers that were given out, in the
/// tiers that lose the last second. 2^31 starts are left.
const FENCE_JUMP: i64 = 1 << 32;

/// The names of one store, quoted and with their schema.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub table: String,
    pub fences: String,
    /// One row about the store.
    about: String,
    /// What distinguishes its locks from those of other stores in the database.
    pub lock_space: String,
    /// Without the schema, which an index shares with its table.
    due_index: String,
}

impl Names {
    fn new(schema: &str, table: &str) -> Names {
        let quoted = schema.replace('"', "\"\"");
        let name = |suffix: &str| format!("\"{quoted}\".\"{table}{suffix}\"");
        Names {
            table: name(""),
            fences: name("_fence"),
            about: name("_about"),
            lock_space: format!("{schema}\0{table}\0"),
            due_index: format!("\"{table}_due\""),
        }
    }

    /// What is run first on each connection: the settings on which our statements rely, and a look at who we are to the
    /// server. One round trip.
    ///
    /// Tables of sessions grow from nothing, and a plan made for an empty table would read it from end to end for ever: all
    /// our statements go by an index, so nothing else is offered. (What has to be read otherwise is then thought so dear that the
    /// server would compile it: 200 ms on each connection, to read one row.) A backend whose client has died while it waits for a lock
    /// notices within a second (from version 14 on), one whose client's host has died within a minute.
    pub fn greeting(version: u32) -> String {
        let mut text = String::from(
            "SET default_transaction_isolation = 'read committed'; SET enable_seqscan = off; SET enable_bitmapscan = off;
            SET jit = off; SET plan_cache_mode = force_generic_plan;
            SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3;",
        );
        if version >= 140_000 {
            text.push_str("SET client_connection_check_interval = 1000;");
        }
        text.push_str("SELECT pg_backend_pid(), pg_is_in_recovery(), current_schema()");
        text
    }
}

/// The columns that change seldom come first, the payload last. `lock` is the advisory lock of the id: sweeps compare it
/// with `pg_locks`, and so can people.
///
/// The creation is durable in every tier: a crash may cost the last sessions, but not the table under a running store.
///
/// Room is left on each page for the next version of a row, which then needs no new entry in any index ("HOT" in the
/// server's documentation). Payloads are not compressed: the time is the visitor's.
fn creation(names: &Names) -> String {
    let Names { table, fences, about, due_index, .. } = names;
    let turn = lock_number(&names.lock_space, "", "create").cast_signed();
    format!(
        "SELECT pg_advisory_xact_lock({turn}), set_config('synchronous_commit', 'on', true);
        CREATE TABLE IF NOT EXISTS {table} (
            number  bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            lock    bigint   NOT NULL,
            version bigint   NOT NULL,
            created bigint   NOT NULL,
            written bigint   NOT NULL,
            expires bigint   NOT NULL,
            ends    bigint,
            due     bigint   NOT NULL,
            mark    bigint   NOT NULL,
            writer  bigint   NOT NULL,
            kind    smallint NOT NULL,
            bin     text     COLLATE \"C\" NOT NULL,
            id      text     COLLATE \"C\" NOT NULL,
            target  text     COLLATE \"C\",
            payload bytea,
            UNIQUE (id, bin)
        ) WITH (fillfactor = 70);
        ALTER TABLE {table} ALTER COLUMN payload SET STORAGE EXTERNAL;
        CREATE INDEX IF NOT EXISTS {due_index} ON {table} (due, number);
        CREATE SEQUENCE IF NOT EXISTS {fences};
        CREATE TABLE IF NOT EXISTS {about} (version integer NOT NULL, server_start timestamptz NOT NULL);
        INSERT INTO {about} SELECT {VERSION}, pg_postmaster_start_time() WHERE NOT EXISTS (SELECT FROM {about})"
    )
}

/// The number of the advisory lock of a key: 64 bits of a digest. Two sessions with the same number, of which there is one
/// pair among five billion sessions, merely wait for each other.
pub(super) fn lock_number(space: &str, bin: &str, id: &str) -> u64 {
    let digest = Sha256::new().chain_update(space).chain_update(bin).chain_update([0]).chain_update(id).finalize();
    digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Opens the first connection and makes the tables if they are missing.
pub(super) fn prepare(options: &Options) -> Tried<(Names, Link)> {
    let mut link = Link::connect(options)?;
    let schema = link.greet(options)?;
    let schema = options.schema.clone().or(schema).ok_or_else(|| {
        Error::new(ErrorKind::InvalidUrl, "the user's search_path names no schema that exists")
            .advice("add schema=public, or set search_path for the user")
    })?;
    let names = Names::new(&schema, &options.table);
    let patience = options.timeouts.response;
    let literal = |name: &str| name.replace('\'', "''");
    let exist = format!(
        "SELECT to_regclass('{}') IS NOT NULL, to_regclass('{}') IS NOT NULL",
        literal(&names.table),
        literal(&names.about)
    );
    let found = link.run_text(&exist, patience)?;
    let found: Vec<bool> = found.iter().flatten().map(|cell| cell.as_deref() == Some("t")).collect();
    match found.as_slice() {
        [_, true] => {}
        [true, false] => return Err(foreign().into()),
        _ => create(&mut link, options, &names)?,
    }
    link.meet(&names, patience)?;
    Ok((names, link))
}

fn create(link: &mut Link, options: &Options, names: &Names) -> Tried<()> {
    match link.run_text(&creation(names), options.timeouts.response) {
        Err(failure) if failure.is(code::UNDEFINED_COLUMN) => Err(foreign().into()),
        created => created.map(drop),
    }
}

fn foreign() -> Error {
    Error::new(ErrorKind::Incompatible, "the table belongs to another program")
        .advice("choose another name with table=; this one was not changed")
}

impl Link {
    /// The first words on a connection. Returns the first schema of the search path.
    pub fn greet(&mut self, options: &Options) -> Tried<Option<String>> {
        let rows = self.run_text(&Names::greeting(self.version()), options.timeouts.response)?;
        let Some([Some(pid), Some(standby), schema]) = rows.first().map(Vec::as_slice) else {
            return Err(Failure::Client("no answer to the greeting".to_owned()));
        };
        self.backend = pid.parse().unwrap_or(0);
        if standby == "t" {
            return Err(Error::new(ErrorKind::Denied, "the server is a hot standby, which only reads")
                .advice("connect to its primary")
                .into());
        }
        Ok(schema.clone())
    }

    /// Checks the version of the tables, and lets the fences jump when the server was started anew: one round trip, in that
    /// case one more.
    pub fn meet(&mut self, names: &Names, patience: std::time::Duration) -> Tried<()> {
        let Names { about, fences, .. } = names;
        let look = format!("SELECT version, server_start = pg_postmaster_start_time() FROM {about}");
        let rows = self.run_text(&look, patience)?;
        let Some([Some(version), Some(same)]) = rows.first().map(Vec::as_slice) else {
            return Err(foreign().into());
        };
        check_version(version)?;
        if same == "t" {
            return Ok(());
        }
        let sequence = fences.replace('\'', "''");
        // The row's lock lets one do it and the others see it done. Durable in every tier, or it could be lost in its turn.
        let jump = format!(
            "BEGIN; SET LOCAL synchronous_commit = on;
            UPDATE {about} SET server_start = pg_postmaster_start_time()
            WHERE server_start <> pg_postmaster_start_time()
            RETURNING setval('{sequence}', nextval('{sequence}') + {FENCE_JUMP});
            COMMIT"
        );
        let jumped = self.run_text(&jump, patience);
        if jumped.is_err() {
            let _ = self.run_text("ROLLBACK", patience);
        }
        jumped.map(drop)
    }
}

fn check_version(version: &str) -> Result<()> {
    match version.parse::<i64>() {
        Ok(VERSION) => Ok(()),
        Ok(newer) if newer > VERSION => {
            Err(Error::new(ErrorKind::Incompatible, format!("the tables have schema {newer}; this is {VERSION}"))
                .advice("update this program; the tables were not changed"))
        }
        _ => Err(Error::new(ErrorKind::Incompatible, "the tables have a schema that no release has written")),
    }
}
