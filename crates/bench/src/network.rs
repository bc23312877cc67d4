//! A network before a private server: a socket that hands everything on a while later, in order, both ways.
//!
//! In most places the server is another machine, a round trip of a tenth of a millisecond up to one away. On a unix socket
//! a round trip costs next to nothing, and who needs four of them looks as good as who needs two.

use std::io::{self, Read, Write};
use std::net::Shutdown;
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

/// What is read at a time: more than a socket holds.
const PIECE_BYTES: usize = 256 << 10;

/// The way to one server. It goes when this is dropped; connections go with either of their ends.
pub(crate) struct Network {
    socket: PathBuf,
    dir: PrivateDir,
    ended: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

/// Bytes, and when they arrive.
struct Piece {
    arrives_ns: u64,
    bytes: Vec<u8>,
}

impl Network {
    /// Before the server that listens at this socket.
    pub fn before(server: &Path, round_trip: Duration) -> io::Result<Network> {
        let dir = PrivateDir::in_shared_memory()?;
        // By the same name: for some clients it says which kind of server it is.
        let socket = dir.path().join(server.file_name().unwrap_or("socket".as_ref()));
        let listener = UnixListener::bind(&socket)?;
        let ended = Arc::new(AtomicBool::new(false));
        let one_way_ns = u64::try_from(round_trip.as_nanos() / 2).unwrap_or(u64::MAX);
        let (server, end) = (server.to_owned(), ended.clone());
        let accepting = std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // Relaxed: a flag that publishes nothing else.
                if end.load(Ordering::Relaxed) {
                    return;
                }
                let server = server.clone();
                std::thread::spawn(move || {
                    // To connect takes a round trip of its own; what is said meanwhile waits.
                    std::thread::sleep(Duration::from_nanos(one_way_ns.saturating_mul(2)));
                    // A connection that fails here ends there, and the client says so.
                    let _ = UnixStream::connect(&server).and_then(|server| join(&client, &server, one_way_ns));
                });
            }
        });
        Ok(Network { socket, dir, ended, accepting: Some(accepting) })
    }

    /// Where the server is reached through it.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The directory of that socket.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the one who accepts.
        if UnixStream::connect(&self.socket).is_ok()
            && let Some(accepting) = self.accepting.take()
        {
            let _ = accepting.join(); // it cannot panic
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

/// What comes in is on its way.
fn send(mut from: UnixStream, way: &Sender<Piece>, one_way_ns: u64) {
    let mut buffer = vec![0; PIECE_BYTES];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let arrives_ns = now_ns() + one_way_ns;
        let bytes = buffer.get(..count).unwrap_or_default().to_vec();
        if way.send(Piece { arrives_ns, bytes }).is_err() {
            break;
        }
    }
    // Whoever still writes here learns that nobody reads.
    let _ = from.shutdown(Shutdown::Read);
}

fn deliver(mut to: UnixStream, way: &Receiver<Piece>) {
    let _ = prctl::set_timerslack(1); // sleeps end when they should
    while let Ok(piece) = way.recv() {
        // Without the spinning of a measurement: many of these would take the processors from what is measured.
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
        let times: Vec<Duration> =
            (0..6).map(|_| time_of_five()).take_while(|took| *took >= Duration::from_millis(190)).collect();
        assert!(times.len() < 6, "{times:?}");
    }

    fn time_of_five() -> Duration {
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().join("there");
        let server = server(&there);
        let network = Network::before(&there, Duration::from_millis(40)).unwrap();
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
