//! Every statement that runs on a table of sessions, with the names of one store put in.
//!
//! Invariants: each is right under READ COMMITTED as a transaction of its own, in which it sees all that was committed
//! before it began; a change says in its WHERE what must still be so. No value stands in the text.
//!
//! `{t}` stands for the table, `{f}` for the sequence of fences. What the columns mean: `schema.rs`.

use super::schema::Names;

macro_rules! statements {
    ($($name:ident = $text:expr;)+) => {
        /// A statement.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Sql { $($name),+ }

        impl Sql {
            /// How many there are.
            pub const COUNT: usize = [$(Sql::$name),+].len();
            const TEXTS: [&str; Sql::COUNT] = [$($text),+];

            /// Its place among all.
            pub const fn index(self) -> usize {
                self as usize
            }
        }
    };
}

/// What `row.rs` decodes, in its order.
macro_rules! columns {
    ($payload:literal) => {
        concat!(
            "t.number, t.kind, t.version, t.created, t.written, t.expires, t.ends, t.due, t.mark, t.writer, t.target, ",
            $payload
        )
    };
}

/// The session that holds an advisory lock, whose two halves are `$1` and `$2`.
macro_rules! held {
    () => {
        "pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.classid = $1 AND l.objid = $2
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    };
}

/// The life of a row after a commit or touch: `$1` slides, `$2` is an absolute end or NULL, which keeps the stored one.
macro_rules! life {
    ($end:literal) => {
        concat!(
            "expires = least($1::bigint, coalesce(",
            $end,
            ", ends)), ends = coalesce(",
            $end,
            ", ends),
            due = least(due, $1::bigint, coalesce(",
            $end,
            ", ends))"
        )
    };
}

/// Gives up the session's hold of a lock at the end of the transaction, when others can see what it wrote: the transaction
/// takes the lock too (that is granted at once to the session that has it) before the session lets go. A CASE evaluates its
/// condition first.
macro_rules! handed_over {
    ($lock:literal) => {
        concat!("CASE WHEN pg_try_advisory_xact_lock(", $lock, ") THEN pg_advisory_unlock(", $lock, ") END")
    };
}

statements! {
    // Takes a lock, and draws a fence under it; says NULL when the lock is not free and there is no time ($2, in ms) to wait.
    // A try is refused while others wait, so nobody is overtaken; and when it succeeds no time-out has to be set. That ends with
    // the transaction. A CASE evaluates its conditions in order, and before what follows from them.
    Lock = "SELECT CASE WHEN pg_try_advisory_lock($1) THEN nextval('{f}') WHEN $2 = '0' THEN NULL
            WHEN CASE WHEN set_config('lock_timeout', $2, true) <> '' THEN pg_advisory_lock($1)::text END IS NOT NULL
            THEN nextval('{f}') END, pg_backend_pid()";
    TryLock = "SELECT pg_try_advisory_lock($1)";
    Unlock = "SELECT pg_advisory_unlock($1)";
    UnlockAll = "SELECT pg_advisory_unlock_all()";
    Read = concat!("SELECT ", columns!("t.payload"), " FROM {t} t WHERE t.id = $1 AND t.bin = $2");
    ReadHead = concat!("SELECT ", columns!("NULL::bytea"), " FROM {t} t WHERE t.id = $1 AND t.bin = $2");
    Holder = concat!(
        "SELECT a.application_name, (extract(epoch FROM clock_timestamp() - a.state_change) * 1000)::bigint
        FROM pg_stat_activity a WHERE a.pid = (SELECT l.pid FROM ", held!(), " LIMIT 1)"
    );
    // Whether the process `$3` has it.
    HeldBy = concat!("SELECT EXISTS (SELECT FROM ", held!(), " AND l.pid = $3)");
    // The next version of the row that the lease has read. No indexed column changes but `due`, and that only for a shorter
    // life: so the new version stays on its page, and no index learns of it. A pooling proxy may have brought us to a
    // process that does not have the lock: then nothing is changed. (That is asked of the row, as a condition on nothing but
    // values costs the server a plan of one step more.)
    Replace = concat!(
        "UPDATE {t} SET payload = $3, version = version + 1, written = $4, writer = $5, ", life!("$2::bigint"), "
        WHERE id = $6 AND bin = $7 AND kind = CASE pg_backend_pid() WHEN $10 THEN 0 END AND version = $8 AND created = $9
        RETURNING ", handed_over!("$11")
    );
    // A new record, where there is none or what may be replaced: an expired one, a spent id, the tombstone `$9`.
    Insert = concat!("INSERT INTO {t} AS t (id, bin, lock, kind, version, created, written, expires, due, ends, writer, mark, payload)
        SELECT $1::text, $2::text, $3::bigint, 0, 1, $4::bigint, $4, $5::bigint, $5, $6::bigint, $7::bigint, 0, $8::bytea
        WHERE pg_backend_pid() = $10
        ON CONFLICT (id, bin) DO UPDATE SET kind = 0, version = 1, created = $4, written = $4, expires = $5, due = $5,
            ends = $6, writer = $7, mark = 0, target = NULL, payload = $8
        WHERE CASE t.kind WHEN 1 THEN t.mark = $9::bigint ELSE t.expires <= $4 END
        RETURNING ", handed_over!("$3"));
    // The same under a lock of its own, for the length of the statement: nobody may hold the id. A tombstone is no obstacle.
    // The lock is given up after the row can be seen.
    Create = "INSERT INTO {t} AS t (id, bin, lock, kind, version, created, written, expires, due, ends, writer, mark, payload)
        SELECT $1::text, $2::text, $3::bigint, 0, 1, $4::bigint, $4, $5::bigint, $5, $6::bigint, $7::bigint, 0, $8::bytea
        WHERE pg_try_advisory_xact_lock($3)
        ON CONFLICT (id, bin) DO UPDATE SET kind = 0, version = 1, created = $4, written = $4, expires = $5, due = $5,
            ends = $6, writer = $7, mark = 0, target = NULL, payload = $8
        WHERE t.kind = 1 OR t.expires <= $4";
    Touch = concat!("UPDATE {t} SET ", life!("(created + $2::bigint)"), "
        WHERE id = $3 AND bin = $4 AND kind = 0 AND expires > $5");
    TouchHeld = concat!("UPDATE {t} SET ", life!("(created + $2::bigint)"), "
        WHERE id = $3 AND bin = $4 AND kind = 0 AND expires > $5 AND version = $6 AND created = $7");
    // A tombstone where there is no row, but a holder who might make one.
    BuryHeld = concat!(
        "INSERT INTO {t} (id, bin, lock, kind, version, created, written, expires, due, writer, mark)
        SELECT $3::text, $4::text, $5::bigint, 1, 0, $6::bigint, $6, $6, $7::bigint, 0, nextval('{f}')
        WHERE EXISTS (SELECT FROM ", held!(), ") ON CONFLICT (id, bin) DO NOTHING"
    );
    // A tombstone in place of the row; says what the row was.
    Bury = "UPDATE {t} t SET kind = 1, version = 0, created = $3, written = $3, expires = $3, ends = NULL, due = $4, writer = 0,
            mark = nextval('{f}'), target = NULL, payload = NULL
        FROM (SELECT number, kind, target, expires FROM {t} WHERE id = $1 AND bin = $2 FOR UPDATE) AS old
        WHERE t.number = old.number RETURNING old.kind, old.target, old.expires";
    // For a regeneration: makes room under the new id, moves the record there, and lets the old id lead to it.
    Clear = "DELETE FROM {t} WHERE id = $1 AND bin = $2 AND (kind = 1 OR expires <= $3)";
    Move = "UPDATE {t} SET id = $1, lock = $2
        WHERE id = $3 AND bin = $4 AND kind = 0 AND version = $5 AND created = $6 AND pg_backend_pid() = $7";
    Lead = "INSERT INTO {t} (id, bin, lock, kind, version, created, written, expires, due, writer, mark, target)
        SELECT $1::text, $2::text, $3::bigint, 2, 0, $4::bigint, $4, $5::bigint, $6::bigint, 0, 0, $7::text
        WHERE EXISTS (SELECT FROM {t} WHERE id = $7 AND bin = $2 AND number = $8)";
    // One batch of a sweep: rows that are due and that no other sweep is at. The living are filed under their true expiry,
    // the leased are left alone, the rest goes.
    Sweep = "WITH batch AS MATERIALIZED (
            SELECT number, due FROM {t} WHERE due <= $1 AND (due, number) > ($2, $3)
            ORDER BY due, number LIMIT $4 FOR UPDATE SKIP LOCKED
        ), held AS MATERIALIZED (
            SELECT (classid::bigint << 32) | objid::bigint AS lock FROM pg_locks
            WHERE locktype = 'advisory' AND granted AND objsubid = 1
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        ), filed AS (
            UPDATE {t} t SET due = t.expires FROM batch b WHERE t.number = b.number AND t.kind = 0 AND t.expires > $1
        ), gone AS (
            DELETE FROM {t} t USING batch b WHERE t.number = b.number AND (t.kind <> 0 OR t.expires <= $1)
                AND NOT EXISTS (SELECT FROM held h WHERE h.lock = t.lock)
            RETURNING t.kind
        )
        SELECT (SELECT count(*) FROM batch), (SELECT count(*) FROM gone WHERE kind = 0), last.due, last.number
        FROM (SELECT) AS always LEFT JOIN (SELECT due, number FROM batch ORDER BY due DESC, number DESC LIMIT 1) AS last ON true";
    Count = "SELECT count(*), max(number), count(*) FILTER (WHERE live), count(*) FILTER (WHERE kind = 0 AND NOT live),
            coalesce(sum(bytes) FILTER (WHERE live), 0)::bigint, min(written) FILTER (WHERE live)
        FROM (SELECT number, kind, written, octet_length(payload) AS bytes, kind = 0 AND expires > $1 AS live
            FROM {t} WHERE number > $2 ORDER BY number LIMIT $3) AS chunk";
    List = "SELECT number, bin, id, kind, version, created, written, expires, octet_length(payload)::bigint
        FROM {t} WHERE number > $1 ORDER BY number LIMIT $2";
}

impl Sql {
    /// Whether it is answered with more than one row.
    pub fn lists(self) -> bool {
        self == Sql::List
    }
}

/// The texts for one store.
pub(super) struct Statements([String; Sql::COUNT]);

impl Statements {
    pub fn new(names: &Names) -> Statements {
        let fences = names.fences.replace('\'', "''"); // it stands in a literal
        Statements(Sql::TEXTS.map(|text| text.replace("{t}", &names.table).replace("{f}", &fences)))
    }

    pub fn text(&self, sql: Sql) -> &str {
        self.0.get(sql.index()).map_or("", String::as_str)
    }
}
