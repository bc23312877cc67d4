//! The table, and how it is recognised as ours. Layout: `crates/stores/design/mysql.md`.
//!
//! Invariants: a table that is not ours is never changed; any number of processes may create it at
//! once (`IF NOT EXISTS` is atomic, and the number of the schema is in the comment of the table);
//! an older program never works on a newer schema.

use std::time::Instant;

use sessile_core::{Error, ErrorKind, Result};

use super::connection::{Connection, numbers_of, unexpected};
use super::failure::{Attempt, DUPLICATE_COLUMN, DUPLICATE_INDEX};
use super::options::Options;
use super::statement::Message;
use crate::connections::pool::PooledConnection;
use crate::sql::row::Columns;
use crate::sql::value::Value;
use crate::sql::{SCHEMA, check_schema, foreign_table};

/// What the comment of the table begins with; the number of the schema follows.
const MARK: &str = "sessions of sessile, schema ";
/// In this order.
const OWNER_COLUMNS: [&str; 2] = [
    "owner CHAR(24) CHARACTER SET ascii COLLATE ascii_bin NULL COMMENT 'live: the digest of the \
     owner, if there is one'",
    "owner_created BIGINT NULL COMMENT 'the created of the record that owner belongs to'",
];
const COMMENT: &str = "SELECT TABLE_COMMENT, ENGINE FROM information_schema.TABLES
    WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?";
/// The index of owners, which comes after the columns.
const OWNERS: &str = "SELECT 1 FROM information_schema.STATISTICS
    WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND INDEX_NAME = 'owner' LIMIT 1";
/// Others wait as long for the table, if a transaction of somebody else is at it. The servers know
/// no shorter time than a second.
const ADD_LOCK_SECONDS_MAX: u32 = 1;
/// Whether several servers of a cluster take writes. None knows the named locks of another.
const CLUSTER: &str = "SHOW VARIABLES WHERE (Variable_name = 'wsrep_on' AND Value = 'ON')
    OR (Variable_name = 'group_replication_single_primary_mode' AND Value = 'OFF')";
