//! The tables, and how they are recognised as ours. Layout: `crates/stores/design/postgres.md`.
//!
//! Invariants: a table that is not ours is never changed; the tables are created in one transaction
//! under a lock, so that any number of processes may open a new store at once; an older program
//! never works on a newer schema; no connection is used before the sequence of fences has been
//! lifted to the server's time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sessile_core::{Error, ErrorKind, Timestamp};

use super::connection::Connection;
use super::failure::{Attempt, PostgresFailure, code, unexpected};
use super::names::TableNames;
use super::options::Options;
use crate::connections::options::Timeouts;
use crate::connections::pool::PooledConnection;
use crate::connections::tls::Host;
use crate::sql::owner_columns::OwnerColumns;
use crate::sql::{SCHEMA, check_schema, foreign_table};

/// The sequence of fences is lifted when it is this far behind the server's time: far more numbers
/// than are drawn between the look at it and the lift, and a shorter time than any restart takes.
const BEHIND_US_MAX: u32 = 10_000;

/// A table from before owners is indexed by whoever opens it up to this size: that takes a server
/// well below a second, in which nobody writes.
const INDEXED_BYTES_MAX: u32 = 64 << 20;

/// Everybody else waits behind a statement that waits for the table.
const ADD_LOCK_MS_MAX: u32 = 100;

pub struct Settings {
    pub options: Options,
    pub names: Arc<TableNames>,
}

impl PooledConnection for Connection {
    type Settings = Settings;
    type Failure = PostgresFailure;

    fn timeouts(settings: &Settings) -> Timeouts {
        settings.options.timeouts
    }

    fn open(settings: &Settings, deadline: Instant) -> Attempt<Connection> {
        let (mut connection, _) = connect(&settings.options, deadline)?;
        check_tables(&mut connection, &settings.names)?;
        connection.names = Arc::clone(&settings.names);
        Ok(connection)
    }

    fn set_deadline(&mut self, deadline: Instant) {
        Connection::set_deadline(self, deadline);
    }

    fn is_reusable(&self) -> bool {
        self.is_fit()
    }

    fn translate(_: &Settings, failure: PostgresFailure) -> Error {
        failure.into()
    }

    fn failover(settings: &Settings) -> Option<Duration> {
        settings.options.hosts.failover()
    }
}

/// To the server of the URL that takes changes; with the first schema of its search path.
pub(super) fn connect(
    options: &Options,
    deadline: Instant,
) -> Attempt<(Connection, Option<String>)> {
    let open = |host: &Host, end| {
        let mut connection = Connection::connect(options, host, end)?;
        let (schema, only_reads) = greet(&mut connection)?;
        // An old primary is fenced so. A role that only looks has no other server.
        if only_reads && options.hosts.failover().is_some() {
            return Err(PostgresFailure::standby());
        }
        connection.set_deadline(deadline);
        Ok((connection, schema))
    };
    options.hosts.connect(deadline, open).map_err(|failure| failure.unwrap_or_else(unexpected))
}

/// Run first on each connection: the settings on which the statements rely, and a look at the
/// session. Returns the first schema of the search path, and whether changes are refused. One round
/// trip.
///
/// Tables of sessions grow from nothing, and a plan for an empty table would scan it for ever: all
/// statements go by an index, so nothing else is offered. (The server takes any other read for so
/// dear that it would compile it: 200 ms on each connection.) A backend whose client has died while
/// it waits for a lock notices within a second (from version 14 on), one whose client's host has
/// died within a minute.
fn greet(connection: &mut Connection) -> Attempt<(Option<String>, bool)> {
    let mut text = String::from(
        "SET default_transaction_isolation = 'read committed'; SET enable_seqscan = off;
        SET enable_bitmapscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan;
        SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10;
        SET tcp_keepalives_count = 3;",
    );
    if connection.version() >= 140_000 {
        text.push_str("SET client_connection_check_interval = 1000;");
    }
    text.push_str(
        "SELECT pg_backend_pid(), CASE WHEN pg_is_in_recovery() THEN 't'
            WHEN current_setting('transaction_read_only') = 'on' THEN 'r' ELSE 'f' END,
        current_schema()",
    );
    let rows = connection.run_text(&text)?;
    let Some([Some(pid), Some(standby), schema]) = rows.first().map(Vec::as_slice) else {
        return Err(unexpected());
    };
    connection.backend = pid.parse().unwrap_or(0);
    if standby == "t" {
        return Err(PostgresFailure::standby());
    }
    Ok((schema.clone(), standby == "r"))
}

