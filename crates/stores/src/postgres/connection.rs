//! One connection to the server: statements go out together in one write, and their results come
//! back.
//!
//! Invariants: a connection that failed is never used again; one that may hold what it should have
//! given up serves no other request; dropping one says nothing to the server. Source: PostgreSQL's
//! documentation, "Message Flow", Extended Query and Pipelining.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::{BufMut, BytesMut};
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use postgres_protocol::{IsNull, Oid};

use super::failure::{Attempt, PostgresFailure, unexpected};
use super::names::TableNames;
use super::options::Options;
use super::result::{Row, StatementResult};
use super::statements::Sql;
use super::wire::Wire;
use crate::connections::pool::AttemptFailure;
use crate::connections::tls::Host;
use crate::sql::value::Value;

/// For all values and columns.
const BINARY: [i16; 1] = [1];
/// Texts of this program find one or two rows.
const TEXT_ROWS_MAX: usize = 16;

pub type TextRows = Vec<Vec<Option<Vec<u8>>>>;

pub struct Connection {
    wire: Wire,
    /// The tables of its statements.
    pub names: Arc<TableNames>,
    failed: bool,
    retired: bool,
    prepared: BTreeMap<Sql, Prepared>,
    /// Whether those name the columns of owners.
    prepared_with_owners: bool,
    /// The server's process, by its own account.
    pub backend: i64,
}

struct Prepared {
    name: String,
    columns: Arc<[Oid]>,
}

