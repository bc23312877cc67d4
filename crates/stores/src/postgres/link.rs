//! One connection to the server: statements go out together in one write, and their answers come back.
//!
//! The client crate splits a connection into a handle that queues requests and a future that moves bytes. Both are polled
//! here, on the thread of the caller and while it waits: there is no runtime and no background thread that a fork could
//! lose.
//!
//! Invariants: a link that failed is never used again (`usable` says so); dropping one only closes this process's
//! descriptor, as the future that would say good-bye to the server is not polled any more. In a child that leaves the
//! parent's connection alone; in its owner the server sees the end of the stream and frees what the session held.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::failure::{Failure, Tried};
use super::options::Options;
use super::socket::Socket;
use super::statements::{Sql, Statements};

type Driver = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send>>;
type Driven<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A connection, and the statements that it has prepared.
pub(super) struct Link {
    client: Client,
    /// `None` once the connection has ended.
    driver: Option<Driver>,
    socket: Socket,
    prepared: [Option<Statement>; Sql::COUNT],
    /// The server's, as 150000 for 15.
    pub version: u32,
    /// The process that serves us, by its own account.
    pub backend: i32,
}

/// A statement with its values.
pub(super) struct Call<'a>(pub Sql, pub &'a [&'a (dyn ToSql + Sync)]);

/// What a statement answered.
pub(super) struct Answer {
    pub rows: Vec<Row>,
    /// Rows changed or found.
    pub count: u64,
}

impl Answer {
    /// Its only row, if there is one.
    pub fn row(&self) -> Option<&Row> {
        self.rows.first()
    }
}

/// Wakes nobody: it notes that somebody must be polled again.
#[derive(Default)]
struct Noted(AtomicBool);

impl Wake for Noted {
    fn wake(self: Arc<Noted>) {
        // Relaxed: it is set and looked at by one thread.
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Link {
    /// Connects and logs in; nothing has been said to the session yet.
    pub fn connect(options: &Options) -> Tried<Link> {
        let socket = Socket::connect(&options.address, options.timeouts.connect)?;
        let patience = options.timeouts.response;
        let login = options.login_of_this_process();
        let (client, driver, version): (Client, Driver, u32) = match options.tls()? {
            None => {
                let connecting = login.connect_raw(socket.clone(), tokio_postgres::NoTls);
                let (client, connection) = alone(&socket, patience, connecting)??;
                let version = version(connection.parameter("server_version"));
                (client, Box::pin(connection), version)
            }
            Some(tls) => {
                let connecting = login.connect_raw(socket.clone(), tls);
                let (client, connection) = alone(&socket, patience, connecting)??;
                let version = version(connection.parameter("server_version"));
                (client, Box::pin(connection), version)
            }
        };
        let prepared = [const { None }; Sql::COUNT];
        Ok(Link { client, driver: Some(driver), socket, prepared, version, backend: 0 })
    }

    /// Whether it can be used again.
    pub fn usable(&self) -> bool {
        self.driver.is_some() && !self.client.is_closed()
    }

    /// Runs text that takes no values; the columns come back as text. One round trip, several statements if need be.
    pub fn run_text(&mut self, text: &str, patience: Duration) -> Tried<Vec<Vec<Option<String>>>> {
        let Link { client, driver, socket, .. } = self;
        let answers = drive(driver, socket, patience, client.simple_query(text))??;
        let rows = answers.into_iter().filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect())
            }
            _ => None,
        });
        Ok(rows.collect())
    }

    /// Runs statements in one write, in their order; each that is not between a BEGIN and a COMMIT is a transaction of its
    /// own, so that a failed one does not keep the next from running. A statement that this connection has not seen costs
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
        self.prepare(statements, &calls, patience)?;
        let Link { client, driver, socket, prepared, .. } = self;
        let client = &*client;
        let mut requests: Vec<Driven<'_, _>> = Vec::with_capacity(N);
        for Call(sql, values) in calls {
            let Some(Some(statement)) = prepared.get(sql.index()) else { return Err(Failure::unprepared()) };
            requests.push(Box::pin(ask(client, statement, values)));
        }
        let answers = drive(driver, socket, patience, all(requests))?;
        let answers: Vec<Tried<Answer>> = answers.into_iter().map(|answer| answer.map_err(Failure::from)).collect();
        answers.try_into().map_err(|_| Failure::unprepared())
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

    fn prepare(&mut self, statements: &Statements, calls: &[Call<'_>], patience: Duration) -> Tried<()> {
        let missing = |sql: &Sql| self.prepared.get(sql.index()).is_some_and(Option::is_none);
        let missing: Vec<Sql> = calls.iter().map(|call| call.0).filter(missing).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let Link { client, driver, socket, prepared, .. } = self;
        let client = &*client;
        let request = |sql: &Sql| -> Driven<'_, _> { Box::pin(client.prepare(statements.text(*sql))) };
        let answers = drive(driver, socket, patience, all(missing.iter().map(request).collect()))?;
        for (sql, answer) in missing.iter().zip(answers) {
            if let Some(slot) = prepared.get_mut(sql.index()) {
                *slot = Some(answer?);
            }
        }
        Ok(())
    }
}

