//! One connection to one server: connect, log in, learn since when it runs, send a batch, read its answers.
//!
//! Invariant: a connection on which anything failed is dropped by its owner, because what comes next on it may be the
//! answer to something else. Dropping sends nothing: a child of a fork only closes its own descriptor.

use std::io::{self, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::cas::Generation;
use super::reply::{self, Failure, Reply};
use super::request::Batch;
use crate::connecting::{Address, Login, Timeouts};

/// Answers are small or one large value, for which the buffer is passed by.
const BUFFER_BYTES: usize = 4_096;

pub(super) struct Connection {
    stream: BufReader<Stream>,
    /// Of the server at its other end.
    generation: Generation,
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Connection {
    /// Connects and logs in.
    pub(super) fn open(address: &Address, login: &Login, timeouts: Timeouts) -> Result<Connection, Failure> {
        let stream = Stream::connect(address, timeouts)?;
        stream.set_timeouts(timeouts)?;
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

impl Stream {
    fn connect(address: &Address, timeouts: Timeouts) -> io::Result<Stream> {
        match address {
            Address::Unix(path) => connect_unix(path, timeouts.connect).map(Stream::Unix),
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

/// A connect to a unix socket waits for room in the server's queue, which a server that hangs never makes; and std cannot
/// bound that.
fn connect_unix(path: &Path, longest: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Linux takes the bound for sending for that of the connect, too.
    set_socket_timeout(&socket, Timeout::Send, Some(longest))?;
    retry_on_intr(|| net::connect(&socket, &address))?;
    Ok(socket.into())
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
