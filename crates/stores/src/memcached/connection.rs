//! One connection to one server: connect, log in, learn since when it runs, send commands, read
//! their answers.
//!
//! Invariant: a connection on which anything failed is dropped by its owner, because what comes
//! next on it may be the answer to something else. Dropping sends nothing: a child of a fork only
//! closes its own descriptor.

use std::io::{BufReader, Write};
use std::time::{Duration, Instant};

use sessile_core::{Error, Timestamp};

use super::failure::translate;
use super::options::Endpoint;
use super::reply::{self, Failure, Generation, Reply, Statistics};
use super::request::Commands;
use crate::connections::options::Timeouts;
use crate::connections::pool::PooledConnection;
use crate::connections::stream::Stream;

/// Answers are small or one large value, for which the buffer is passed by.
const BUFFER_BYTES: usize = 4_096;

/// How far the time that the server tells lies back at most: it counts seconds, once in a second.
const TICK: Duration = Duration::from_secs(2);

pub struct Connection {
    stream: BufReader<Stream>,
    generation: Generation,
    /// The server's time when the connection was opened.
    opened: (Timestamp, Instant),
}

impl PooledConnection for Connection {
    type Settings = Endpoint;
    type Failure = Failure;

    fn timeouts(server: &Endpoint) -> Timeouts {
        server.timeouts
    }

    fn open(server: &Endpoint, deadline: Instant) -> Result<Connection, Failure> {
        let stream = Stream::connect(&server.address, &server.timeouts, deadline)?;
        let stream = BufReader::with_capacity(BUFFER_BYTES, stream);
        let opened = (Timestamp::ZERO, Instant::now());
        let mut connection = Connection { stream, generation: Generation::default(), opened };
        if let Some(password) = &server.login.password {
            connection.log_in(server.login.user.as_deref().unwrap_or(""), password)?;
        }
        let told = generation_and_time(&connection.stats("stats")?);
        let (generation, time) =
            told.ok_or(Failure::Garbled("it does not say since when it runs"))?;
        Ok(Connection { generation, opened: (time, Instant::now()), ..connection })
    }

    fn set_deadline(&mut self, deadline: Instant) {
        self.stream.get_mut().set_deadline(deadline);
    }

    fn is_reusable(&self) -> bool {
        true
    }

    fn translate(server: &Endpoint, failure: Failure) -> Error {
        translate(failure, &server.name)
    }
}

fn generation_and_time(stats: &Statistics) -> Option<(Generation, Timestamp)> {
    let number = |name| stats.get(name)?.parse::<u64>().ok();
    let time_s = number("time")?;
    let started_s = time_s.checked_sub(number("uptime")?)?;
    let generation = Generation { pid: number("pid")?, started_s };
    Some((generation, Timestamp::from_ms(time_s.saturating_mul(1_000))))
}

impl Connection {
    /// Our time, if it can be the server's, too; otherwise the nearest time that can be.
    pub fn time(&self, ours: Timestamp) -> Timestamp {
        let (told, at) = self.opened;
        let earliest = told.plus(at.elapsed());
        ours.clamp(earliest, earliest.plus(TICK))
    }

    /// Sends commands in one write and reads their answers. An item whose CAS number is from before
    /// a restart of the server counts as missing, without asking.
    pub fn run(&mut self, commands: &Commands) -> Result<Vec<Reply>, Failure> {
        self.stream.get_mut().write_all(&commands.bytes(self.generation))?;
        let sent = commands.are_sent(self.generation);
        sent.map(|sent| if sent { self.answer() } else { Ok(Reply::Missing) }).collect()
    }

    fn answer(&mut self) -> Result<Reply, Failure> {
        let mut reply = reply::read(&mut self.stream)?;
        if let Reply::Done(item) = &mut reply {
            item.cas.generation = self.generation;
        }
        Ok(reply)
    }

    pub fn stats(&mut self, command: &str) -> Result<Statistics, Failure> {
        self.stream.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
        reply::read_stats(&mut self.stream)
    }

    /// For an answer that this module does not know.
    pub fn into_stream(self) -> BufReader<Stream> {
        self.stream
    }

    /// The text protocol has one way to log in: the first command is a `set`, of any key, with user
    /// and password. A server without logins stores that. So the item has expired when it arrives,
    /// under a key that no application uses: nobody can read the password.
    fn log_in(&mut self, user: &str, password: &str) -> Result<(), Failure> {
        let secret = format!("{user} {password}");
        let command = format!("set sessile:login 0 -1 {}\r\n{secret}\r\n", secret.len());
        self.stream.get_mut().write_all(command.as_bytes())?;
        match reply::read(&mut self.stream)? {
            Reply::Done(_) => Ok(()),
            _ => Err(Failure::Denied),
        }
    }
}
