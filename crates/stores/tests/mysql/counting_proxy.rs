//! A socket before the server's that counts round trips: how often the client speaks after the
//! server has spoken. It may also keep the server's answers back, or refuse prepared statements in
//! the server's name.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const STALLED_BEHIND: usize = 64 << 10;

pub struct CountingProxy {
    socket: PathBuf,
    trips: Arc<AtomicU64>,
    stalled: Arc<AtomicBool>,
    refused: Arc<AtomicU64>,
    _dir: tempfile::TempDir,
}

impl CountingProxy {
    pub fn before(server: &Path) -> CountingProxy {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let (server, trips) = (server.to_owned(), Arc::new(AtomicU64::new(0)));
        let (stalled, refused) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (counted, stall, refuse) =
            (Arc::clone(&trips), Arc::clone(&stalled), Arc::clone(&refused));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                serve(client, UnixStream::connect(&server).unwrap(), &counted, &stall, &refuse);
            }
        });
        CountingProxy { socket, trips, stalled, refused, _dir: dir }
    }

    /// Keeps back what the server says, all but its first words, as a client that is stopped does.
    pub fn stall(&self, stalled: bool) {
        self.stalled.store(stalled, Ordering::SeqCst);
    }

    /// Says that the server does not know the next prepared statements that it is asked to execute.
    pub fn refuse(&self, count: u64) {
        self.refused.store(count, Ordering::SeqCst);
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

fn serve(
    client: UnixStream,
    server: UnixStream,
    trips: &Arc<AtomicU64>,
    stalled: &Arc<AtomicBool>,
    refused: &Arc<AtomicU64>,
) {
    // The server speaks first, with its greeting.
    let server_spoke = Arc::new(AtomicBool::new(true));
    let (asking, answering) = (Arc::clone(&server_spoke), server_spoke);
    let (trips, stalled, refused) = (Arc::clone(trips), Arc::clone(stalled), Arc::clone(refused));
    let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let mut refusal = client.try_clone().unwrap();
    std::thread::spawn(move || {
        pass_on(from, to, |packet| {
            if asking.swap(false, Ordering::SeqCst) {
                trips.fetch_add(1, Ordering::SeqCst);
            }
            let one_less = |count: u64| count.checked_sub(1);
            // COM_STMT_EXECUTE, behind length and number.
            let execute = packet.get(4) == Some(&0x17);
            if !execute
                || refused.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_err()
            {
                return true;
            }
            asking.store(true, Ordering::SeqCst);
            refusal.write_all(b"\x0d\0\0\x01\xff\xdb\x04#HY000gone").unwrap(); // 1243
            false
        });
    });
    std::thread::spawn(move || {
        let mut bytes = 0;
        pass_on(server, client, |packet| {
            bytes += packet.len();
            while stalled.load(Ordering::SeqCst) && bytes > STALLED_BEHIND {
                std::thread::sleep(Duration::from_millis(5));
            }
            if !stalled.load(Ordering::SeqCst) {
                bytes = 0;
            }
            answering.store(true, Ordering::SeqCst);
            true
        });
    });
}

/// Passes on what `wanted` says.
fn pass_on(mut from: UnixStream, mut to: UnixStream, mut wanted: impl FnMut(&[u8]) -> bool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if wanted(&buffer[..count]) && to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
