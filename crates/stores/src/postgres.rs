//! `postgres:`, sessions in a table on a PostgreSQL server, for one or many web servers.
//!
//! One locked request is two round trips: the first takes an advisory lock of the server and reads
//! the row, the second changes the row and gives the lock up. No transaction is open in between.
//! The server queues waiters, wakes them, and frees the locks of a lost connection. Layout,
//! settings and the operator's side: `crates/stores/design/postgres.md`.
//!
//! Invariants:
//!
//! * the row is read by a statement that began after the lock was granted;
//! * a commit changes only the row that its lease has read (same id, version and creation), or
//!   creates one where there is still none and no tombstone;
//! * a lock is free only when what was written under it can be seen;
//! * `due` of a row is never later than the moment from which a sweep may remove it.

mod begin;
mod commit;
pub mod connection;
mod destroy;
pub mod facts;
pub mod failure;
mod lock;
mod locks_held;
mod login;
mod names;
pub mod options;
mod regenerate;
mod result;
mod row;
mod schema;
mod server;
mod statements;
mod wire;

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sessile_core::{
    Budget, Capabilities, Clock, Cursor, ErrorKind, Filter, Found, Head, HeldLock, Key, Owner,
    OwnerChange, Page, Result, Sessions, Stat, Store, Swept, Ttl, read_aliases,
};

use self::connection::Connection;
use self::failure::PostgresFailure;
use self::lock::{Held, Lease};
use self::options::Options;
use self::schema::Settings;
use self::statements::Sql;
use crate::connections::breaker;
use crate::connections::deadline::Deadline;
use crate::connections::doubt::change;
use crate::connections::pool::{AttemptFailure, Pool};
use crate::connections::retry::{RETRY_FOR, retry};
use crate::registry::{self, Context, Fixture, StoreEntry};
use crate::sql::list::{Chunk, after_row, listed, page, row_of, stat};
use crate::sql::row::{Columns, unsigned};
use crate::sql::sweep::{SweptBatch, SweptTo, sweep};
use crate::sql::value::{Value, key_values};
use crate::sql::{ON_A_SERVER, random_mark, touch};
use crate::store_url::StoreUrl;

pub const ENTRY: StoreEntry = StoreEntry {
    name: "postgres",
    schemes: &["postgres", "postgresql", "postgres+unix"],
    sentence: "A table on a PostgreSQL server: one or several web servers, beside the shop's own \
               data",
    capabilities: CAPABILITIES,
    decorates: false,
    options: options::HELP,
    server: Some(&server::SERVER),
    fixtures: &[Fixture {
        variant: "default",
        url: "postgres+unix:{socket}?user=postgres&database=postgres",
    }],
    open,
    exists,
    drop: Err(
        "end the processes that use it, then drop its table and those that begin with its name",
    ),
};

const CAPABILITIES: Capabilities = Capabilities {
    server: Some("postgres"),
    value_bytes_max: (1 << 30) - 4_096, // a message has at most 1 GB, the other columns included
    ..ON_A_SERVER
};

/// Rows of one batch of a sweep, which is one statement.
const SWEPT_ROWS: u64 = 100;

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    let options = Options::parse(url)?;
    let deadline = Deadline::new(Duration::ZERO, options.timeouts.response);
    let end = deadline.of_answer(Duration::ZERO);
    let connect = || schema::create_or_check(&options, end, context.clock.now());
    let failover = options.hosts.failover();
    let may_pass = |failure: &PostgresFailure| {
        let passes = failure.is_transient() || failover.is_some() && failure.is_demotion();
        passes && breaker::outage().is_none_or(|outage| outage <= failover.unwrap_or_default())
    };
    let first = retry(deadline, failover.unwrap_or(RETRY_FOR), may_pass, connect)?;
    // To bring an old table up to date may have taken longer than the rest.
    let end = Instant::now() + options.timeouts.response;
    refuse_pooled_transactions(&options, &first, end)?;
    let pool = Pool::new(Settings { options, names: Arc::clone(&first.names) });
    pool.give_back(first);
    let store = Postgres { clock: context.clock.clone(), pool, swept_to: SweptTo::default() };
    Ok(Sessions::new(url.redacted(), store, registry::limits(url)?))
}

/// Refuses a proxy that hands out sessions for a transaction at a time: it serves two connections
/// by one process of the server. Locks would be taken in one session and given up in another.
fn refuse_pooled_transactions(
    options: &Options,
    first: &Connection,
    deadline: Instant,
) -> Result<()> {
    let backend = schema::connect(options, deadline).map(|(second, _)| second.backend);
    // A server without a second connection to spare is no proxy; each begin checks again.
    if backend.is_ok_and(|backend| backend == first.backend) {
        return Err(lock::pooled_by_transaction());
    }
    Ok(())
}

fn exists(url: &StoreUrl) -> Result<bool> {
    let options = Options::parse(url)?;
    let find = format!(
        "SELECT 1 FROM pg_catalog.pg_class WHERE relkind IN ('r', 'p') AND relname = '{}'",
        options.table // a word, as the options demand
    );
    let deadline = Instant::now() + options.timeouts.response;
    let (mut connection, _) = schema::connect(&options, deadline)?;
    Ok(!connection.run_text(&find)?.is_empty())
}

struct Postgres {
    clock: Clock,
    pool: Pool<Connection>,
    swept_to: SweptTo<(i64, i64)>,
}

impl Postgres {
    /// For an operation on a lease that begins now. `Stale` in a forked child.
    fn resume(&self, held: &mut Held) -> Result<Deadline> {
        held.lease.check_owner()?;
        let deadline = self.pool.deadline(Duration::ZERO);
        held.connection.set_deadline(deadline.of_answer(Duration::ZERO));
        Ok(deadline)
    }

