//! Every statement on a table of sessions.
//!
//! Invariants: each is right under READ COMMITTED as a transaction of its own; a change says in its
//! WHERE what must still be so; no value stands in the text; each number is a bigint, because so it
//! is sent. The columns: `schema.rs`.

use super::names::TableNames;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sql {
    /// Gives up the lock `$3`, if that is not NULL. Takes a lock, and draws a fence under it; NULL
    /// when the lock is not free and there is no time (`$2`, in ms) to wait. A try is refused while
    /// others wait, so nobody is overtaken; a successful one needs no time-out. The time-out ends
    /// with the transaction. Columns are evaluated in order, and so are the conditions of a CASE,
    /// before what follows from them.
    Lock,
    TryLock,
    Unlock,
    UnlockAll,
    Read,
    ReadHead,
    Holder,
    /// Whether the process `$2` has the lock.
    HeldBy,
    /// The next version of the row that the lease has read. No indexed column changes but `due`,
    /// and that only for a shorter life: the new version stays on its page, and no index learns of
    /// it. A pooling proxy may have brought us to a process without the lock: then nothing is
    /// changed. (A condition on values alone would cost the server another step of its plan.)
    Replace,
    /// [`Sql::Replace`] that sets the owner `$12`.
    ReplaceOwned,
    /// A new record in place of none, an expired one, a spent id, or the tombstone `$9`.
    Insert,
    /// A new record under a lock of its own, for the length of the statement: nobody may hold the
    /// id. A tombstone is no obstacle. The lock is given up after the row can be seen.
    Create,
    /// `$6` and `$7` are version and creation of the record, or NULL for any.
    Touch,
    /// A tombstone where there is no row, but a holder that might make one.
    DestroyHeld,
    /// A tombstone in place of the row; returns what the row was.
    Destroy,
    /// A tombstone in place of a live record of the owner `$5`; returns a row if there was one.
    DestroyOwned,
    /// Makes room under the new id of a regeneration.
    ClearNew,
    MoveRecord,
    LeaveAlias,
    /// One batch: due rows that no other sweep is at. The living are filed under their true expiry,
    /// the leased are left alone, the rest goes.
    Sweep,
    List,
    /// The rows of the owner `$3`.
    ListOwned,
}

/// What `row.rs` decodes, in its order; the payload follows. A table from before owners has none.
fn columns(has_owners: bool) -> String {
    format!(
        "kind::bigint, version, created, written, expires, ends, due, mark, target, {}, number, \
         writer",
        owner_of(has_owners)
    )
}

/// A program from before owners leaves the owner of what it destroys in the row. It is not that of
/// the next session there, which was created later.
fn owner_of(has_owners: bool) -> &'static str {
    if has_owners { "CASE owner_created WHEN created THEN owner END" } else { "NULL::text" }
}

/// The advisory locks of the database that are held.
const HELD: &str = "(SELECT (classid::bigint << 32) | objid::bigint AS lock, pid FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS held";

/// The life of a row after a commit or touch: `$1` slides; `end` is an absolute one, or NULL for
/// the stored one.
fn life(end: &str) -> String {
    let expires = format!("least($1::bigint, coalesce({end}, ends))");
    format!("expires = {expires}, ends = coalesce({end}, ends), due = least(due, {expires})")
}

/// Gives up the session's lock at the end of the transaction, when others can see what it wrote:
/// the transaction takes the lock too, which is granted at once to the same session, before the
/// session lets go. A CASE evaluates its condition first.
fn handed_over(lock: &str) -> String {
    format!("CASE WHEN pg_try_advisory_xact_lock({lock}) THEN pg_advisory_unlock({lock}) END")
}