/// Whether `read_only` does not hold for this user.
const WRITES_ALWAYS: &str = "SELECT 1 FROM information_schema.USER_PRIVILEGES
    WHERE PRIVILEGE_TYPE IN ('SUPER', 'READ_ONLY ADMIN', 'READ ONLY ADMIN', 'CONNECTION_ADMIN')
    AND REPLACE(GRANTEE, '''', '') = CURRENT_USER() LIMIT 1";

/// Returns whether the table has owners. One from before them gets the columns and an index, if
/// this user may add them.
pub(super) fn create_or_check(connection: &mut Connection, options: &Options) -> Attempt<bool> {
    let table = &options.table;
    check_server(&connection.facts.version)?;
    if !is_ours(connection, table)? {
        connection.run(&Message::of(&create(table), &[]))?;
        if !is_ours(connection, table)? {
            return Err(unexpected().into());
        }
    }
    if has_owners(connection, table)? {
        return Ok(true);
    }
    let added = add_owners(options);
    // The columns may have taken all of the time.
    connection.set_deadline(Instant::now() + options.timeouts.response);
    if let Err(failure) = added {
        // The store is as good as it was before.
        log::warn!(
            "the table from before owners is not brought up to date ({:#}): \
             crates/stores/design/mysql.md says under Owners what to do",
            Error::from(failure)
        );
    }
    has_owners(connection, table)
}

pub(super) fn has_owners(connection: &mut Connection, table: &str) -> Attempt<bool> {
    Ok(connection.row(OWNERS, &[Value::Word(table)])?.is_some())
}

/// Over a connection of its own: the server may build the index for longer than we wait, and the
/// store is opened all the same. Each statement may have been done by another process before.
///
/// Servers that can add columns without a copy of the table do so because they are the last and
/// nothing else is in the statement. The index is built from the table while others read and write
/// it.
fn add_owners(options: &Options) -> Attempt<()> {
    let (table, [owner, owner_created]) = (&options.table, OWNER_COLUMNS);
    let mut connection = Connection::open(options, Instant::now() + options.timeouts.response)?;
    let wait = format!("SET SESSION lock_wait_timeout = {ADD_LOCK_SECONDS_MAX}");
    connection.run(&Message::of(&wait, &[]))?;
    for (statement, done_before) in [
        (
            format!("ALTER TABLE {table} ADD COLUMN {owner}, ADD COLUMN {owner_created}"),
            DUPLICATE_COLUMN,
        ),
        (format!("ALTER TABLE {table} ADD KEY owner (owner)"), DUPLICATE_INDEX),
    ] {
        match connection.run(&Message::of(&statement, &[])) {
            Err(failure) if !failure.is(&[done_before]) => return Err(failure),
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn warn(connection: &mut Connection, store: &str, options: &Options) -> Attempt<()> {
    // Of several servers that the URL names, all workers use the first one that is there.
    let has_several = options.hosts.failover().is_some();
    let cluster = !has_several && connection.row(CLUSTER, &[])?.is_some();
    // Nothing makes a node of Galera read-only.
    let may_be_demoted = has_several && !connection.is_of_galera;
    let writes_always = may_be_demoted && connection.row(WRITES_ALWAYS, &[])?.is_some();
    for (is_so, warning) in [
        (
            cluster,
            "several servers of the cluster take writes, and none knows the locks of another: name \
             all of them in the URL, in the same order on all web servers, or commits will be \
             refused as stale",
        ),
        (
            writes_always,
            "the user may write to a server that is read-only: after a failover, saves on the old \
             primary would be lost. Use a user without SUPER, READ_ONLY ADMIN and CONNECTION_ADMIN",
        ),
        (
            connection.facts.behind_proxy,
            "there is a proxy before the server: a session's lock belongs to one connection, so \
             the proxy must not share connections among clients nor send reads to replicas",
        ),
        (
            connection.facts.read_only,
            "the server is read-only (a replica?): only a user with special rights can save \
             sessions there",
        ),
    ] {
        if is_so {
            log::warn!("{store}: {warning}");
        }
    }
    Ok(())
}

/// The payload comes last: a read of the other columns then touches no large one.
fn create(table: &str) -> String {
    let [owner, owner_created] = OWNER_COLUMNS;
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (
            bin     VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
            id      VARCHAR(256) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
            kind    TINYINT      NOT NULL COMMENT '0 live, 1 destroyed, 2 regenerated',
            version BIGINT       NOT NULL,
            created BIGINT       NOT NULL COMMENT 'this and the next four: milliseconds since \
            1970-01-01 UTC',
            written BIGINT       NOT NULL,
            expires BIGINT       NOT NULL COMMENT 'live: the expiry; regenerated: the end of the \
            grace',
            ends    BIGINT           NULL COMMENT 'live: the absolute end, if there is one',
            due     BIGINT       NOT NULL COMMENT 'when a sweep looks at the row: never later than \
            it may remove it',
            mark    BIGINT       NOT NULL COMMENT 'destroyed: which destruction it was',
            bytes   BIGINT       NOT NULL COMMENT 'of the payload',
            target  VARCHAR(256) CHARACTER SET ascii COLLATE ascii_bin NULL COMMENT 'regenerated: \
            the new id',
            {owner},
            {owner_created},
            payload LONGBLOB         NULL COMMENT 'live: what the application stored',
            PRIMARY KEY (bin, id),
            KEY due (due),
            KEY owner (owner)
        ) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = '{MARK}{SCHEMA}'"
    )
}

/// The store needs several named locks for one connection, and queues for them.
fn check_server(version: &str) -> Result<()> {
    let found = numbers_of(version);
    let least = if version.contains("MariaDB") { (10, 2) } else { (5, 7) };
    if found >= least {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Incompatible,
        format!("the server is too old: {}.{}", found.0, found.1),
    )
    .advice("use MariaDB 10.2 or MySQL 5.7, or later"))
}

fn is_ours(connection: &mut Connection, table: &str) -> Attempt<bool> {
    let Some(row) = connection.row(COMMENT, &[Value::Word(table)])? else { return Ok(false) };
    let text = |column| row.text(column).ok().flatten().unwrap_or_default();
    check_table(text(0), text(1))?;
    Ok(true)
}

fn check_table(comment: &str, engine: &str) -> Result<()> {
    let Some(schema) = comment.strip_prefix(MARK) else {
        return Err(foreign_table());
    };
    check_schema("the table", schema.parse().unwrap_or(0))?;
    if engine.eq_ignore_ascii_case("InnoDB") {
        return Ok(());
    }
    let why = format!("the table has engine {engine}, not InnoDB");
    Err(Error::new(ErrorKind::Incompatible, why).advice("ALTER TABLE ... ENGINE = InnoDB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_table_in_our_version_is_used() {
        assert!(check_table("sessions of sessile, schema 1", "InnoDB").is_ok());
        for (comment, engine) in [
            ("sessions of sessile, schema 1", "MyISAM"),
            ("sessions of sessile, schema 2", "InnoDB"),
            ("sessions of sessile, schema 0", "InnoDB"),
            ("sessions of sessile, schema x", "InnoDB"),
            ("", "InnoDB"),
            ("carts", "InnoDB"),
        ] {
            let error = check_table(comment, engine).unwrap_err();
            assert_eq!(error.kind().code(), "incompatible", "{comment} {engine}");
        }
    }

    #[test]
    fn servers_without_several_locks_a_connection_are_refused() {
        for version in [
            "10.2.44-MariaDB",
            "10.11.14-MariaDB-0+deb12u2",
            "11.4.2-MariaDB-log",
            "5.7.44",
            "8.0.36",
            "9.1.0",
        ] {
            assert!(check_server(version).is_ok(), "{version}");
        }
        for version in ["5.6.51", "5.5.68-MariaDB", "10.0.38-MariaDB", "", "unknown"] {
            assert!(check_server(version).is_err(), "{version}");
        }
    }
}
