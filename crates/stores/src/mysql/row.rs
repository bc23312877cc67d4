//! One row of the table: the statements on it, and its decoding.
//!
//! Invariants: what comes out of a row was checked (types, signs, the parts that each kind must have); anything else is
//! `Corrupt` and stays as it is. And a row that a statement replaces is named with what is known of it, so that none
//! overwrites what it has not seen.

use mysql::{Row, Value as Got};
use sessile_core::{Key, Record, Result, Timestamp, Ttl};

use super::lock::{FENCE, HAD, READ};
use super::statement::{Message, Value, of_key};
use crate::sql::{Content, corrupt, ms};

const LIVE: i64 = 0;
const DESTROYED: i64 = 1;
const REGENERATED: i64 = 2;
/// Largest payload that is sent while its row is locked: it fits into the buffers on the way, whoever reads it and however
/// slowly. The server would wait for the reader of a larger one, and others for the row.
const LOCKED_BYTES_MAX: usize = 16 << 10;

/// The statements of one opened store: its table stands in them.
pub(super) struct Statements {
    /// All of a row. Values: bin, id.
    pub select: String,
    /// Waits for a commit that has given its lock up and has not ended, if the lock [`HAD`] was had. Values: bin, id.
    pub settle: String,
    /// All of a row, if the lock [`HAD`] was had. Values: bin, id.
    pub select_if_had: String,
    /// Makes the server keep the two in one under the name [`READ`], as a statement that always gives a row: an aggregate
    /// does. Its first value comes back in front. Large payloads stay away.
    pub prepare_read: String,
    /// The lock and the row in one: the payload, if the lock was had; the number of its holder; the rest. No row where it is
    /// locked, and no payload and no lock where it is large or there is none. Values: name of the lock; bin, id.
    pub begin: String,
    /// All but the payload, whose bytes then stay on the disk. Values: bin, id.
    pub select_head: String,
    /// The same, and nobody else changes the row until the transaction ends. Values: bin, id.
    pub lock_head: String,
    table: String,
    /// The next version of the record that was seen; see [`Statements::next_version`].
    replace_seen: String,
    /// The same by another statement, which gives the lock up; see [`Statements::next_version_and_release`].
    replace_seen_and_release: String,
    /// What that one leaves where there is no row. Values: bin, id.
    pub delete_forgotten: String,
    /// A new record where there is no row; see [`Statements::put`].
    insert: String,
    /// A record in place of a row that this transaction has locked; see [`Statements::put`].
    replace: String,
    /// The three take the values of a [`Tombstone`].
    insert_tombstone: String,
    bury: String,
    bury_any: String,
    /// Values: bin, id.
    pub delete: String,
    /// Values: the new id; bin and id.
    pub rename: String,
    /// Values: bin, id, now twice, the ends of the grace and of the memory of it, the new id.
    pub lead: String,
}

const HEAD: &str = "kind, version, created, written, expires, ends, due, mark, target";

