//! One connection to the server: statements go out together in one write, and their answers come back.
//!
//! Invariants: a link on which anything failed is never used again, and one that may hold what it should have given up not
//! by anybody else (`usable` says so); dropping one says nothing to the server. Source: PostgreSQL's documentation, "Message
//! Flow", Extended Query and Pipelining.

use std::sync::Arc;
use std::time::Duration;

use fallible_iterator::FallibleIterator;
use postgres_protocol::IsNull;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend::{self, BindError};
use postgres_types::{ToSql, Type};

use super::answer::{Answer, Row};
use super::failure::{Failure, Tried};
use super::options::Options;
use super::statements::{Sql, Statements};
use super::wire::Wire;

/// Binary, for all values and columns.
const BINARY: [i16; 1] = [1];
/// What a text is answered with at most; ours are with one or two.
const TEXT_ROWS_MAX: usize = 16;

/// Rows of columns, a NULL or bytes each.
pub(super) type TextRows = Vec<Vec<Option<Vec<u8>>>>;

/// A connection, and the statements that it has prepared.
pub(super) struct Link {
    wire: Wire,
    failed: bool,
    retired: bool,
    prepared: [Option<Prepared>; Sql::COUNT],
    /// The process that serves us, by its own account.
    pub backend: i32,
}

/// A statement as the server understood it.
struct Prepared {
    name: String,
    values: Vec<Type>,
    columns: Arc<[Type]>,
}

/// A statement with its values.
pub(super) struct Call<'a>(pub Sql, pub &'a [&'a (dyn ToSql + Sync)]);

/// Where the transactions end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// After each statement.
    Each,
    /// After the last one. The server says nothing before that, so whoever waits is woken once.
    Last,
}

impl Link {
    /// Connects and logs in; nothing has been said to the session yet.
    pub fn connect(options: &Options) -> Tried<Link> {
        let mut wire = Wire::connect(options)?;
        wire.log_in(options)?;
        Ok(Link { wire, failed: false, retired: false, prepared: [const { None }; Sql::COUNT], backend: 0 })
    }

    /// The server's version, as 150000 for 15.
    pub fn version(&self) -> u32 {
        self.wire.version
    }

    /// Whether others can use it.
    pub fn usable(&self) -> bool {
        !self.failed && !self.retired
    }

    /// The server did not say that it has given up a lock: it goes when whoever has it is done, and what it holds with it.
    pub fn retire(&mut self) {
        self.retired = true;
    }

    /// Runs text that takes no values; the columns come back as text. One round trip, several statements if need be.
    pub fn run_text(&mut self, text: &str, patience: Duration) -> Tried<Vec<Vec<Option<String>>>> {
        let text_of = |column: Vec<u8>| String::from_utf8_lossy(&column).into_owned();
        let rows = self.list_text(text, TEXT_ROWS_MAX, patience)?;
        Ok(rows.into_iter().map(|row| row.into_iter().map(|column| column.map(text_of)).collect()).collect())
    }

    /// The same for more rows, at most so many, and columns that may be text in no encoding.
    pub fn list_text(&mut self, text: &str, most: usize, patience: Duration) -> Tried<TextRows> {
        let said = self.say_text(text, most, patience);
        self.failed |= said.is_err();
        said?
    }