/// `15.14 (Debian 15.14-1)` as 150000; 0 when it is not said.
fn version(text: Option<&str>) -> u32 {
    let major = text.and_then(|text| text.split(|c: char| !c.is_ascii_digit()).next());
    major.and_then(|major| major.parse::<u32>().ok()).map_or(0, |major| major.saturating_mul(10_000))
}

async fn ask(
    client: &Client,
    statement: &Statement,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Answer, tokio_postgres::Error> {
    let mut stream = pin!(client.query_raw(statement, values.iter().copied()).await?);
    let mut rows = Vec::new();
    while let Some(row) = poll_fn(|context| futures_core::Stream::poll_next(stream.as_mut(), context)).await {
        rows.push(row?);
    }
    Ok(Answer { rows, count: stream.rows_affected().unwrap_or(0) })
}

/// Waits for all of them. Polled in order, so that the first polls queue the requests in order.
async fn all<T>(mut requests: Vec<Driven<'_, T>>) -> Vec<T> {
    let mut answers: Vec<Option<T>> = requests.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut complete = true;
        for (request, answer) in requests.iter_mut().zip(&mut answers).filter(|(_, answer)| answer.is_none()) {
            match request.as_mut().poll(context) {
                Poll::Ready(done) => *answer = Some(done),
                Poll::Pending => complete = false,
            }
        }
        if complete { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers.into_iter().flatten().collect()
}

/// Polls a future that moves its own bytes.
fn alone<T>(socket: &Socket, patience: Duration, future: impl Future<Output = T>) -> Tried<T> {
    let noted = Arc::new(Noted::default());
    let waker = Waker::from(Arc::clone(&noted));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        noted.0.store(false, Ordering::Relaxed);
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Ok(value);
        }
        if !noted.0.load(Ordering::Relaxed) {
            socket.wait(patience)?;
        }
    }
}

/// Polls a request and the driver that moves its bytes, and sleeps when neither can go on. After a failure the driver is
/// gone.
fn drive<T>(
    driver: &mut Option<Driver>,
    socket: &Socket,
    patience: Duration,
    request: impl Future<Output = T>,
) -> Tried<T> {
    let mut request = pin!(request);
    let polled = poll_fn(|context| {
        if let Poll::Ready(value) = request.as_mut().poll(context) {
            return Poll::Ready(Ok(value));
        }
        let ended = match driver.as_mut().map(|driver| driver.as_mut().poll(context)) {
            None => Err(Failure::gone()),
            Some(Poll::Ready(ended)) => ended.map_err(Failure::from).and(Err(Failure::gone())),
            Some(Poll::Pending) => return Poll::Pending,
        };
        // With the driver goes the other end of what the request waits for: it says what it has got, or that it is over.
        *driver = None;
        match request.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Ok(value)),
            Poll::Pending => Poll::Ready(ended),
        }
    });
    let answer = alone(socket, patience, polled).and_then(|answer| answer);
    if answer.is_err() {
        *driver = None;
    }
    answer
}