impl Statements {
    pub fn new(table: &str) -> Statements {
        let key = "bin = ? AND id = ?";
        // No row is looked at, and none waited for, without the lock.
        let key_if_had = format!("bin = ? AND id = IF({HAD} IS NULL, NULL, ?)");
        let small = format!("LENGTH(payload) <= {LOCKED_BYTES_MAX}");
        let tombstone = "kind = 1, version = 0, created = ?, written = ?, expires = ?, ends = NULL, due = ?, mark = ?, \
            bytes = 0, target = NULL, payload = NULL";
        Statements {
            table: table.to_owned(),
            select: format!("SELECT {HEAD}, payload FROM {table} WHERE {key}"),
            settle: format!("SELECT 1 FROM {table} WHERE {key_if_had} LOCK IN SHARE MODE"),
            select_if_had: format!("SELECT {HEAD}, payload FROM {table} WHERE {key_if_had}"),
            prepare_read: format!(
                "PREPARE {READ} FROM 'SELECT ?, {}, MAX(IF({small}, payload, NULL)) FROM {table} \
                 WHERE bin = ? AND id = ? LOCK IN SHARE MODE'",
                HEAD.split(", ").map(|column| format!("MAX({column})")).collect::<Vec<_>>().join(", ")
            ),
            begin: format!(
                "SELECT IF({small}, IF(GET_LOCK(?, 0) = 1, payload, NULL), NULL), {FENCE}, {HEAD} FROM {table} \
                 WHERE {key} LOCK IN SHARE MODE SKIP LOCKED"
            ),
            select_head: format!("SELECT {HEAD} FROM {table} WHERE {key}"),
            lock_head: format!("SELECT {HEAD} FROM {table} WHERE {key} FOR UPDATE"),
            // Only the version of a record is not 0. `due` stays: an UPDATE that names an indexed column costs a third more,
            // whether it changes or not. If the record would expire before it is due, another statement has to move it; the
            // sum keeps the server from weighing the index on `due`. A lease whose lock is gone finds no value for `bytes`.
            replace_seen: format!(
                "UPDATE {table} SET expires = ?, ends = ?, written = ?, version = ?, \
                 bytes = IF(IS_USED_LOCK(?) = CONNECTION_ID(), ?, NULL), payload = ? \
                 WHERE {key} AND version = ? AND created = ? AND ends <=> ? AND due + 0 <= ?"
            ),
            // What would be inserted is a tombstone that is forgotten already.
            replace_seen_and_release: format!(
                "INSERT INTO {table} (bin, id, kind, version, created, written, expires, due, mark, bytes) \
                 VALUES (?, ?, 1, 0, 0, 0, 0, 0, 0, 0) ON DUPLICATE KEY UPDATE \
                 version = IF(version = ? AND created = ? AND ends <=> ? AND due <= ?, IF(RELEASE_LOCK(?) = 1, ?, NULL), NULL), \
                 expires = ?, ends = ?, written = ?, bytes = ?, payload = ?"
            ),
            delete_forgotten: format!("DELETE FROM {table} WHERE {key} AND kind = 1 AND due = 0"),
            insert: format!(
                "INSERT INTO {table} (kind, version, created, written, expires, due, ends, bytes, payload, mark, bin, id) \
                 VALUES (0, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)"
            ),
            replace: format!(
                "UPDATE {table} SET kind = 0, version = ?, created = ?, written = ?, expires = ?, due = ?, ends = ?, \
                 bytes = ?, payload = ?, mark = 0, target = NULL WHERE {key}"
            ),
            insert_tombstone: format!(
                "INSERT INTO {table} (kind, version, created, written, expires, due, mark, bytes, bin, id) \
                 VALUES (1, 0, ?, ?, ?, ?, ?, 0, ?, ?)"
            ),
            bury: format!("UPDATE {table} SET {tombstone} WHERE {key} AND kind <> 2"),
            bury_any: format!("UPDATE {table} SET {tombstone} WHERE {key}"),
            delete: format!("DELETE FROM {table} WHERE {key}"),
            rename: format!("UPDATE {table} SET id = ? WHERE {key}"),
            lead: format!(
                "INSERT INTO {table} (bin, id, kind, version, created, written, expires, due, mark, bytes, target) \
                 VALUES (?, ?, 2, 0, ?, ?, ?, ?, 0, 0, ?)"
            ),
        }
    }

    /// The common commit: the next version of what was seen, if the lock is held.
    pub fn next_version<'v>(
        &self,
        (key, lock): (&'v Key, &'v str),
        payload: &'v [u8],
        (next, seen): (&Record, &Record),
    ) -> (&str, Vec<Value<'v>>) {
        let expires = Value::time(next.expires);
        let [bin, id] = of_key(key);
        let values = vec![
            expires,
            Value::time_or_null(next.ends),
            Value::time(next.written),
            number(next.version),
            Value::Word(lock),
            number(payload.len() as u64),
            Value::Bytes(payload),
            bin,
            id,
            number(seen.version),
            Value::time(seen.created),
            Value::time_or_null(seen.ends),
            expires,
        ];
        (&self.replace_seen, values)
    }

    /// The same, and it gives the lock up. It changes the row of a key that is there already, which is locked then: a
    /// third cheaper than to look for the row. It changes 2 where it was done; `version` finds no value where the row or the lock is
    /// not what was seen; and it changes 1 where there was no row, which has one then.
    pub fn next_version_and_release<'v>(
        &self,
        (key, lock): (&'v Key, &'v str),
        payload: &'v [u8],
        (next, seen): (&Record, &Record),
    ) -> (&str, Vec<Value<'v>>) {
        let expires = Value::time(next.expires);
        let [bin, id] = of_key(key);
        let values = vec![
            bin,
            id,
            number(seen.version),
            Value::time(seen.created),
            Value::time_or_null(seen.ends),
            expires,
            Value::Word(lock),
            number(next.version),
            expires,
            Value::time_or_null(next.ends),
            Value::time(next.written),
            number(payload.len() as u64),
            Value::Bytes(payload),
        ];
        (&self.replace_seen_and_release, values)
    }

    /// Moves the expiry of a live record. Values: bin, id, now.
    pub fn touch(&self, ttl: Ttl, now: Timestamp) -> String {
        // No end is known yet, so this is the sliding one alone.
        let (sliding, _) = ttl.deadline(now, now, None);
        let sliding = ms(sliding);
        let ends = ttl.absolute_ms().map_or_else(|| "ends".to_owned(), |ms| format!("created + {ms}"));
        let expires = format!("LEAST({sliding}, COALESCE({ends}, {sliding}))");
        let table = &self.table;
        format!(
            "UPDATE {table} SET due = LEAST(due, {expires}), expires = {expires}, ends = {ends} \
             WHERE bin = ? AND id = ? AND kind = 0 AND expires > ?"
        )
    }

    /// A record as a new row, or in place of one that this transaction has locked.
    pub fn put<'v>(&self, key: &'v Key, head: &Record, payload: &'v [u8], there: bool) -> (&str, Vec<Value<'v>>) {
        let expires = Value::time(head.expires);
        let [bin, id] = of_key(key);
        let values = vec![
            number(head.version),
            Value::time(head.created),
            Value::time(head.written),
            expires,
            expires,
            Value::time_or_null(head.ends),
            number(payload.len() as u64),
            Value::Bytes(payload),
            bin,
            id,
        ];
        (if there { &self.replace } else { &self.insert }, values)
    }

    /// A tombstone where there is no row.
    pub fn add_tombstone(&self, message: &mut Message, key: &Key, tombstone: Tombstone) {
        message.add(&self.insert_tombstone, &tombstone.values(key));
    }

    /// A tombstone in place of a record or a tombstone, but not of an id that leads on.
    pub fn add_burial(&self, message: &mut Message, key: &Key, tombstone: Tombstone) {
        message.add(&self.bury, &tombstone.values(key));
    }

    /// A tombstone in place of any row.
    pub fn add_burial_of_any(&self, message: &mut Message, key: &Key, tombstone: Tombstone) {
        message.add(&self.bury_any, &tombstone.values(key));
    }
}