    /// Runs statements in one write, in their order; each is a transaction of its own, so that a failed one does not keep the
    /// next from running. A statement that this connection has not seen costs
    /// one more round trip, for all such of the call.
    ///
    /// # Errors
    ///
    /// Outside: the connection failed, and what was carried out is not known. Inside: the server refused one.
    pub fn run<const N: usize>(
        &mut self,
        statements: &Statements,
        calls: [Call<'_>; N],
        patience: Duration,
    ) -> Tried<[Tried<Answer>; N]> {
        self.ask(statements, calls, patience, Ends::Each)
    }

    /// The same in one transaction, under READ COMMITTED: each statement still sees all that was committed before it began.
    /// What follows one that the server refused is not run, and what was written is taken back; locks that the session took
    /// stay with it.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn run_as_one<const N: usize>(
        &mut self,
        statements: &Statements,
        calls: [Call<'_>; N],
        patience: Duration,
    ) -> Tried<[Tried<Answer>; N]> {
        self.ask(statements, calls, patience, Ends::Last)
    }

    /// The same with one statement.
    pub fn run_one(
        &mut self,
        statements: &Statements,
        sql: Sql,
        values: &[&(dyn ToSql + Sync)],
        patience: Duration,
    ) -> Tried<Answer> {
        let [answer] = self.run(statements, [Call(sql, values)], patience)?;
        answer
    }

    fn ask<const N: usize>(
        &mut self,
        statements: &Statements,
        calls: [Call<'_>; N],
        patience: Duration,
        ends: Ends,
    ) -> Tried<[Tried<Answer>; N]> {
        if self.failed {
            return Err(Failure::gone());
        }
        self.prepare(statements, &calls, patience)?;
        let answered = self.send(&calls, patience, ends).and_then(|()| self.receive(&calls, ends));
        self.failed |= answered.is_err();
        answered
    }

    fn prepared(&self, sql: Sql) -> Tried<&Prepared> {
        self.prepared.get(sql.index()).and_then(Option::as_ref).ok_or_else(Failure::unprepared)
    }

    fn send(&mut self, calls: &[Call<'_>], patience: Duration, ends: Ends) -> Tried<()> {
        for (number, Call(sql, values)) in calls.iter().enumerate() {
            log::debug!("executing statement {sql:?}");
            let prepared = self.prepared.get(sql.index()).and_then(Option::as_ref).ok_or_else(Failure::unprepared)?;
            if prepared.values.len() != values.len() {
                return Err(Failure::unprepared());
            }
            let values = values.iter().zip(&prepared.values);
            let value = |(value, kind): (&&(dyn ToSql + Sync), &Type), out: &mut bytes::BytesMut| {
                Ok(match value.to_sql_checked(kind, out)? {
                    postgres_types::IsNull::Yes => IsNull::Yes,
                    postgres_types::IsNull::No => IsNull::No,
                })
            };
            let out = &mut self.wire.out;
            frontend::bind("", &prepared.name, BINARY, values, value, BINARY, out).map_err(not_encoded)?;
            frontend::execute("", 0, out).map_err(Failure::garbled)?;
            if ends == Ends::Each || number + 1 == calls.len() {
                frontend::sync(out);
            }
        }
        self.wire.send(patience)
    }

    fn receive<const N: usize>(&mut self, calls: &[Call<'_>; N], ends: Ends) -> Tried<[Tried<Answer>; N]> {
        let mut answers: Vec<Tried<Answer>> = Vec::with_capacity(N);
        let mut answer = Answer::default();
        let each = ends == Ends::Each;
        let (mut left, mut done) = (if each { N } else { 1 }, false);
        while left > 0 {
            let message = match self.wire.next() {
                Ok(message) => message,
                // The server says why it ends the session, and then ends it.
                Err(ended) => match answers.pop() {
                    Some(Err(why)) if why.breaks_connection() => return Err(why),
                    _ => return Err(ended),
                },
            };
            match message {
                Message::BindComplete => {}
                Message::DataRow(row) => {
                    let Call(sql, _) = calls.get(answers.len()).ok_or_else(Failure::unexpected)?;
                    if !answer.rows.is_empty() && !sql.lists() {
                        return Err(Failure::unexpected());
                    }
                    answer.rows.push(Row::new(row, &self.prepared(*sql)?.columns)?);
                }
                Message::CommandComplete(_) if answers.len() == N => return Err(Failure::unexpected()),
                Message::CommandComplete(tag) => {
                    answer.count = count(tag.tag().map_err(Failure::garbled)?);
                    answers.push(Ok(std::mem::take(&mut answer)));
                    done = each || answers.len() == N;
                }
                Message::ErrorResponse(refusal) => {
                    answer = Answer::default();
                    if done {
                        answers.pop(); // all were run, and then the transaction could not end
                    }
                    answers.push(Err(Failure::said(&refusal)));
                }
                Message::ReadyForQuery(_) => (left, done) = (left - 1, false),
                _ => return Err(Failure::unexpected()),
            }
        }
        let skipped = N.checked_sub(answers.len()).ok_or_else(Failure::unexpected)?;
        answers.extend(std::iter::repeat_with(|| Err(Failure::skipped())).take(skipped));
        answers.try_into().map_err(|_| Failure::unexpected())
    }

    fn say_text(&mut self, text: &str, most: usize, patience: Duration) -> Tried<Tried<TextRows>> {
        frontend::query(text, &mut self.wire.out).map_err(Failure::garbled)?;
        self.wire.send(patience)?;
        let (mut rows, mut refused) = (Vec::new(), None);
        loop {
            match self.wire.next()? {
                Message::DataRow(_) if rows.len() == most => return Err(Failure::unexpected()),
                Message::DataRow(row) => {
                    let bytes = |column: std::ops::Range<usize>| row.buffer().get(column).unwrap_or_default().to_vec();
                    rows.push(row.ranges().map(|column| Ok(column.map(bytes))).collect().map_err(Failure::garbled)?);
                }
                Message::RowDescription(_) | Message::CommandComplete(_) | Message::EmptyQueryResponse => {}
                Message::ErrorResponse(refusal) => refused = Some(Failure::said(&refusal)),
                Message::ReadyForQuery(_) => return Ok(refused.map_or(Ok(rows), Err)),
                _ => return Err(Failure::unexpected()),
            }
        }
    }

    fn prepare(&mut self, statements: &Statements, calls: &[Call<'_>], patience: Duration) -> Tried<()> {
        let missing = |sql: &Sql| self.prepared.get(sql.index()).is_some_and(Option::is_none);
        let mut missing: Vec<Sql> = calls.iter().map(|call| call.0).filter(missing).collect();
        missing.sort_by_key(|sql| sql.index());
        missing.dedup();
        if missing.is_empty() {
            return Ok(());
        }
        let prepared = self.prepare_all(statements, &missing, patience);
        self.failed |= prepared.is_err();
        prepared?
    }

    /// Stops at the first that the server refuses.
    fn prepare_all(&mut self, statements: &Statements, missing: &[Sql], patience: Duration) -> Tried<Tried<()>> {
        for sql in missing {
            let (name, out) = (name(*sql), &mut self.wire.out);
            frontend::parse(&name, statements.text(*sql), [], out).map_err(Failure::garbled)?;
            frontend::describe(b'S', &name, out).map_err(Failure::garbled)?;
        }
        frontend::sync(&mut self.wire.out);
        self.wire.send(patience)?;
        let (mut missing, mut values, mut refused) = (missing.iter(), Vec::new(), None);
        loop {
            let columns = match self.wire.next()? {
                Message::ParseComplete => continue,
                Message::ParameterDescription(kinds) => {
                    values = kinds.parameters().map(|kind| Ok(known(kind))).collect().map_err(Failure::garbled)?;
                    continue;
                }
                Message::RowDescription(columns) => {
                    let kinds: Vec<Type> = columns
                        .fields()
                        .map(|field| Ok(known(field.type_oid())))
                        .collect()
                        .map_err(Failure::garbled)?;
                    kinds
                }
                Message::NoData => Vec::new(),
                Message::ErrorResponse(refusal) => {
                    refused = Some(Failure::said(&refusal));
                    continue;
                }
                Message::ReadyForQuery(_) => return Ok(refused.map_or(Ok(()), Err)),
                _ => return Err(Failure::unexpected()),
            };
            let sql = missing.next().ok_or_else(Failure::unexpected)?;
            if let Some(slot) = self.prepared.get_mut(sql.index()) {
                let values = std::mem::take(&mut values);
                *slot = Some(Prepared { name: name(*sql), values, columns: columns.into() });
            }
        }
    }
}

/// What a statement is called on the server.
fn name(sql: Sql) -> String {
    format!("sessile_{}", sql.index())
}

/// Types that we do not use come out as unknown, which no value is of.
fn known(kind: u32) -> Type {
    Type::from_oid(kind).unwrap_or(Type::UNKNOWN)
}

/// The last word of `UPDATE 1`, `INSERT 0 1`, `SELECT 1`; 0 for what counts nothing.
fn count(tag: &str) -> u64 {
    tag.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn not_encoded(error: BindError) -> Failure {
    match error {
        BindError::Conversion(_) => Failure::unprepared(),
        BindError::Serialization(error) => Failure::garbled(error),
    }
}
