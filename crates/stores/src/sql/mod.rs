//! A session as a row of a table: what the stores on SQL share.
//!
//! A store contributes its statements and its driver's access to columns ([`row::Columns`]).
//!
//! Invariant: every change compares the row with what the lease has read (`Stored::check_lease`, or
//! a WHERE that says the same). So a commit is right even if the lock was lost.

#![cfg_attr(not(feature = "default"), allow(dead_code, reason = "some stores are left out"))]

pub mod list;
pub mod owner_columns;
pub mod row;
pub mod sweep;
pub mod value;

use std::ops::ControlFlow;

use sessile_core::{
    Capabilities, Clock, Durability, Error, ErrorKind, Key, Locking, Result, SessionsBound, Stored,
    Timestamp, Waiting, follow_aliases,
};

use crate::random;

pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A time as a column has it. One that does not fit is the end of time.
pub fn ms(time: Timestamp) -> i64 {
    signed(time.as_ms())
}

/// Rows that this program cannot have written are never repaired silently.
pub fn corrupt(what: &'static str) -> Error {
    Error::new(ErrorKind::Corrupt, what).advice(
        "the row was left as it is; the manual says how to remove it: docs/servers.md, Repair",
    )
}

pub fn random_mark() -> Result<i64> {
    random::bytes().map(i64::from_le_bytes)
}

/// Of the tables. The columns of owners came later and have no number: programs that do not know
/// them go on beside those that do, so that workers can be updated one after the other.
pub const SCHEMA: i64 = 1;

/// Refuses (`Incompatible`) tables of another schema. `what` has them: "the table", "the file".
pub fn check_schema(what: &str, found: i64) -> Result<()> {
    let why = match found {
        SCHEMA => return Ok(()),
        newer if newer > SCHEMA => format!(
            "a newer version of Sessile made {what}: schema {newer}, this version knows {SCHEMA}"
        ),
        _ => format!("{what} has a schema that no release has written"),
    };
    let advice = format!("update this program, or name another; {what} was not changed");
    Err(Error::new(ErrorKind::Incompatible, why).advice(advice))
}

pub fn foreign_table() -> Error {
    Error::new(ErrorKind::Incompatible, "the table belongs to another program")
        .advice("name another table (table=); this one was not changed")
}

/// What a store in a table on a server can do. It adds the server and the largest value.
pub const ON_A_SERVER: Capabilities = Capabilities {
    persistent_from: Some(Durability::None),
    shared_by_processes: true,
    shared_by_hosts: true,
    // The lock lies beside the row: destroying a session does not take it from the holder.
    locking: Locking::Emulated,
    waiting: Waiting::Event,
    sessions_bounded_by: SessionsBound::ServerDisk,
    listing: true,
    owners: true,
    durability: &[Durability::None, Durability::Second, Durability::Commit],
    ..Capabilities::MINIMAL
};

/// Touches the record to which an id leads. `touch_row` moves the expiry of a live record, or
/// returns what is there instead.
pub fn touch<E: From<Error>>(
    asked: &Key,
    clock: &Clock,
    mut touch_row: impl FnMut(&Key, Timestamp) -> std::result::Result<Option<Stored>, E>,
) -> std::result::Result<(), E> {
    let touched = follow_aliases(asked, |key| -> std::result::Result<_, E> {
        let now = clock.now();
        let Some(there) = touch_row(key, now)? else { return Ok(ControlFlow::Break(())) };
        let target = there.leads_to(now).ok_or(Error::from(ErrorKind::Gone))?;
        Ok(ControlFlow::Continue(target.clone()))
    });
    touched.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_a_newer_version_is_refused_with_both_numbers() {
        assert!(check_schema("the table", SCHEMA).is_ok());
        let error = check_schema("the table", SCHEMA + 1).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Incompatible);
        let text = format!("{error:#}");
        assert!(text.contains("a newer version of Sessile made the table"), "{text}");
        assert!(text.contains(&format!("schema {}", SCHEMA + 1)), "{text}");
        assert!(check_schema("the table", 0).is_err(), "no release has written 0");
    }
}
