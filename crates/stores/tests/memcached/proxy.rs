//! A proxy that counts round trips and can lose answers.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};

/// What happens to the requests that pass.
#[derive(Default)]
pub struct Passing {
    /// Requests that passed: bytes of the client after bytes of the server.
    pub trips: AtomicU64,
    /// The answer to the next request is lost, with its connection.
    pub lose_next: AtomicBool,
    /// Requests that still pass, if not negative; after that connections are cut before they do.
    pub left: AtomicI64,
}

impl Passing {
    pub fn new() -> Arc<Passing> {
        Arc::new(Passing { left: AtomicI64::new(-1), ..Passing::default() })
    }

    /// How many requests pass while something is done.
    pub fn count<T>(&self, work: impl FnOnce() -> T) -> (u64, T) {
        let before = self.trips.load(SeqCst);
        let done = work();
        (self.trips.load(SeqCst) - before, done)
    }
}

/// Listens at `at` and passes everything on to `server`, until the test ends.
pub fn start(at: PathBuf, server: &Path, passing: &Arc<Passing>) {
    let listener = UnixListener::bind(at).unwrap();
    let (server, passing) = (server.to_owned(), Arc::clone(passing));
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            client.set_nonblocking(true).unwrap();
            serve(client, server.clone(), Arc::clone(&passing));
        }
    });
}

/// The same on a port of its own, which a private memcached does not open beside its socket.
pub fn start_on_port(server: &Path, passing: &Arc<Passing>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (server, passing) = (server.to_owned(), Arc::clone(passing));
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            client.set_nonblocking(true).unwrap();
            serve(client, server.clone(), Arc::clone(&passing));
        }
    });
    port
}

fn serve<C>(client: C, server: PathBuf, passing: Arc<Passing>)
where
    C: Send + 'static,
    for<'a> &'a C: Read + Write,
{
    std::thread::spawn(move || {
        let Ok(server) = UnixStream::connect(server) else { return };
        // However it ends, both connections are closed.
        let _ = pass(&client, &server, &passing);
    });
}

/// The client of a test asks, waits for the answer and asks again: so what comes before an answer
/// is one request.
fn pass<C>(mut client: &C, mut server: &UnixStream, passing: &Passing) -> std::io::Result<()>
where
    for<'a> &'a C: Read + Write,
{
    let mut buffer = vec![0; 1 << 16];
    server.set_nonblocking(true)?;
    let (mut asking, mut lost) = (false, false);
    loop {
        let mut idle = true;
        match client.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(bytes) => {
                idle = false;
                if !std::mem::replace(&mut asking, true) {
                    if passing
                        .left
                        .fetch_update(SeqCst, SeqCst, |left| (left >= 0).then(|| (left - 1).max(0)))
                        == Ok(0)
                    {
                        return Ok(());
                    }
                    passing.trips.fetch_add(1, SeqCst);
                    lost = passing.lose_next.swap(false, SeqCst);
                }
                write_all(server, &buffer[..bytes])?;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        match server.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(_) if lost => return Ok(()),
            Ok(bytes) => {
                (idle, asking) = (false, false);
                write_all(client, &buffer[..bytes])?;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if idle {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    }
}

fn write_all(mut to: impl Write, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
