//! A simulated network in front of a private server: a socket that forwards all bytes after a
//! delay, in order.
//!
//! Most servers are on another machine, 0.1 to 1 ms away. On a unix socket a round trip costs
//! almost nothing, which hides the difference between two trips and four.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::prctl;
use sessile_fixtures::PrivateDir;

use crate::monotonic::now_ns;

/// Bytes of one read: more than a socket buffers.
const PIECE_BYTES: usize = 256 << 10;

/// The delayed way to the socket of one server. Dropping it stops accepting; connections end with
/// either side.
pub(crate) struct DelayedNetwork {
    // Before the directory: its end is told at the socket.
    _accepting: Accepting,
    socket: PathBuf,
    dir: PrivateDir,
}

/// The same behind a port of loopback, as servers need it that name their hosts to their clients.
pub(crate) struct DelayedPort {
    port: u16,
    _accepting: Accepting,
}

struct Accepting {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Makes a connection, so that the thread looks whether it has ended.
    wake: Box<dyn Fn() -> bool + Send + Sync>,
}

struct DelayedChunk {
    arrives_ns: u64,
    bytes: Vec<u8>,
}

impl DelayedNetwork {
    pub fn before(server: &Path, round_trip: Duration) -> io::Result<DelayedNetwork> {
        let dir = PrivateDir::in_shared_memory()?;
        // Same name: some clients recognise the kind of server by it.
        let socket = dir.path().join(server.file_name().unwrap_or("socket".as_ref()));
        let listener = UnixListener::bind(&socket)?;
        let (woken, next) = (socket.clone(), move || Ok(listener.accept()?.0));
        let wake = Box::new(move || UnixStream::connect(&woken).is_ok());
        let accepting = Accepting::start(server, round_trip, next, wake);
        Ok(DelayedNetwork { _accepting: accepting, socket, dir })
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

impl DelayedPort {
    pub fn before(server: &Path, round_trip: Duration) -> io::Result<DelayedPort> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let next = move || {
            let (client, _) = listener.accept()?;
            let _ = client.set_nodelay(true); // one that is gone must not end the way
            // The calls that are made are the same for every connected socket.
            Ok(UnixStream::from(OwnedFd::from(client)))
        };
        let wake = Box::new(move || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Ok(DelayedPort { port, _accepting: Accepting::start(server, round_trip, next, wake) })
    }

    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl Accepting {
    fn start(
        server: &Path,
        round_trip: Duration,
        next: impl Fn() -> io::Result<UnixStream> + Send + 'static,
        wake: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> Accepting {
        let ended = Arc::new(AtomicBool::new(false));
        let one_way_ns = u64::try_from(round_trip.as_nanos() / 2).unwrap_or(u64::MAX);
        let (server, end) = (server.to_owned(), ended.clone());
        let thread = std::thread::spawn(move || {
            while let Ok(client) = next() {
                // Relaxed: the flag publishes nothing else.
                if end.load(Ordering::Relaxed) {
                    return;
                }
                let server = server.clone();
                std::thread::spawn(move || {
                    // Connecting takes a round trip.
                    std::thread::sleep(Duration::from_nanos(one_way_ns.saturating_mul(2)));
                    // A connection that fails here is closed, and the client reports it.
                    let _ = UnixStream::connect(&server)
                        .and_then(|server| join(&client, &server, one_way_ns));
                });
            }
        });
        Accepting { ended, thread: Some(thread), wake }
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if (self.wake)()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join(); // it cannot panic
        }
    }
}

fn join(client: &UnixStream, server: &UnixStream, one_way_ns: u64) -> io::Result<()> {
    for (from, to) in [(client, server), (server, client)] {
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        let (sender, receiver) = channel();
        std::thread::spawn(move || send(from, &sender, one_way_ns));
        std::thread::spawn(move || deliver(to, &receiver));
    }
    Ok(())
}

fn send(mut from: UnixStream, way: &Sender<DelayedChunk>, one_way_ns: u64) {
    let mut buffer = vec![0; PIECE_BYTES];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let arrives_ns = now_ns() + one_way_ns;
        let bytes = buffer.get(..count).unwrap_or_default().to_vec();
        if way.send(DelayedChunk { arrives_ns, bytes }).is_err() {
            break;
        }
    }
    // Later writes fail instead of waiting for a reader.
    let _ = from.shutdown(Shutdown::Read);
}

fn deliver(mut to: UnixStream, way: &Receiver<DelayedChunk>) {
    let _ = prctl::set_timerslack(1); // sleeps end when they should
    while let Ok(piece) = way.recv() {
        // Sleeps without spinning: many of these threads would take the processors from the
        // workers.
        std::thread::sleep(Duration::from_nanos(piece.arrives_ns.saturating_sub(now_ns())));
        if to.write_all(&piece.bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Answers each byte with its successor until the client goes.
    fn server(socket: &Path) -> JoinHandle<()> {
        let listener = UnixListener::bind(socket).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = [0; 1_000];
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                bytes[..count].iter_mut().for_each(|byte| *byte += 1);
                stream.write_all(&bytes[..count]).unwrap();
            }
        })
    }

    #[test]
    fn a_round_trip_takes_its_time_and_pieces_that_follow_each_other_take_it_once() {
        // Five pieces, one after the other, would take 400 ms each time; a busy machine does not.
        let times: Vec<Duration> = (0..6)
            .map(|_| time_of_five())
            .take_while(|took| *took >= Duration::from_millis(190))
            .collect();
        assert!(times.len() < 6, "{times:?}");
    }

    fn time_of_five() -> Duration {
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().join("there");
        let server = server(&there);
        let network = DelayedNetwork::before(&there, Duration::from_millis(40)).unwrap();
        let mut client = UnixStream::connect(network.socket()).unwrap();
        let start = Instant::now();
        for byte in 0..5 {
            client.write_all(&[byte]).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut answer = [0; 5];
        client.read_exact(&mut answer).unwrap();
        let took = start.elapsed();
        assert_eq!(answer, [1, 2, 3, 4, 5]);
        assert!(took >= Duration::from_millis(80), "to connect, to ask, to answer: {took:?}");
        drop(client);
        server.join().unwrap(); // the server learns that the client has gone
        drop(network); // would not return otherwise
        took
    }
}
