//! Every statement on the table of sessions.
//!
//! Invariant: a statement that replaces a row names what was read of it, so that none overwrites
//! what it has not read.

use sessile_core::{Head, Key, Stored, Timestamp, Ttl};

use super::lock::SESSION_FENCE;
use crate::sql::ms;
use crate::sql::row::encoded;
use crate::sql::value::{Value, key_values};

/// Largest payload that is sent while its row is locked: it fits into the buffers on the way,
/// however slow the reader. For a larger one the server would wait, and others for the row.
const LOCKED_BYTES_MAX: usize = 16 << 10;

/// The name of [`Statements::prepare_read`] on the server.
pub(super) const READ_IF_LOCKED: &str = "sessile_read";

/// The statements of one opened store. Their values are bin and id, if nothing else is said.
pub(super) struct Statements {
    /// Whether they name the columns of owners.
    pub name_owners: bool,
    /// An expression that draws the next fence.
    pub fence: String,
    /// As it stands in statements: in backquotes.
    pub table: String,
    /// All of a row.
    pub select: String,
    /// Waits for a commit that has given its lock up and has not ended, if [`SESSION_FENCE`] is not
    /// NULL.
    pub await_commit: String,
    /// All of a row, if [`SESSION_FENCE`] is not NULL.
    pub select_if_locked: String,
    /// Makes the server keep the two in one under the name [`READ_IF_LOCKED`]. It gives one row
    /// always, as an aggregate does: its first value in front, large payloads as NULL.
    pub prepare_read: String,
    /// The payload, the fence and the rest, if the lock is free. No row where it is locked; NULL
    /// and no lock where the payload is large or missing. Values: the lock; bin, id.
    pub begin: String,
    /// All but the payload, whose bytes then stay on the disk.
    pub select_head: String,
    /// All but the payload, locked until the transaction ends.
    pub lock_head: String,
    next_version: String,
    next_version_and_release: String,
    /// What [`Statements::next_version_and_release`] leaves where there is no row.
    pub delete_forgotten: String,
    /// A row where there is none. Values: [`row_values`].
    pub insert: String,
    /// A row in place of any. Values: [`row_values`].
    pub replace: String,
    /// A row in place of a record of an owner. Values: [`row_values`]; now, the owner.
    pub replace_owned: String,
    /// A row in place of a record or a tombstone. Values: [`row_values`].
    pub replace_unless_alias: String,
    pub delete: String,
    /// What a listing reads; the index and the conditions follow.
    pub list: String,
    /// Values: the new id; bin and id.
    pub rename: String,
}

/// A program from before owners leaves the owner of what it destroys in the row. It is not that of
/// the next session there, which was created later.
const OWNER: &str = "IF(owner_created = created, owner, NULL)";
/// What `row.rs` decodes, in its order; then the owner.
const HEAD: &str = "kind, version, created, written, expires, ends, due, mark, target";
/// Columns of a row that is read, from its kind to its owner.
pub(super) const HEAD_COLUMNS: usize = 10;
/// Its place in a row and among [`row_values`].
pub(super) const OWNER_COLUMN: usize = HEAD_COLUMNS - 1;
/// The column of [`Statements::list`] that says where a regenerated id leads.
pub(super) const LISTED_TARGET: usize = 9;

