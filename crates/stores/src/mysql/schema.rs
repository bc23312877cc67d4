//! The table, how it comes to be, and how it is recognised as ours.
//!
//! Invariants: a table that is not ours is never changed; whoever opens first creates it, and any number of processes may
//! do so at once (`IF NOT EXISTS` is atomic, and the number of the schema is a part of the table: its comment); an older
//! program never works on a newer schema. `docs/stores/mysql.md` shows the layout for people.

use mysql::Value as Got;
use sessile_core::{Error, ErrorKind, Result};

use super::connection::{Link, numbers_of, unexpected};
use super::failure::Attempt;
use super::row::text;
use super::statement::{Message, Value};

/// What the comment of a table begins with; the number follows.
const MARK: &str = "sessions of sessile, schema ";
const VERSION: u32 = 1;
const COMMENT: &str = "SELECT TABLE_COMMENT, ENGINE FROM information_schema.TABLES
    WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?";
/// Whether several servers of a cluster take writes: their named locks do not know of one another.
const CLUSTER: &str = "SHOW VARIABLES WHERE (Variable_name = 'wsrep_on' AND Value = 'ON')
    OR (Variable_name = 'group_replication_single_primary_mode' AND Value = 'OFF')";

/// Makes the table if there is none, and refuses what is not ours.
pub(super) fn prepare(link: &mut Link, table: &str) -> Attempt<()> {
    check_server(&link.facts.version)?;
    if !is_ours(link, table)? {
        link.ask(&Message::new().then(&create(table), &[]))?;
        if !is_ours(link, table)? {
            return Err(unexpected().into());
        }
    }
    Ok(())
}

/// What the operator must know about the server, if it is so.
pub(super) fn warnings(link: &mut Link) -> Attempt<Vec<&'static str>> {
    let mut warnings = Vec::new();
    if !link.ask(&Message::new().then(CLUSTER, &[]))?.next().rows().is_empty() {
        warnings.push(
            "several servers of the cluster take writes, and none knows the locks of another: send all web servers to one \
             of them, or commits will be refused as stale",
        );
    }
    if link.facts.behind_proxy {
        warnings.push(
            "there is a proxy before the server: a session's lock belongs to one connection, so the proxy must not share \
             connections among clients nor send reads to replicas",
        );
    }
    if link.facts.read_only {
        warnings.push("the server is read-only (a replica?): only a user with special rights can save sessions there");
    }
    Ok(warnings)
}

/// Payload last, the columns of the head first: what looks at a row without its payload never reads a large one.
fn create(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (
            bin     VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
            id      VARCHAR(256) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
            kind    TINYINT      NOT NULL COMMENT '0 live, 1 destroyed, 2 regenerated',
            version BIGINT       NOT NULL,
            created BIGINT       NOT NULL COMMENT 'this and the next four: milliseconds since 1970-01-01 UTC',
            written BIGINT       NOT NULL,
            expires BIGINT       NOT NULL COMMENT 'live: the expiry; regenerated: the end of the grace',
            ends    BIGINT           NULL COMMENT 'live: the absolute end, if there is one',
            due     BIGINT       NOT NULL COMMENT 'when a sweep looks at the row: never later than it may remove it',
            mark    BIGINT       NOT NULL COMMENT 'destroyed: which destruction it was',
            bytes   BIGINT       NOT NULL COMMENT 'of the payload',
            target  VARCHAR(256) CHARACTER SET ascii COLLATE ascii_bin NULL COMMENT 'regenerated: the new id',
            payload LONGBLOB         NULL COMMENT 'live: what the application stored',
            PRIMARY KEY (bin, id),
            KEY due (due)
        ) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = '{MARK}{VERSION}'"
    )
}

/// Several named locks for one connection, and waiting for them in a queue.
fn check_server(version: &str) -> Result<()> {
    let found = numbers_of(version);
    let least = if version.contains("MariaDB") { (10, 2) } else { (5, 7) };
    if found >= least {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Incompatible, format!("the server is too old: {}.{}", found.0, found.1))
        .advice("use MariaDB 10.2 or MySQL 5.7, or later"))
}

fn is_ours(link: &mut Link, table: &str) -> Attempt<bool> {
    let Some(row) = link.ask(&Message::new().then(COMMENT, &[Value::Word(table)]))?.next().row() else {
        return Ok(false);
    };
    let mut columns = row.unwrap().into_iter();
    let mut next = || text(columns.next().unwrap_or(Got::NULL)).unwrap_or_default();
    let (comment, engine) = (next(), next());
    check_table(&comment, &engine)?;
    Ok(true)
}

fn check_table(comment: &str, engine: &str) -> Result<()> {
    let number = comment.strip_prefix(MARK).map(|number| number.parse::<u32>().unwrap_or(0));
    let (why, advice) = match number {
        Some(VERSION) if engine.eq_ignore_ascii_case("InnoDB") => return Ok(()),
        Some(VERSION) => (format!("the table has engine {engine}, not InnoDB"), "ALTER TABLE ... ENGINE = InnoDB"),
        Some(newer) if newer > VERSION => {
            (format!("the table has schema {newer}; this is {VERSION}"), "update this program")
        }
        Some(_) => ("the table has a schema that no release has written".to_owned(), "name another table (table=)"),
        None => ("the table belongs to another program".to_owned(), "name another table (table=)"),
    };
    Err(Error::new(ErrorKind::Incompatible, why).advice(format!("{advice}; it was not changed")))
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
        for version in
            ["10.2.44-MariaDB", "10.11.14-MariaDB-0+deb12u2", "11.4.2-MariaDB-log", "5.7.44", "8.0.36", "9.1.0"]
        {
            assert!(check_server(version).is_ok(), "{version}");
        }
        for version in ["5.6.51", "5.5.68-MariaDB", "10.0.38-MariaDB", "", "unknown"] {
            assert!(check_server(version).is_err(), "{version}");
        }
    }
}