/// The payload comes last. `lock` is the advisory lock of the id: sweeps compare it with
/// `pg_locks`, and so can people.
///
/// The creation is durable in every tier: a crash may cost the last sessions, but not the table
/// under a running store.
///
/// Room is left on each page for the next version of a row, which then needs no new index entry
/// ("HOT" in the server's documentation). Payloads are not compressed: the visitor waits for that.
fn creation(names: &TableNames) -> String {
    let TableNames { table, fences, about, due_index, owner_index, .. } = names;
    let turn = names.lock("", "create");
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
            owner   text     COLLATE \"C\",
            owner_created bigint,
            payload bytea,
            UNIQUE (id, bin)
        ) WITH (fillfactor = 70);
        ALTER TABLE {table} ALTER COLUMN payload SET STORAGE EXTERNAL;
        CREATE INDEX IF NOT EXISTS {due_index} ON {table} (due, number);
        CREATE INDEX IF NOT EXISTS {owner_index} ON {table} (owner, number)
            WHERE owner IS NOT NULL;
        CREATE SEQUENCE IF NOT EXISTS {fences};
        CREATE TABLE IF NOT EXISTS {about} (version integer NOT NULL);
        INSERT INTO {about} SELECT {SCHEMA} WHERE NOT EXISTS (SELECT FROM {about})"
    )
}

pub(super) fn create_or_check(
    options: &Options,
    deadline: Instant,
    now: Timestamp,
) -> Attempt<Connection> {
    let (mut connection, schema) = connect(options, deadline)?;
    let schema = options.schema.clone().or(schema).ok_or_else(|| {
        Error::new(ErrorKind::InvalidUrl, "the user's search_path names no schema that exists")
            .advice("add schema=public, or set search_path for the user")
    })?;
    let mut names = TableNames::new(&schema, &options.table);
    let found = connection.run_text(&look(&names))?;
    let is = |at: usize, text: &str| {
        found.first().and_then(|row| row.get(at)?.as_deref()).is_some_and(|found| found == text)
    };
    match (is(0, "t"), is(1, "t")) {
        (_, true) => {
            let columns = is(2, "0") || is(2, "1");
            let lacks = Lacks { columns, index: is(3, "0"), is_small: is(4, "t") };
            let has_owners = bring_up_to_date(&mut connection, options, &names, &lacks)?;
            names.owners = OwnerColumns::new(has_owners, now);
        }
        (true, false) => return Err(foreign_table().into()),
        _ => match connection.run_text(&creation(&names)) {
            Err(failure) if failure.is(code::UNDEFINED_COLUMN) => {
                return Err(foreign_table().into());
            }
            created => drop(created?),
        },
    }
    check_tables(&mut connection, &names)?;
    connection.names = Arc::new(names);
    Ok(connection)
}

/// What a table from before owners lacks.
struct Lacks {
    columns: bool,
    index: bool,
    is_small: bool,
}

/// Whether the tables are there, how many of the columns of owners and indexes on them are, and
/// whether the index may be made while the site runs.
fn look(names: &TableNames) -> String {
    let (table, about) = (class(&names.table), class(&names.about));
    format!(
        "SELECT {table} IS NOT NULL, {about} IS NOT NULL,
            {},
            (SELECT count(*) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
                AND a.attnum = i.indkey[0] AND a.attname = 'owner' WHERE i.indrelid = {table}),
            pg_relation_size({table}) <= {INDEXED_BYTES_MAX}",
        count_columns(&table)
    )
}

/// How many of the columns of owners the table has, of two. The table is an expression.
fn count_columns(table: &str) -> String {
    format!(
        "(SELECT count(*) FROM pg_attribute WHERE attrelid = {table}
            AND attname IN ('owner', 'owner_created') AND NOT attisdropped)"
    )
}

/// Whether a table from before owners has got the columns since it was opened.
pub(super) fn has_owners(connection: &mut Connection, names: &TableNames) -> Attempt<bool> {
    let count = connection.run_text(&format!("SELECT {}", count_columns(&class(&names.table))))?;
    Ok(count.first().and_then(|row| row.first()?.as_deref()) == Some("2"))
}

