//! `mysql:`, sessions in one table of a MySQL or MariaDB database, for one or many web servers.
//!
//! One locked request is two round trips: `begin` takes a named lock of the server and reads the
//! row, `commit` writes the row and gives the lock up. Each is one statement, prepared when a
//! connection is used again and again, else one message of two
//! (`docs/decisions/0013-one-prepared-statement-each.md`). No transaction is open while the
//! application works. Waiters sleep on the server, in order of arrival. A lock belongs to the
//! connection that took it, so each lease has a connection to itself.
//!
//! Invariants:
//!
//! * the record is read after the lock was taken, or under a row lock that lasts until it is; and
//!   by a read that waits for a commit which has given its lock up and has not ended;
//! * a commit changes only the row that its lease has read (same version and creation), or creates
//!   one where there is still none and no tombstone: a lost lock costs a refused commit and never
//!   an update;
//! * `due` of a row is never later than the moment from which a sweep may remove it.
//!
//! Table, server settings and the operator's side: `crates/stores/design/mysql.md`.

mod begin;
mod commit;
mod connection;
mod create;
mod destroy;
pub mod facts;
pub mod failure;
mod lock;
mod locks_held;
mod login;
pub mod options;
mod public_key;
mod regenerate;
mod role;
pub mod row;
mod schema;
mod server;
mod statement;
mod statements;
mod sweep;
mod transaction;
pub mod wire;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use sessile_core::{
    Bin, Budget, Capabilities, Clock, Cursor, Error, ErrorKind, Filter, Found, Head, HeldLock, Key,
    Listed, Owner, OwnerChange, Page, Result, Sessions, Stat, Store, Stored, Swept, Ttl,
    follow_regenerated, read_aliases,
};

use self::connection::{Connection, unexpected};
use self::failure::{Attempt, MysqlFailure};
use self::lock::{Held, IS_READ_ONLY, LockNames};
use self::options::Options;
use self::row::Row;
use self::statement::Message;
use self::statements::{LISTED_TARGET, Statements};
use crate::connections::doubt::change;
use crate::connections::pool::{AttemptFailure, Pool, PooledConnection};
use crate::registry::{self, Context, Fixture, StoreEntry};
use crate::sql::list::{Chunk, listed, page, stat};
use crate::sql::owner_columns::OwnerColumns;
use crate::sql::row::{Columns, key};
use crate::sql::sweep::SweptTo;
use crate::sql::value::{Value, key_values};
use crate::sql::{ON_A_SERVER, touch};
use crate::store_url::StoreUrl;

pub const ENTRY: StoreEntry = StoreEntry {
    name: "mysql",
    schemes: &["mysql", "mariadb", "mysql+unix"],
    sentence: "A table in MySQL or MariaDB: one or several web servers, the database that is there \
               anyway",
    capabilities: CAPABILITIES,
    decorates: false,
    options: options::HELP,
    server: Some(&server::SERVER),
    fixtures: &[Fixture { variant: "default", url: "mysql+unix:{socket}?user=root&database=test" }],
    open,
    exists,
    drop: Err("end the processes that use it, then drop its table"),
};

const CAPABILITIES: Capabilities = Capabilities {
    server: Some("mariadbd"),
    value_bytes_max: (1 << 30) - 1_024, // the most that max_allowed_packet can be
    ..ON_A_SERVER
};

fn open(url: &StoreUrl, context: &Context) -> Result<Sessions> {
    let options = Options::parse(url)?;
    let label = url.redacted();
    let table = format!("`{}`", options.table);
    let now = context.clock.now();
    let of_several = options.hosts.failover().is_some();
    let mut store = Mysql {
        clock: context.clock.clone(),
        locks: LockNames::new(&options.database, &options.table),
        statements: [false, true]
            .map(|has_owners| Statements::new(&table, has_owners, &lock::fence(of_several))),
        owners: OwnerColumns::default(),
        pool: Pool::new(options),
        swept_to: SweptTo::default(),
        payload_bytes_max: 0,
    };
    (store.owners, store.payload_bytes_max) =
        store.pool.with(store.pool.deadline(Duration::ZERO), |connection| {
            let has_owners = schema::create_or_check(connection, &store.pool.settings)?;
            schema::warn(connection, &label, &store.pool.settings)?;
            let owners = OwnerColumns::new(has_owners, now);
            Ok((owners, connection.facts.payload_bytes_max))
        })?;
    Ok(Sessions::new(label, store, registry::limits(url)?))
}