    /// Whether the table has owners, which it may have got since it was opened.
    fn has_owners(&self) -> bool {
        let names = &self.pool.settings.names;
        names.owners.look(
            || self.clock.now(),
            || {
                self.pool.with(self.pool.deadline(Duration::ZERO), |connection| {
                    schema::has_owners(connection, names)
                })
            },
        );
        names.owners.are_there()
    }

    fn next_rows(
        &self,
        after: Option<&Cursor>,
        most: usize,
        owner: Option<Owner>,
    ) -> Result<Chunk> {
        let mut values = vec![row_of(after)?.into(), (most as u64).into()];
        values.extend(owner.map(Value::from));
        let sql = if owner.is_some() { Sql::ListOwned } else { Sql::List };
        let found = self.pool.with(self.pool.deadline(Duration::ZERO), |connection| {
            connection.run_one(sql, &values)
        })?;
        let last = found.rows.last().map(|row| row.integer(9)).transpose()?.flatten();
        Ok(Chunk { records: found.rows.iter().map(listed).collect(), last: last.map(after_row) })
    }
}

impl Store for Postgres {
    type Held = Held;

    fn capabilities(&self) -> Capabilities {
        Capabilities { owners: self.has_owners(), ..CAPABILITIES }
    }

    fn begin(&self, key: &Key, wait_max: Duration) -> Result<(Held, u64, Found)> {
        self.has_owners();
        begin::begin(self, key, wait_max)
    }

    fn peek(&self, asked: &Key) -> Result<Found> {
        self.pool.with(self.pool.deadline(Duration::ZERO), |connection| {
            read_aliases(asked, &self.clock, |key| {
                let read = connection.run_one(Sql::Read, &key_values(key))?;
                let (row, payload) = row::decode(&read, key)?;
                Ok((row.stored, payload))
            })
        })
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        let (writer, again) = (random_mark()?, Cell::new(false));
        let attempt = |connection: &mut Connection| {
            let head = Head::next(None, ttl, self.clock.now());
            let ([bin, id], lock) = (key_values(key), connection.names.lock_of(key));
            let values = [
                bin,
                id,
                lock.into(),
                head.written.into(),
                head.expires.into(),
                head.ends.into(),
                writer.into(),
                Value::Bytes(payload),
                head.created.into(),
            ];
            let again = again.replace(true);
            if connection.run_one(Sql::Create, &values)?.count == 1 {
                return Ok(());
            }
            // The answer to an earlier attempt may have been lost.
            if again && row::read_head(connection, key)?.writer == writer {
                return Ok(());
            }
            Err(ErrorKind::Exists.into())
        };
        change(|| self.pool.with(self.pool.deadline(Duration::ZERO), attempt))
    }

    fn commit(&self, held: Held, payload: &[u8], ttl: Ttl, owner: OwnerChange) -> Result<()> {
        commit::commit(self, held, (payload, ttl, owner))
    }

    fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
        self.pool.with(self.pool.deadline(Duration::ZERO), |connection| {
            touch(key, &self.clock, |key, now| row::touch(connection, key, None, ttl, now))
        })
    }

    fn touch_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        let Lease { key, stored, begun, .. } = &held.lease;
        held.lease.check_owner()?;
        let now = self.clock.now();
        // On another connection than the lease's: the time of its last statement tells others since
        // when the lock is held.
        let there =
            self.pool.with(self.pool.deadline(Duration::ZERO), |connection| {
                match stored.live(*begun) {
                    Some(head) => row::touch(connection, key, Some(head), ttl, now),
                    None => Ok(Some(row::read_head(connection, key)?.stored)),
                }
            })?;
        let Some(there) = there else { return Ok(()) };
        stored.check_lease(&there, *begun, now)?;
        Err(ErrorKind::Gone.into())
    }

    fn release(&self, mut held: Held) -> Result<()> {
        // A child only drops it: that closes the child's descriptor, and the parent keeps its lock.
        if self.resume(&mut held).is_ok() {
            lock::unlock(&mut held.connection, held.lease.lock);
            self.pool.give_back(held.connection);
        }
        Ok(())
    }

    fn destroy(&self, key: &Key) -> Result<()> {
        destroy::destroy(self, key)
    }

    fn destroy_owned(&self, key: &Key, owner: Owner) -> Result<bool> {
        destroy::destroy_owned(self, key, owner)
    }

    fn regenerate(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        regenerate::regenerate(self, held, new, grace)
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        sweep(&self.swept_to, budget, SWEPT_ROWS, |after, most| {
            let (due, number) = after.copied().unwrap_or((i64::MIN, i64::MIN));
            let values = [self.clock.now().into(), due.into(), number.into(), most.into()];
            // Sent twice it does no harm, but does not count what the first one removed.
            self.pool.with(self.pool.deadline(Duration::ZERO), |connection| {
                let swept = connection.run_one(Sql::Sweep, &values)?;
                let row = swept.row()?;
                let last = row.integer(2)?.zip(row.integer(3)?);
                Ok(SweptBatch { examined: unsigned(row, 0)?, removed: unsigned(row, 1)?, last })
            })
        })
    }

    fn stat(&self) -> Result<Stat> {
        stat(self.clock.now(), |after, most| self.next_rows(after, most, None))
    }

    fn locks(&self, limit: usize) -> Result<Vec<HeldLock>> {
        locks_held::locks_held(&self.pool.settings, &self.clock, limit)
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let rows = self.next_rows(cursor, filter.entries_max, filter.owner)?;
        Ok(page(filter, self.clock.now(), rows))
    }
}
