//! A socket before the server's that counts round trips: how often the client speaks after the server has spoken.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub struct CountingProxy {
    socket: PathBuf,
    trips: Arc<AtomicU64>,
    _dir: tempfile::TempDir,
}

impl CountingProxy {
    pub fn before(server: &Path) -> CountingProxy {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let (server, trips) = (server.to_owned(), Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&trips);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                serve(client, UnixStream::connect(&server).unwrap(), &counted);
            }
        });
        CountingProxy { socket, trips, _dir: dir }
    }

    pub fn url(&self) -> String {
        format!("mysql+unix:{}?user=root&database=test", self.socket.display())
    }

    /// How many round trips something takes.
    pub fn during<T>(&self, run: impl FnOnce() -> T) -> (u64, T) {
        let before = self.trips.load(Ordering::SeqCst);
        let done = run();
        (self.trips.load(Ordering::SeqCst) - before, done)
    }
}

fn serve(client: UnixStream, server: UnixStream, trips: &Arc<AtomicU64>) {
    // The server speaks first, with its greeting.
    let server_spoke = Arc::new(AtomicBool::new(true));
    let (asking, answering) = (Arc::clone(&server_spoke), server_spoke);
    let trips = Arc::clone(trips);
    let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || {
        pass_on(from, to, || {
            if asking.swap(false, Ordering::SeqCst) {
                trips.fetch_add(1, Ordering::SeqCst);
            }
        });
    });
    std::thread::spawn(move || pass_on(server, client, || answering.store(true, Ordering::SeqCst)));
}

fn pass_on(mut from: UnixStream, mut to: UnixStream, mut note: impl FnMut()) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        note();
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