impl Statements {
    /// In a table from before owners all values stand at the same places: what is read as the owner
    /// is NULL, and the one that is written, always NULL too, comes to nothing.
    pub fn new(table: &str, has_owners: bool, fence: &str) -> Statements {
        let read_owner = if has_owners { OWNER } else { "NULL" };
        let head = format!("{HEAD}, {read_owner}");
        let owner = if has_owners { ", owner" } else { "" };
        let key = "bin = ? AND id = ?";
        // Without the lock no row is looked at, and none waited for.
        let key_if_locked = format!("bin = ? AND id = IF({SESSION_FENCE} IS NULL, NULL, ?)");
        let small = format!("LENGTH(payload) <= {LOCKED_BYTES_MAX}");
        // The server works out what is set from left to right: `created` is the new one.
        let (columns, values, set) = if has_owners {
            (", owner_created", "?, created, ?", "?, owner_created = created, bytes = ?")
        } else {
            ("", "COALESCE(?, ?)", "?, bytes = COALESCE(?, ?)")
        };
        let columns = format!("{HEAD}{owner}{columns}, bytes, payload");
        let each = format!("{HEAD}{owner}").replace(", ", " = ?, ");
        let replace = format!("UPDATE {table} SET {each} = {set}, payload = ? WHERE {key}");
        Statements {
            name_owners: has_owners,
            fence: fence.to_owned(),
            table: table.to_owned(),
            select: format!("SELECT {head}, payload FROM {table} WHERE {key}"),
            await_commit: format!("SELECT 1 FROM {table} WHERE {key_if_locked} LOCK IN SHARE MODE"),
            select_if_locked: format!("SELECT {head}, payload FROM {table} WHERE {key_if_locked}"),
            prepare_read: format!(
                "PREPARE {READ_IF_LOCKED} FROM 'SELECT ?, {}, MAX(IF({small}, payload, NULL)) \
                 FROM {table} WHERE bin = ? AND id = ? LOCK IN SHARE MODE'",
                HEAD.split(", ")
                    .chain([read_owner])
                    .map(|column| format!("MAX({column})"))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            begin: format!(
                "SELECT IF({small}, IF(GET_LOCK(?, 0) = 1, payload, NULL), NULL), {fence}, {head} \
                 FROM {table} \
                 WHERE {key} LOCK IN SHARE MODE SKIP LOCKED"
            ),
            select_head: format!("SELECT {head} FROM {table} WHERE {key}"),
            lock_head: format!("SELECT {head} FROM {table} WHERE {key} FOR UPDATE"),
            // Only the version of a record is not 0. `due` stays: an UPDATE that names an indexed
            // column costs a third more, whether it changes or not. A record that would expire
            // before it is due needs another statement; the sum keeps the server from weighing the
            // index on `due`. Where the lock is gone, `bytes` gets NULL.
            next_version: format!(
                "UPDATE {table} SET expires = ?, ends = ?, written = ?, version = ?, \
                 bytes = IF(IS_USED_LOCK(?) = CONNECTION_ID(), ?, NULL), payload = ? \
                 WHERE {key} AND version = ? AND created = ? AND ends <=> ? AND due + 0 <= ?"
            ),
            // The row that would be inserted is a tombstone that is forgotten already.
            next_version_and_release: format!(
                "INSERT INTO {table} (bin, id, kind, version, created, written, expires, due, \
                 mark, bytes) \
                 VALUES (?, ?, 1, 0, 0, 0, 0, 0, 0, 0) ON DUPLICATE KEY UPDATE \
                 version = IF(version = ? AND created = ? AND ends <=> ? AND due <= ?, \
                 IF(RELEASE_LOCK(?) = 1, ?, NULL), NULL), \
                 expires = ?, ends = ?, written = ?, bytes = ?, payload = ?"
            ),
            delete_forgotten: format!("DELETE FROM {table} WHERE {key} AND kind = 1 AND due = 0"),
            insert: format!(
                "INSERT INTO {table} ({columns}, bin, id) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, {values}, ?, ?, ?)"
            ),
            replace_owned: format!(
                "{replace} AND kind = 0 AND expires > ? AND owner = ? AND owner_created = created"
            ),
            replace_unless_alias: format!("{replace} AND kind <> 2"),
            replace,
            list: format!(
                "SELECT bin, id, kind, version, created, written, expires, bytes, {read_owner}, \
                 target FROM {table}"
            ),
            delete: format!("DELETE FROM {table} WHERE {key}"),
            rename: format!("UPDATE {table} SET id = ? WHERE {key}"),
        }
    }

    /// The common commit: the next version of what was read, if the lock is held.
    pub fn next_version<'v>(
        &self,
        of: (&'v Key, &'v str),
        payload: &'v [u8],
        heads: (&Head, &Head),
    ) -> (&str, Vec<Value<'v>>) {
        let (_, values) = self.next_version_and_release(of, payload, heads);
        let [bin, id, version, created, ends, expires, lock, next, _, next_ends, written, ..] =
            values;
        let [.., bytes, payload] = values;
        let values = vec![
            expires, next_ends, written, next, lock, bytes, payload, bin, id, version, created,
            ends, expires,
        ];
        (&self.next_version, values)
    }

    /// The common commit in a statement that gives the lock up. It changes 2 rows where it was
    /// done, 1 where it made a row because there was none. `version` gets NULL where the row or the
    /// lock is not what was read. To change the row of a key that is there is a third cheaper than
    /// to look for the row.
    pub fn next_version_and_release<'v>(
        &self,
        (key, lock): (&'v Key, &'v str),
        payload: &'v [u8],
        (next, read): (&Head, &Head),
    ) -> (&str, [Value<'v>; 13]) {
        let [bin, id] = key_values(key);
        let expires = next.expires.into();
        let values = [
            bin,
            id,
            read.version.into(),
            read.created.into(),
            read.ends.into(),
            expires,
            Value::Word(lock),
            next.version.into(),
            expires,
            next.ends.into(),
            next.written.into(),
            (payload.len() as u64).into(),
            Value::Bytes(payload),
        ];
        (&self.next_version_and_release, values)
    }

    /// Values: bin, id, now.
    pub fn touch(&self, ttl: Ttl, now: Timestamp) -> String {
        // Without an end this is the sliding one alone.
        let (sliding, _) = ttl.deadline(now, now, None);
        let sliding = ms(sliding);
        let ends =
            ttl.absolute_ms().map_or_else(|| "ends".to_owned(), |ms| format!("created + {ms}"));
        let expires = format!("LEAST({sliding}, COALESCE({ends}, {sliding}))");
        let table = &self.table;
        format!(
            "UPDATE {table} SET due = LEAST(due, {expires}), expires = {expires}, ends = {ends} \
             WHERE bin = ? AND id = ? AND kind = 0 AND expires > ?"
        )
    }
}

pub(super) fn row_values<'v>(
    key: &'v Key,
    stored: &'v Stored,
    payload: Option<&'v [u8]>,
    now: Timestamp,
) -> Vec<Value<'v>> {
    let bytes = payload.map_or(0, <[u8]>::len) as u64;
    let payload = [bytes.into(), payload.map_or(Value::Null, Value::Bytes)];
    encoded(stored, now).into_iter().chain(payload).chain(key_values(key)).collect()
}
