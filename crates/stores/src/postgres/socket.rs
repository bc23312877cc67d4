//! A socket to the server that one thread at a time waits on, without a runtime.
//!
//! The client crate is written for runtimes. Theirs wait with epoll, and an epoll descriptor is shared over a fork: a child
//! that closes what it inherited would take the parent's sockets out of the parent's own set. So this is the least that
//! the crate needs instead: a socket that never blocks, and `poll(2)` for whoever waits.
//!
//! Invariant: dropping it closes this process's descriptor and sends nothing.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connecting::Address;

/// Longest wait of one `poll(2)`, so that its argument cannot overflow.
const STEP_MAX: Duration = Duration::from_secs(3_600);

/// Clones share the socket: the client crate has one, whoever waits another.
#[derive(Clone)]
pub(super) struct Socket(Arc<Shared>);

struct Shared {
    stream: Stream,
    /// Nothing says that a read would find nothing. Saves the read that only learns that.
    perhaps_readable: AtomicBool,
    /// A write found no room.
    wants_room: AtomicBool,
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    /// Connects to the first address of the host that answers.
    pub fn connect(address: &Address, timeout: Duration) -> io::Result<Socket> {
        let stream = match address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                Stream::Unix(stream)
            }
            Address::Tcp { host, port } => {
                let stream = connect_tcp(host, *port, timeout)?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Stream::Tcp(stream)
            }
        };
        // Relaxed, here and below: one thread at a time uses the socket, and who hands it over synchronises.
        let shared = Shared { stream, perhaps_readable: AtomicBool::new(true), wants_room: AtomicBool::new(false) };
        Ok(Socket(Arc::new(shared)))
    }

    /// Sleeps until what the client crate was refused can be had.
    ///
    /// # Errors
    ///
    /// `TimedOut` when nothing moved for the whole of `patience`.
    pub fn wait(&self, patience: Duration) -> io::Result<()> {
        let room = self.0.wants_room.swap(false, Ordering::Relaxed);
        let wanted = if room { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let timeout = Timespec::try_from(patience.min(STEP_MAX)).map_err(io::Error::other)?;
        let mut sockets = [PollFd::from_borrowed_fd(self.0.stream.as_fd(), wanted)];
        match poll(&mut sockets, Some(&timeout)) {
            Ok(0) => Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => {
                self.0.perhaps_readable.store(true, Ordering::Relaxed);
                Ok(())
            }
            // A signal: the caller polls once more in vain and waits again.
            Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

fn connect_tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&mut &*stream).read(buffer),
            Stream::Tcp(stream) => (&mut &*stream).read(buffer),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&mut &*stream).write(bytes),
            Stream::Tcp(stream) => (&mut &*stream).write(bytes),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let shared = &self.0;
        if !shared.perhaps_readable.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        let room = buffer.initialize_unfilled();
        let length = room.len();
        loop {
            match shared.stream.read(room) {
                Ok(count) => {
                    // Less than there was room for, and more than the end: the socket is empty for now.
                    shared.perhaps_readable.store(count == length || count == 0, Ordering::Relaxed);
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    shared.perhaps_readable.store(false, Ordering::Relaxed);
                    return Poll::Pending;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.0.stream.write(bytes) {
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.0.wants_room.store(true, Ordering::Relaxed);
                    return Poll::Pending;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