pub struct Call<'a>(pub Sql, pub &'a [Value<'a>]);

impl Connection {
    /// To one of the servers, whether it takes changes or not.
    pub fn connect(options: &Options, host: &Host, deadline: Instant) -> Attempt<Connection> {
        let mut wire = Wire::connect(host, &options.timeouts, deadline)?;
        wire.log_in(options)?;
        Ok(Connection {
            wire,
            names: Arc::default(),
            failed: false,
            retired: false,
            prepared: BTreeMap::new(),
            prepared_with_owners: false,
            backend: 0,
        })
    }

    pub fn set_deadline(&mut self, deadline: Instant) {
        self.wire.set_deadline(deadline);
    }

    pub fn version(&self) -> u32 {
        self.wire.version
    }

    /// Keeps the connection from other requests: it may hold a lock.
    pub fn retire(&mut self) {
        self.retired = true;
    }

    pub fn is_fit(&self) -> bool {
        !self.failed && !self.retired
    }

    /// Runs one or several statements without values, whose columns are text. One round trip.
    pub fn run_text(&mut self, text: &str) -> Attempt<Vec<Vec<Option<String>>>> {
        let text_of = |column: Vec<u8>| String::from_utf8_lossy(&column).into_owned();
        let rows = self.list_text(text, TEXT_ROWS_MAX)?.into_iter();
        let row = |row: Vec<Option<Vec<u8>>>| row.into_iter().map(|column| column.map(text_of));
        Ok(rows.map(|columns| row(columns).collect()).collect())
    }

    /// Runs a text that finds at most so many rows, whose columns may be text in no encoding.
    pub fn list_text(&mut self, text: &str, rows_max: usize) -> Attempt<TextRows> {
        self.attempt(|Connection { wire, .. }| {
            frontend::query(text, &mut wire.out)?;
            wire.send()?;
            let mut rows = Vec::new();
            wire.until_ready(|message| {
                match message {
                    Message::DataRow(row) if rows.len() < rows_max => {
                        let bytes = |column: Range<usize>| {
                            row.buffer().get(column).unwrap_or_default().to_vec()
                        };
                        let columns = row.ranges().map(|column| Ok(column.map(bytes)));
                        rows.push(columns.collect()?);
                    }
                    Message::RowDescription(_)
                    | Message::CommandComplete(_)
                    | Message::EmptyQueryResponse => {}
                    _ => return Err(unexpected()),
                }
                Ok(())
            })?;
            Ok(rows)
        })
    }

    pub fn run_one(&mut self, sql: Sql, values: &[Value<'_>]) -> Attempt<StatementResult> {
        let [result] = self.run([Call(sql, values)])?;
        Ok(result)
    }

    /// Runs statements in one write and one transaction, under READ COMMITTED: each statement still
    /// sees all that was committed before it began. A refused one takes back what was written and
    /// skips the rest; locks that the session took stay. Those that this connection has not seen
    /// cost one more round trip together.
    pub fn run<const N: usize>(&mut self, calls: [Call<'_>; N]) -> Attempt<[StatementResult; N]> {
        self.attempt(|connection| {
            connection.prepare(&calls)?;
            connection.bind(&calls)?;
            connection.wire.send()?;
            connection.receive(&calls)
        })
    }

    fn attempt<T>(&mut self, run: impl FnOnce(&mut Connection) -> Attempt<T>) -> Attempt<T> {
        if self.failed {
            return Err(PostgresFailure::gone());
        }
        let done = run(self);
        self.failed = done.as_ref().is_err_and(PostgresFailure::breaks_connection);
        done
    }

    /// Statements that name the columns of owners take the place of those that do not.
    fn prepare(&mut self, calls: &[Call<'_>]) -> Attempt<()> {
        let has_owners = self.names.owners.are_there();
        if has_owners != self.prepared_with_owners {
            self.prepared.clear();
            self.prepared_with_owners = has_owners;
        }
        let missing =
            calls.iter().map(|call| call.0).filter(|sql| !self.prepared.contains_key(sql));
        let mut missing: Vec<Sql> = missing.collect();
        missing.sort();
        missing.dedup();
        if missing.is_empty() {
            return Ok(());
        }
        let out = &mut self.wire.out;
        for sql in &missing {
            let name = sql.name(has_owners);
            frontend::parse(&name, &sql.text(&self.names, has_owners), [], out)
                .and_then(|()| frontend::describe(b'S', &name, out))?;
        }
        frontend::sync(out);
        self.wire.send()?;
        let mut missing = missing.into_iter();
        self.wire.until_ready(|message| {
            let columns = match message {
                Message::ParseComplete | Message::ParameterDescription(_) => return Ok(()),
                Message::RowDescription(columns) => {
                    columns.fields().map(|field| Ok(field.type_oid())).collect::<Vec<Oid>>()?
                }
                Message::NoData => Vec::new(),
                _ => return Err(unexpected()),
            };
            let sql = missing.next().ok_or_else(unexpected)?;
            let name = sql.name(has_owners);
            self.prepared.insert(sql, Prepared { name, columns: columns.into() });
            Ok(())
        })
    }

    fn bind(&mut self, calls: &[Call<'_>]) -> Attempt<()> {
        let out = &mut self.wire.out;
        let encode = |value: &Value<'_>, out: &mut BytesMut| {
            match value {
                Value::Null => return Ok(IsNull::Yes),
                Value::Number(number) => out.put_i64(*number),
                Value::Word(word) => out.put_slice(word.as_bytes()),
                Value::Bytes(bytes) => out.put_slice(bytes),
                Value::Owner(digits) => out.put_slice(digits),
            }
            Ok(IsNull::No)
        };
        for Call(sql, values) in calls {
            log::debug!("executing statement {sql:?}");
            let prepared = self.prepared.get(sql).ok_or_else(unexpected)?;
            frontend::bind("", &prepared.name, BINARY, *values, encode, BINARY, out)
                .map_err(|_| PostgresFailure::Client("the values fit no message".to_owned()))?;
            frontend::execute("", 0, out)?;
        }
        frontend::sync(out);
        Ok(())
    }

    fn receive<const N: usize>(&mut self, calls: &[Call<'_>; N]) -> Attempt<[StatementResult; N]> {
        let (mut results, mut done) = (std::array::from_fn(|_| StatementResult::default()), 0);
        self.wire.until_ready(|message| {
            let call = calls.iter().zip(&mut results).nth(done);
            let (Call(sql, _), result) = call.ok_or_else(unexpected)?;
            match message {
                Message::BindComplete => {}
                Message::DataRow(row) if result.rows.is_empty() || sql.lists() => {
                    let prepared = self.prepared.get(sql).ok_or_else(unexpected)?;
                    result.rows.push(Row::new(row, &prepared.columns)?);
                }
                Message::CommandComplete(tag) => {
                    result.count = count(tag.tag()?);
                    done += 1;
                }
                _ => return Err(unexpected()),
            }
            Ok(())
        })?;
        if done == N { Ok(results) } else { Err(unexpected()) }
    }
}

/// The last word of `UPDATE 1`, `INSERT 0 1`, `SELECT 1`; 0 for a statement that counts nothing.
fn count(tag: &str) -> u64 {
    tag.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}
