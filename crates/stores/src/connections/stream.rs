//! A blocking socket to a server, over TCP or a unix path. Every wait is bounded.
//!
//! Invariant: dropping it closes this process's descriptor and sends nothing.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{self, AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use crate::connections::options::Address;

pub struct Stream(OwnedFd);

impl Stream {
    /// Connects; of several addresses, to the first that answers within this time.
    pub fn connect(address: &Address, longest: Duration) -> io::Result<Stream> {
        let (host, port) = match address {
            Address::Unix(path) => return connect_unix(path, longest).map(Stream),
            Address::Tcp { host, port } => (host.as_str(), *port),
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, longest) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Stream(stream.into()));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// How long a read or write may wait for a byte before it fails with `WouldBlock`.
    pub fn set_patience(&self, longest: Duration) -> io::Result<()> {
        self.set_read_patience(longest)?;
        Ok(set_socket_timeout(&self.0, Timeout::Send, Some(longest))?)
    }

    pub fn set_read_patience(&self, longest: Duration) -> io::Result<()> {
        Ok(set_socket_timeout(&self.0, Timeout::Recv, Some(longest))?)
    }
}

/// A connect to a unix socket waits for room in the server's queue, which a hanging server never
/// makes. std cannot bound that.
fn connect_unix(path: &Path, longest: Duration) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let socket =
        net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Linux uses the send timeout for the connect too.
    set_socket_timeout(&socket, Timeout::Send, Some(longest))?;
    retry_on_intr(|| net::connect(&socket, &address))?;
    Ok(socket)
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.0, buffer)?)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A server that has gone is an error, and no signal.
        Ok(net::send(&self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
