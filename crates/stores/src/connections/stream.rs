//! A blocking socket to a server, over TCP or a unix path. Every wait ends at a deadline, however
//! often a byte arrives or a signal interrupts.
//!
//! A socket has a time for one read and one for one write, which cost a system call to set. They
//! are set when a wait could pass the deadline: on a connection in use that is never, because what
//! is left at the beginning of an answer is nearly always the same.
//!
//! A stream tells the breaker what happens until its first byte arrives, and of time-outs
//! (`breaker.rs`).
//!
//! Invariant: dropping it closes this process's descriptor and sends nothing.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{self, AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use super::breaker::{self, Place, Watch};
use super::options::{Address, Timeouts};
use super::resolve::resolve;

/// How far a wait may pass the deadline.
const EXCESS_MAX: Duration = Duration::from_millis(50);

pub struct Stream {
    socket: OwnedFd,
    read_time: SocketTime,
    write_time: SocketTime,
    deadline: Instant,
    /// Until the first byte.
    watch: Option<Watch>,
    place: Place,
    /// When something was sent last, and how long the silence after it may be.
    sent: Instant,
    patience: Duration,
}

impl Stream {
    /// Connects; of several addresses, to the first that answers.
    pub fn connect(
        address: &Address,
        timeouts: &Timeouts,
        deadline: Instant,
    ) -> io::Result<Stream> {
        let patience = timeouts.connect;
        let (socket, watch, place) = match address {
            Address::Unix(path) => connect_at(Place::Unix(path.clone()), patience, deadline)?,
            Address::Tcp { host, port } => connect_tcp(host, *port, patience, deadline)?,
        };
        let sent = Instant::now();
        let (read_time, write_time) =
            (SocketTime::new(Timeout::Recv), SocketTime::new(Timeout::Send));
        let watch = Some(watch);
        Ok(Stream { socket, read_time, write_time, deadline, watch, place, sent, patience })
    }

    /// Whether it has to show soon that its server is back.
    pub fn is_probe(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.probe_ends.is_some())
    }

    /// Of the next read or write.
    fn end(&self) -> Instant {
        let probe_ends = self.watch.as_ref().and_then(|watch| watch.probe_ends);
        probe_ends.map_or(self.deadline, |end| end.min(self.deadline))
    }

    /// From now on reads and writes end at this time with the error `TimedOut`.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }
}

/// How long the calls of one kind may wait, as the socket was told last.
struct SocketTime {
    kind: Timeout,
    set: Duration,
}

impl SocketTime {
    /// Of a new socket, which waits for ever.
    fn new(kind: Timeout) -> SocketTime {
        SocketTime { kind, set: Duration::MAX }
    }

    /// Calls until the deadline: again when a signal or an earlier time of the socket ended a wait.
    fn call_until<T>(
        &mut self,
        deadline: Instant,
        socket: &OwnedFd,
        mut call: impl FnMut() -> rustix::io::Result<T>,
    ) -> io::Result<T> {
        let mut again = false;
        loop {
            let left = left(deadline)?;
            if again || self.set > left + EXCESS_MAX {
                set_socket_timeout(socket, self.kind, Some(left))?;
                self.set = left;
            }
            match call() {
                Err(Errno::AGAIN | Errno::INTR) => again = true,
                done => return Ok(done?),
            }
        }
    }
}

/// `TimedOut` when nothing is left.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

type Connected = (OwnedFd, Watch, Place);

fn connect_tcp(
    host: &str,
    port: u16,
    longest: Duration,
    deadline: Instant,
) -> io::Result<Connected> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let mut outages = Vec::new();
    for address in resolve(host, port, left(deadline)?)? {
        match connect_at(Place::Tcp(address), longest, deadline) {
            Ok(connected) => return Ok(connected),
            Err(error) => last = error,
        }
        outages.push(breaker::outage());
    }
    breaker::set_outage_of_all(outages);
    Err(last)
}

/// To a server that is not known to be out of order, or to see whether it still is.
fn connect_at(place: Place, longest: Duration, deadline: Instant) -> io::Result<Connected> {
    let mut watch = Watch::admit(place.clone(), longest, deadline)?;
    let end = deadline.min(watch.probe_ends.unwrap_or_else(|| Instant::now() + longest));
    let connected = match &place {
        Place::Unix(path) => connect_unix(path, end),
        Place::Tcp(address) => left(end).and_then(|left| {
            let stream = TcpStream::connect_timeout(address, left)?;
            stream.set_nodelay(true)?;
            Ok(stream.into())
        }),
    };
    match connected {
        Ok(socket) => Ok((socket, watch, place)),
        Err(error) => Err(watch.failed(error, false)),
    }
}

/// A connect to a unix socket waits for room in the server's queue, which a hanging server never
/// makes. std cannot bound that; Linux uses the time of writes for it.
fn connect_unix(path: &Path, deadline: Instant) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let socket =
        net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let mut time = SocketTime::new(Timeout::Send);
    time.call_until(deadline, &socket, || net::connect(&socket, &address))?;
    Ok(socket)
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = self.end();
        let Stream { socket, read_time, watch, .. } = self;
        let read = read_time.call_until(end, socket, || rustix::io::read(&*socket, &mut *buffer));
        match (read, watch.take()) {
            (Ok(read @ 1..), Some(first)) => {
                first.heard();
                Ok(read)
            }
            (Err(error), Some(mut first)) => Err(first.failed(error, true)),
            (Err(error), None)
                if error.kind() == io::ErrorKind::TimedOut
                    && self.sent.elapsed() >= self.patience.mul_f32(0.9) =>
            {
                breaker::stalled(&self.place, self.sent);
                Err(error)
            }
            (read, _) => read,
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.end();
        let Stream { socket, write_time, .. } = self;
        self.sent = Instant::now();
        // A server that has gone is an error, and no signal.
        write_time.call_until(end, socket, || net::send(&*socket, bytes, SendFlags::NOSIGNAL))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