fn class(name: &str) -> String {
    format!("to_regclass('{}')", name.replace('\'', "''"))
}

/// Returns whether the table has owners. One from before them gets the columns, if this role may
/// add them, and then the index. The store is opened all the same where that fails or takes long.
fn bring_up_to_date(
    connection: &mut Connection,
    options: &Options,
    names: &TableNames,
    lacks: &Lacks,
) -> Attempt<bool> {
    let may_index = lacks.index && lacks.is_small;
    if !(lacks.columns || may_index) {
        return Ok(true);
    }
    let added = add_owners(options, names, lacks);
    // That may have taken all of the time.
    connection.set_deadline(Instant::now() + options.timeouts.response);
    if let Err(failure) = added {
        log::warn!(
            "the table from before owners is not brought up to date ({:#}): \
             crates/stores/design/postgres.md says under Owners what to do",
            Error::from(failure)
        );
    }
    // Another process may have added them, and have kept this one away.
    has_owners(connection, names)
}

/// Over a connection of its own: the server may build the index for longer than we wait, and goes
/// on with it then. Each statement is a transaction of its own: for the columns the server stops
/// everybody else for an instant, for the index it reads the table once while nobody writes, so a
/// large table is left to its administrator (`crates/stores/design/postgres.md`, *Owners*). Until
/// it has the index, the sessions of an owner are found by a look at all.
///
/// They are durable in every tier, but wait for no standby: nobody would reach the table meanwhile.
fn add_owners(options: &Options, names: &TableNames, lacks: &Lacks) -> Attempt<()> {
    let TableNames { table, owner_index, .. } = names;
    let (mut connection, _) = connect(options, Instant::now() + options.timeouts.response)?;
    let mut alone = format!(
        "SELECT set_config('synchronous_commit', 'local', true),
            set_config('lock_timeout', '{ADD_LOCK_MS_MAX}ms', true)"
    );
    if connection.version() >= 140_000 {
        alone.push_str(", set_config('client_connection_check_interval', '0', true)");
    }
    if lacks.columns {
        connection.run_text(&format!(
            "{alone}; ALTER TABLE {table} ADD COLUMN IF NOT EXISTS owner text COLLATE \"C\",
                ADD COLUMN IF NOT EXISTS owner_created bigint"
        ))?;
    }
    if lacks.index && lacks.is_small {
        connection.run_text(&format!(
            "{alone}; CREATE INDEX IF NOT EXISTS {owner_index} ON {table} (owner, number)
                WHERE owner IS NOT NULL"
        ))?;
    }
    Ok(())
}

/// One round trip, which looks at the version and at the sequence of fences; one more to lift it.
///
/// Each crash of the server, a standby in its place and a restored backup may have lost the last
/// numbers, and end all connections. Nobody draws a million a second, so the time in microseconds
/// is above all that were drawn. It does not wait for the disk: the next connection lifts what was
/// lost. A role that may only read draws no fences and lifts nothing.
fn check_tables(connection: &mut Connection, names: &TableNames) -> Attempt<()> {
    let TableNames { about, fences, .. } = names;
    let clock = "(SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us) AS now";
    let sequence = fences.replace('\'', "''");
    let is_behind = format!(
        "last_value < us - {BEHIND_US_MAX} AND current_setting('transaction_read_only') = 'off' \
         AND has_sequence_privilege('{sequence}', 'USAGE, UPDATE')"
    );
    let look = format!("SELECT version, {is_behind} FROM {about}, {fences}, {clock}");
    let rows = connection.run_text(&look)?;
    let Some([Some(version), is_to_lift, ..]) = rows.first().map(Vec::as_slice) else {
        return Err(foreign_table().into());
    };
    check_schema("the table", version.parse().unwrap_or(0))?;
    if is_to_lift.as_deref() == Some("t") {
        // In turn, and after another look: a time that was read before another connection lifted
        // the sequence would set it back.
        let turn = names.lock("", "fence");
        connection.run_text(&format!(
            "SELECT pg_advisory_xact_lock({turn}), set_config('synchronous_commit', 'off', true);
            SELECT setval('{sequence}', us) FROM {fences}, {clock} WHERE {is_behind}"
        ))?;
    }
    Ok(())
}