fn exists(url: &StoreUrl) -> Result<bool> {
    let options = Options::parse(url)?;
    // Some servers have all names in lower case.
    let find = "SELECT 1 FROM information_schema.TABLES
        WHERE TABLE_SCHEMA = DATABASE() AND LOWER(TABLE_NAME) = LOWER(?)";
    let deadline = Instant::now() + options.timeouts.response;
    Ok(Connection::open(&options, deadline)?.row(find, &[Value::Word(&options.table)])?.is_some())
}

struct Mysql {
    clock: Clock,
    locks: LockNames,
    /// Those for a table from before owners, and the others.
    statements: [Statements; 2],
    owners: OwnerColumns,
    pool: Pool<Connection>,
    swept_to: SweptTo<sweep::Position>,
    /// What the server took when the store was opened. Each connection looks again.
    payload_bytes_max: u64,
}

impl Mysql {
    /// Those that fit the table, as it was when it was last looked at.
    fn statements(&self) -> &Statements {
        let [before, present] = &self.statements;
        if self.owners.are_there() { present } else { before }
    }

    /// Whether the table has owners, which it may have got since it was opened.
    fn has_owners(&self) -> bool {
        self.owners.look(
            || self.clock.now(),
            || {
                self.pool.with(self.pool.deadline(Duration::ZERO), |connection| {
                    schema::has_owners(connection, &self.pool.settings.table)
                })
            },
        );
        self.owners.are_there()
    }

