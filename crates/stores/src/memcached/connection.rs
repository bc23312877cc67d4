//! One connection to one server: connect, log in, learn since when it runs, send a batch, read its answers.
//!
//! Invariant: a connection on which anything failed is dropped by its owner, because what comes next on it may be the
//! answer to something else. Dropping sends nothing: a child of a fork only closes its own descriptor.

use std::io::{BufReader, Write};

use super::cas::Generation;
use super::reply::{self, Failure, Reply};
use super::request::Batch;
use crate::connecting::{Address, Login, Timeouts};
use crate::stream::Stream;

/// Answers are small or one large value, for which the buffer is passed by.
const BUFFER_BYTES: usize = 4_096;

pub(super) struct Connection {
    stream: BufReader<Stream>,
    /// Of the server at its other end.
    generation: Generation,
}

impl Connection {
    /// Connects and logs in.
    pub(super) fn open(address: &Address, login: &Login, timeouts: Timeouts) -> Result<Connection, Failure> {
        let stream = Stream::connect(address, timeouts.connect)?;
        stream.set_patience(timeouts.response)?;
        let stream = BufReader::with_capacity(BUFFER_BYTES, stream);
        let mut connection = Connection { stream, generation: Generation::default() };
        if let Some(password) = &login.password {
            connection.log_in(login.user.as_deref().unwrap_or(""), password)?;
        }
        let generation = Generation::of(&connection.stats("stats")?);
        connection.generation = generation.ok_or(Failure::Garbled("it does not say since when it runs"))?;
        Ok(connection)
    }

    /// Sends a batch in one write and reads its answers. Of an item whose CAS number is from before the server was
    /// restarted the answer is, without asking, that it is not there.
    pub(super) fn run(&mut self, batch: &Batch) -> Result<Vec<Reply>, Failure> {
        self.stream.get_mut().write_all(&batch.bytes(self.generation))?;
        batch.suiting(self.generation).map(|suits| if suits { self.answer() } else { Ok(Reply::Missing) }).collect()
    }

    fn answer(&mut self) -> Result<Reply, Failure> {
        let mut reply = reply::read(&mut self.stream)?;
        if let Reply::Done(item) = &mut reply {
            item.cas.generation = self.generation;
        }
        Ok(reply)
    }

    /// `stats` or `stats settings`.
    pub(super) fn stats(&mut self, command: &str) -> Result<Vec<(String, String)>, Failure> {
        self.stream.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
        reply::read_stats(&mut self.stream)
    }

    /// What is left of it for an answer that this module does not know.
    pub(super) fn into_stream(self) -> BufReader<Stream> {
        self.stream
    }

    /// The text protocol has one way to log in: the first command is a `set`, of whatever key, with user and password.
    ///
    /// A server that wants no login takes it for an ordinary `set`. So what is stored has expired when it arrives: nobody
    /// can read the password, and the key is one that no application uses.
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
