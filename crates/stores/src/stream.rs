//! A blocking socket to a server, over TCP or a unix path, every wait of which is bounded.
//!
//! Invariant: dropping it closes this process's descriptor and sends nothing. Not here: what is said on it.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::connecting::Address;

pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    /// Connects; to a host with several addresses to the first one that answers within this time.
    pub fn connect(address: &Address, longest: Duration) -> io::Result<Stream> {
        match address {
            Address::Unix(path) => connect_unix(path, longest).map(Stream::Unix),
            Address::Tcp { host, port } => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, longest) {
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

    /// How long a read or write may wait without a byte moved; after that it fails with `WouldBlock`.
    pub fn set_patience(&self, longest: Duration) -> io::Result<()> {
        self.set_read_patience(longest)?;
        match self {
            Stream::Unix(stream) => stream.set_write_timeout(Some(longest)),
            Stream::Tcp(stream) => stream.set_write_timeout(Some(longest)),
        }
    }

    /// The same for reads alone.
    pub fn set_read_patience(&self, longest: Duration) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_read_timeout(Some(longest)),
            Stream::Tcp(stream) => stream.set_read_timeout(Some(longest)),
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