    /// Reads. Of several servers, from one that still takes changes: a primary that was demoted
    /// knows nothing of the sessions of its successor.
    fn select(
        &self,
        connection: &mut Connection,
        statement: &str,
        values: &[Value<'_>],
    ) -> Attempt<Vec<Row>> {
        if self.pool.settings.hosts.failover().is_none() {
            return Ok(connection.run(&Message::of(statement, values))?.rows());
        }
        let look = format!("SELECT {IS_READ_ONLY}");
        let message = Message::of(&look, &[]).then(statement, values);
        let mut results = connection.run(&message)?;
        let rows = results.rows();
        let read_only = results.row().ok_or_else(unexpected)?.integer(0)? != Some(0);
        if read_only { Err(MysqlFailure::demoted()) } else { Ok(rows) }
    }

    /// For an operation on a lease that begins now. `Stale` in a forked child.
    fn resume(&self, held: &mut Held) -> Result<()> {
        held.connection.check_owner()?;
        held.connection.set_deadline(self.pool.deadline(Duration::ZERO).of_answer(Duration::ZERO));
        Ok(())
    }

    /// The failure of a change of a lease. On a server that has become read-only nothing was made,
    /// and the lock stays behind with it.
    fn lease_failure(&self, failure: MysqlFailure) -> Error {
        self.pool.note(&failure);
        let was_refused = failure.is_demotion() && !failure.leaves_doubt();
        if self.pool.settings.hosts.failover().is_some() && was_refused {
            return lock::left_behind().source(Error::from(failure));
        }
        failure.into()
    }

    fn next_rows(
        &self,
        after: Option<&Cursor>,
        (bin, owner): (Option<&Bin>, Option<Owner>),
        most: usize,
    ) -> Result<Chunk> {
        let after = after.map(Key::try_from).transpose()?;
        let (mut conditions, mut values) = (vec!["1"], Vec::new());
        if let Some(bin) = bin {
            conditions.push("bin = ?");
            values.push(Value::Word(bin.name()));
        }
        if let Some(owner) = owner {
            conditions.push("owner = ?");
            values.push(owner.into());
        }
        if let Some(key) = &after {
            // Once more in a form in which every server finds the place in the index.
            conditions.push("bin >= ? AND (bin > ? OR id > ?)");
            let [bin, id] = key_values(key);
            values.extend([bin, bin, id]);
        }
        values.push((most as u64).into());
        let statement = format!(
            "{} FORCE INDEX ({}) WHERE {} ORDER BY bin, id LIMIT ?",
            self.statements().list,
            // The rows of one owner lie in the order of the primary key.
            if owner.is_some() { "owner" } else { "PRIMARY" },
            conditions.join(" AND ")
        );
        self.pool.with(self.pool.deadline(Duration::ZERO), |connection| {
            // A log-out everywhere must see the log-in that another node has acknowledged.
            if owner.is_some() && after.is_none() {
                role::catch_up(connection)?;
            }
            let rows = self.select(connection, &statement, &values)?;
            let last = rows.iter().rev().find_map(|row| key(row, 0).ok());
            let last = last.as_ref().map(Cursor::from);
            let records = rows.iter().map(|row| match target(row) {
                Some(target) if owner.is_some() => Ok(self.behind(connection, target)?),
                _ => Ok(listed(row)),
            });
            Ok(Chunk { records: records.collect::<Attempt<_>>()?, last })
        })
    }

    /// The session that a regenerated id leads to, also after its grace.
    fn behind(&self, connection: &mut Connection, start: Key) -> Attempt<Result<Option<Listed>>> {
        let find = format!("{} WHERE bin = ? AND id = ?", self.statements().list);
        let mut failed = None;
        let found = follow_regenerated(start, |key| {
            let row = match self.select(connection, &find, &key_values(key)) {
                Ok(rows) => rows.into_iter().next()?,
                Err(failure) => {
                    failed = Some(failure);
                    return None;
                }
            };
            let end = || ControlFlow::Break(listed(&row));
            Some(target(&row).map_or_else(end, ControlFlow::Continue))
        });
        failed.map_or(Ok(found.unwrap_or(Ok(None))), Err)
    }
}

/// Where a listed row leads, if it is a regenerated id.
fn target(row: &Row) -> Option<Key> {
    let target = row.text(LISTED_TARGET).ok()??;
    key(row, 0).ok()?.sibling(target.as_bytes()).ok()
}

impl Store for Mysql {
    type Held = Held;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            value_bytes_max: CAPABILITIES.value_bytes_max.min(self.payload_bytes_max),
            owners: self.has_owners(),
            ..CAPABILITIES
        }
    }

    fn begin(&self, key: &Key, wait_max: Duration) -> Result<(Held, u64, Found)> {
        self.has_owners();
        begin::begin(self, key, wait_max)
    }

    fn peek(&self, asked: &Key) -> Result<Found> {
        self.pool.with(self.pool.deadline(Duration::ZERO), |connection| {
            read_aliases(asked, &self.clock, |key| {
                let rows = self.select(connection, &self.statements().select, &key_values(key))?;
                Ok(row::decode(rows.into_iter().next(), 0, 10, key)?)
            })
        })
    }

    fn create(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        change(|| create::create(self, key, payload, ttl))
    }

    fn commit(&self, mut held: Held, payload: &[u8], ttl: Ttl, owner: OwnerChange) -> Result<()> {
        self.resume(&mut held)?;
        let saved = (payload, ttl, owner);
        commit::commit(&mut held, self.statements(), saved, self.clock.now())
            .map_err(|failure| self.lease_failure(failure))?;
        self.pool.give_back(held.connection);
        Ok(())
    }

    fn touch(&self, key: &Key, ttl: Ttl) -> Result<()> {
        self.pool.with(self.pool.deadline(Duration::ZERO), |connection| {
            touch(key, &self.clock, |key, now| {
                row::touch(connection, self.statements(), key, None, (ttl, now))
            })
        })
    }

    fn touch_held(&self, held: &mut Held, ttl: Ttl) -> Result<()> {
        self.resume(held)?;
        let Held { key, stored, begun, connection, .. } = held;
        let (now, statements) = (self.clock.now(), self.statements());
        let there = match stored.live(*begun) {
            None => row::read_head(connection, statements, key)?,
            Some(head) => match row::touch(connection, statements, key, Some(&head), (ttl, now))
                .map_err(|failure| self.lease_failure(failure))?
            {
                Some(there) => there,
                None => {
                    // The statement of the common commit names the absolute end that it expects.
                    let (_, ends) = ttl.deadline(now, head.created, head.ends);
                    *stored = Stored::Live(Head { ends, ..head });
                    return Ok(());
                }
            },
        };
        stored.check_lease(&there, *begun, now)?;
        Err(ErrorKind::Gone.into())
    }

    fn release(&self, mut held: Held) -> Result<()> {
        // If it fails, the connection closes with the lease, which frees the lock.
        if self.resume(&mut held).is_ok() && lock::release(&mut held.connection, &held.lock).is_ok()
        {
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
        let moved = regenerate::regenerate(self, held, new, grace);
        moved.map_err(|failure| self.lease_failure(failure))
    }

    fn sweep(&self, budget: Budget) -> Result<Swept> {
        sweep::sweep(self, budget)
    }

    fn stat(&self) -> Result<Stat> {
        stat(self.clock.now(), |after, most| self.next_rows(after, (None, None), most))
    }

    fn locks(&self, limit: usize) -> Result<Vec<HeldLock>> {
        let options = &self.pool.settings;
        let mut connection = Connection::open(options, Instant::now() + options.timeouts.response)?;
        locks_held::locks_held(&mut connection, (options, &self.locks), &self.clock, limit)
    }

    fn list(&self, cursor: Option<&Cursor>, filter: &Filter) -> Result<Page> {
        let rows =
            self.next_rows(cursor, (filter.bin.as_ref(), filter.owner), filter.entries_max)?;
        Ok(page(filter, self.clock.now(), rows))
    }
}