/// What a destroyed session leaves.
#[derive(Clone, Copy)]
pub(super) struct Tombstone {
    pub now: Timestamp,
    pub forget: Timestamp,
    /// Random: it only has to be another one each time.
    pub mark: i64,
}

impl Tombstone {
    fn values<'v>(&self, key: &'v Key) -> [Value<'v>; 7] {
        let now = Value::time(self.now);
        let [bin, id] = of_key(key);
        [now, now, now, Value::time(self.forget), Value::Number(self.mark), bin, id]
    }
}

/// A number of the contract as a column has it: signed.
fn number(number: u64) -> Value<'static> {
    Value::Number(i64::try_from(number).unwrap_or(i64::MAX))
}

/// What a row of [`Statements::select`] or [`Statements::select_head`] says.
pub(super) fn decode(row: Row) -> Result<Content> {
    decode_columns(row.unwrap().into_iter())
}

pub(super) fn decode_columns(mut columns: impl Iterator<Item = Got>) -> Result<Content> {
    let mut next = || columns.next().unwrap_or(Got::NULL);
    let [kind, version, created, written, expires, ends, due, mark] =
        [next(), next(), next(), next(), next(), next(), next(), next()];
    let target = next();
    let payload = columns.next();
    let (expires, due) = (time(&expires)?, time(&due)?);
    match integer(&kind)? {
        LIVE => Ok(Content::Live(Record {
            payload: match payload {
                Some(Got::Bytes(bytes)) => bytes,
                None => Vec::new(), // only the head was asked for
                Some(_) => return Err(corrupt("a stored session has no payload")),
            },
            version: u64::try_from(integer(&version)?).map_err(|_| corrupt("a stored row has a negative version"))?,
            created: time(&created)?,
            written: time(&written)?,
            expires,
            ends: if ends == Got::NULL { None } else { Some(time(&ends)?) },
        })),
        DESTROYED => Ok(Content::Destroyed { mark: integer(&mark)?, forget: due }),
        REGENERATED => {
            let target = text(target).ok_or_else(|| corrupt("a regenerated row leads nowhere"))?;
            Ok(Content::Regenerated { target: target.into(), until: expires, forget: due })
        }
        _ => Err(corrupt("a stored row is of an unknown kind")),
    }
}

/// Whether the columns are those of a record whose payload was left out.
pub(super) fn lacks_payload(columns: &[Got]) -> bool {
    let live = columns.first().is_some_and(|kind| integer(kind).is_ok_and(|kind| kind == LIVE));
    live && columns.last() == Some(&Got::NULL)
}

/// Numbers come as text, except from prepared statements.
pub(super) fn integer(value: &Got) -> Result<i64> {
    let number = match value {
        Got::Int(number) => Some(*number),
        Got::UInt(number) => i64::try_from(*number).ok(),
        Got::Bytes(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
        _ => None,
    };
    number.ok_or_else(|| corrupt("a stored row has a column of the wrong type"))
}

pub(super) fn time(value: &Got) -> Result<Timestamp> {
    let ms = u64::try_from(integer(value)?).map_err(|_| corrupt("a stored row has a negative time"))?;
    Ok(Timestamp::from_ms(ms))
}

pub(super) fn text(value: Got) -> Option<String> {
    match value {
        Got::Bytes(bytes) => String::from_utf8(bytes).ok(),
        _ => None,
    }
}
