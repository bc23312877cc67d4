//! One connection to one server: connect, log in, send a batch, read its answers.
//!
//! Invariant: a connection on which anything failed is dropped by its owner, because what comes next on it may be the
//! answer to something else. Dropping sends nothing: a child of a fork only closes its own descriptor.

use std::io::{self, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;

use super::reply::{self, Failure, Reply};
use super::request::Batch;
use crate::connecting::{Address, Login, Timeouts};

/// Answers are small or one large value, for which the buffer is passed by.
const BUFFER_BYTES: usize = 4_096;

pub(super) struct Connection(BufReader<Stream>);

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Connection {
    /// Connects and logs in.
    pub(super) fn open(address: &Address, login: &Login, timeouts: Timeouts) -> Result<Connection, Failure> {
        let stream = Stream::connect(address, timeouts)?;
        stream.set_timeouts(timeouts)?;
        let mut connection = Connection(BufReader::with_capacity(BUFFER_BYTES, stream));
        if let Some(password) = &login.password {
            connection.log_in(login.user.as_deref().unwrap_or(""), password)?;
        }
        Ok(connection)
    }

    /// Sends a batch in one write and reads its answers.
    pub(super) fn run(&mut self, batch: &Batch) -> Result<Vec<Reply>, Failure> {
        self.0.get_mut().write_all(batch.bytes())?;
        (0..batch.commands()).map(|_| reply::read(&mut self.0)).collect()
    }

    /// `stats` or `stats settings`.
    pub(super) fn stats(&mut self, command: &str) -> Result<Vec<(String, String)>, Failure> {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
        reply::read_stats(&mut self.0)
    }

    /// The text protocol has one way to log in: the first command is a `set`, of whatever key, with user and password.
    ///
    /// A server that wants no login takes it for an ordinary `set`. So what is stored has expired when it arrives: nobody
    /// can read the password, and the key is one that no application uses.
    fn log_in(&mut self, user: &str, password: &str) -> Result<(), Failure> {
        let secret = format!("{user} {password}");
        let command = format!("set sessile:login 0 -1 {}\r\n{secret}\r\n", secret.len());
        self.0.get_mut().write_all(command.as_bytes())?;
        match reply::read(&mut self.0)? {
            Reply::Done(_) => Ok(()),
            _ => Err(Failure::Denied),
        }
    }
}

impl Stream {
    fn connect(address: &Address, timeouts: Timeouts) -> io::Result<Stream> {
        match address {
            // A connect to a unix socket waits only for room in the server's queue.
            Address::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
            Address::Tcp { host, port } => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, timeouts.connect) {
                        Ok(stream) => {
                            stream.set_nodelay(true)?;
                            return Ok(Stream::Tcp(stream));
                        }
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    fn set_timeouts(&self, timeouts: Timeouts) -> io::Result<()> {
        let longest = Some(timeouts.response);
        match self {
            Stream::Unix(stream) => stream.set_read_timeout(longest).and_then(|()| stream.set_write_timeout(longest)),
            Stream::Tcp(stream) => stream.set_read_timeout(longest).and_then(|()| stream.set_write_timeout(longest)),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