/// Writes a new record under a condition, in place of a row only under another one.
fn new_record(
    (table, has_owners): (&str, bool),
    owner: &str,
    allowed: &str,
    replaceable: &str,
) -> String {
    let (column, value, set) = if has_owners {
        (
            ", owner, owner_created",
            format!(", {owner}::text, $9::bigint"),
            format!(", owner = {owner}::text, owner_created = $9"),
        )
    } else {
        ("", String::new(), String::new())
    };
    format!(
        "INSERT INTO {table} AS t (bin, id, lock, kind, version, created, written, expires, due, \
            ends, writer, mark, payload{column})
        SELECT $1::text, $2::text, $3::bigint, 0, 1, $9::bigint, $4::bigint, $5::bigint, $5, \
            $6::bigint, $7::bigint, 0, $8::bytea{value}
        WHERE {allowed} ON CONFLICT (id, bin) DO UPDATE SET kind = 0, version = 1, created = $9, \
            written = $4, expires = $5, due = $5, ends = $6, writer = $7, mark = 0, target = NULL, \
            payload = $8{set}
        WHERE {replaceable}"
    )
}

impl Sql {
    pub fn lists(self) -> bool {
        matches!(self, Sql::List | Sql::ListOwned)
    }

    /// As the server keeps it, once it is prepared.
    pub fn name(self, has_owners: bool) -> String {
        format!("sessile_{self:?}{}", if has_owners { "" } else { "_before_owners" })
    }

    #[allow(clippy::too_many_lines, reason = "a table")]
    pub fn text(self, names: &TableNames, has_owners: bool) -> String {
        let table = &names.table;
        let fence = format!("nextval('{}')", names.fences.replace('\'', "''"));
        match self {
            Sql::Lock => format!(
                "SELECT pg_advisory_unlock($3), CASE WHEN pg_try_advisory_lock($1) THEN {fence}
                WHEN $2 = '0' THEN NULL
                WHEN CASE WHEN set_config('lock_timeout', $2, true) <> ''
                    THEN pg_advisory_lock($1)::text END IS NOT NULL
                THEN {fence} END, pg_backend_pid()::bigint"
            ),
            Sql::TryLock => "SELECT pg_try_advisory_lock($1)".into(),
            Sql::Unlock => "SELECT pg_advisory_unlock($1)".into(),
            Sql::UnlockAll => "SELECT pg_advisory_unlock_all()".into(),
            Sql::Read => format!(
                "SELECT {}, payload FROM {table} WHERE bin = $1 AND id = $2",
                columns(has_owners)
            ),
            Sql::ReadHead => {
                format!("SELECT {} FROM {table} WHERE bin = $1 AND id = $2", columns(has_owners))
            }
            Sql::Holder => format!(
                "SELECT application_name,
                    (extract(epoch FROM clock_timestamp() - state_change) * 1000)::bigint
                FROM pg_stat_activity WHERE pid = (SELECT pid FROM {HELD} WHERE lock = $1 LIMIT 1)"
            ),
            Sql::HeldBy => {
                format!("SELECT EXISTS (SELECT FROM {HELD} WHERE lock = $1 AND pid = $2::bigint)")
            }
            Sql::Replace | Sql::ReplaceOwned => format!(
                "UPDATE {table} SET payload = $3, version = version + 1, written = $4, \
                    writer = $5, {}{}
                WHERE bin = $6 AND id = $7 AND version = $8 AND created = $9
                    AND kind = CASE pg_backend_pid() WHEN $10::bigint THEN 0 END
                RETURNING {}",
                if self == Sql::ReplaceOwned {
                    "owner = $12::text, owner_created = $9, "
                } else {
                    ""
                },
                life("$2::bigint"),
                handed_over("$11")
            ),
            Sql::Insert => format!(
                "{} RETURNING {}",
                new_record(
                    (table, has_owners),
                    "$12",
                    // A value that no statement names is refused.
                    if has_owners {
                        "pg_backend_pid() = $11::bigint"
                    } else {
                        "pg_backend_pid() = $11::bigint AND $12::text IS NULL"
                    },
                    "CASE t.kind WHEN 1 THEN t.mark = $10::bigint ELSE t.expires <= $4 END"
                ),
                handed_over("$3")
            ),
            Sql::Create => new_record(
                (table, has_owners),
                "NULL",
                "pg_try_advisory_xact_lock($3)",
                "t.kind = 1 OR t.expires <= $4",
            ),
            Sql::Touch => format!(
                "UPDATE {table} SET {}
                WHERE bin = $3 AND id = $4 AND kind = 0 AND expires > $5
                    AND version = coalesce($6, version) AND created = coalesce($7, created)",
                life("(created + $2::bigint)")
            ),
            Sql::DestroyHeld => format!(
                "INSERT INTO {table} (lock, bin, id, kind, version, created, written, expires, \
                    due, writer, mark)
                SELECT $1::bigint, $2::text, $3::text, 1, 0, $4::bigint, $4, $4, $5::bigint, 0, \
                    {fence}
                WHERE EXISTS (SELECT FROM {HELD} WHERE lock = $1) ON CONFLICT (id, bin) DO NOTHING"
            ),
            Sql::Destroy => format!(
                "UPDATE {table} t SET kind = 1, version = 0, created = $3, written = $3, \
                    expires = $3, ends = NULL, due = $4, writer = 0, mark = {fence}, \
                    target = NULL, payload = NULL{}
                FROM (SELECT number, kind, target, expires FROM {table} WHERE bin = $1 AND id = $2
                    FOR UPDATE) AS old
                WHERE t.number = old.number RETURNING old.kind::bigint, old.target, old.expires",
                if has_owners { ", owner = NULL" } else { "" }
            ),
            Sql::DestroyOwned => format!(
                "UPDATE {table} SET kind = 1, version = 0, created = $3, written = $3, \
                    expires = $3, ends = NULL, due = $4, writer = 0, mark = {fence}, \
                    target = NULL, payload = NULL, owner = NULL
                WHERE bin = $1 AND id = $2 AND kind = 0 AND expires > $3 AND owner = $5
                    AND owner_created = created
                RETURNING number"
            ),
            Sql::ClearNew => format!(
                "DELETE FROM {table} WHERE bin = $1 AND id = $2 AND (kind = 1 OR expires <= $3)"
            ),
            Sql::MoveRecord => format!(
                "UPDATE {table} SET id = $1, lock = $2
                WHERE bin = $3 AND id = $4 AND kind = 0 AND version = $5 AND created = $6
                    AND pg_backend_pid() = $7::bigint"
            ),
            Sql::LeaveAlias => format!(
                "INSERT INTO {table} (bin, id, lock, kind, version, created, written, expires, \
                    due, writer, mark, target)
                SELECT $1::text, $2::text, $3::bigint, 2, 0, $4::bigint, $4, $5::bigint, \
                    $6::bigint, 0, 0, $7::text
                WHERE EXISTS (SELECT FROM {table} WHERE bin = $1 AND id = $7 AND number = $8)"
            ),
            Sql::Sweep => format!(
                "WITH batch AS MATERIALIZED (
                    SELECT number, due FROM {table} WHERE due <= $1 AND (due, number) > ($2, $3)
                    ORDER BY due, number LIMIT $4 FOR UPDATE SKIP LOCKED
                ), held AS MATERIALIZED (
                    SELECT lock FROM {HELD}
                ), filed AS (
                    UPDATE {table} t SET due = t.expires FROM batch b
                    WHERE t.number = b.number AND t.kind = 0 AND t.expires > $1
                ), gone AS (
                    DELETE FROM {table} t USING batch b
                    WHERE t.number = b.number AND (t.kind <> 0 OR t.expires <= $1)
                        AND NOT EXISTS (SELECT FROM held h WHERE h.lock = t.lock)
                    RETURNING t.kind
                )
                SELECT (SELECT count(*) FROM batch), (SELECT count(*) FROM gone WHERE kind = 0), \
                    last.due, last.number
                FROM (SELECT) AS always LEFT JOIN (SELECT due, number FROM batch
                    ORDER BY due DESC, number DESC LIMIT 1) AS last ON true"
            ),
            Sql::List | Sql::ListOwned => format!(
                "SELECT bin, id, kind::bigint, version, created, written, expires,
                    octet_length(payload)::bigint, {}, number
                FROM {table} WHERE number > $1{} ORDER BY number LIMIT $2",
                owner_of(has_owners),
                if self == Sql::ListOwned { " AND owner = $3" } else { "" }
            ),
        }
    }
}
