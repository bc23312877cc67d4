//! A proxy between a store and its server: it counts round trips, loses an answer or puts another
//! in its place when told to, and can give the server's processes other numbers, as a pool of
//! transactions would.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

/// What the proxy makes of the numbers by which the server's processes introduce themselves.
#[derive(Clone, Copy)]
pub enum Numbers {
    True,
    /// The same for all connections.
    Same,
    /// Another for each, none of them true.
    Wrong,
}

#[derive(Default)]
struct Shared {
    trips: AtomicU64,
    answers: AtomicU64,
    lose_answer: AtomicBool,
    say_too_late: AtomicBool,
    numbers: AtomicU8,
    connections: AtomicU64,
    /// Connections before this one are answered with this code.
    refused: Mutex<(u64, [u8; 5])>,
}

pub struct Proxy {
    dir: TempDir,
    shared: Arc<Shared>,
}

impl Proxy {
    pub fn to(server: &Path) -> Proxy {
        let proxy = Proxy { dir: tempfile::tempdir().unwrap(), shared: Arc::default() };
        let (listener, shared) =
            (UnixListener::bind(proxy.socket()).unwrap(), Arc::clone(&proxy.shared));
        let server = server.to_owned();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = UnixStream::connect(&server) else { continue };
                forward(client, server, &shared);
            }
        });
        proxy
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    pub fn url(&self) -> String {
        format!("postgres+unix:{}?user=postgres&database=postgres", self.socket().display())
    }

    /// The round trips that something takes: how often the client spoke after the server had
    /// spoken.
    pub fn trips<T>(&self, something: impl FnOnce() -> T) -> (u64, T) {
        let before = self.shared.trips.load(Ordering::SeqCst);
        let done = something();
        (self.shared.trips.load(Ordering::SeqCst) - before, done)
    }

    /// How often the server said meanwhile that it waits for the next request: each time it ends a
    /// transaction, and wakes whoever waits for it.
    pub fn answers<T>(&self, something: impl FnOnce() -> T) -> (u64, T) {
        let before = self.shared.answers.load(Ordering::SeqCst);
        let done = something();
        (self.shared.answers.load(Ordering::SeqCst) - before, done)
    }

    /// The next answer is lost, and its connection with it.
    pub fn lose_next_answer(&self) {
        self.shared.lose_answer.store(true, Ordering::SeqCst);
    }

    /// Instead of its next answer the server says that `lock_timeout` is over, as it does when the
    /// lock is granted at that very moment: it has the lock then, and keeps it.
    pub fn say_too_late(&self) {
        self.shared.say_too_late.store(true, Ordering::SeqCst);
    }

    /// From now on all answers on the connections that there are say this code, as if nothing was
    /// known there.
    pub fn refuse_on_all_connections(&self, code: [u8; 5]) {
        *self.shared.refused.lock().unwrap() =
            (self.shared.connections.load(Ordering::SeqCst), code);
    }

    pub fn number(&self, numbers: Numbers) {
        self.shared.numbers.store(numbers as u8, Ordering::SeqCst);
    }
}

fn forward(client: UnixStream, server: UnixStream, shared: &Arc<Shared>) {
    let server_spoke = Arc::new(Mutex::new(true));
    let connection = shared.connections.fetch_add(1, Ordering::SeqCst);
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (spoke, counted) = (Arc::clone(&server_spoke), Arc::clone(shared));
    std::thread::spawn(move || {
        pump(&mut from, &mut to, None, |_| {
            if std::mem::replace(&mut *spoke.lock().unwrap(), false) {
                counted.trips.fetch_add(1, Ordering::SeqCst);
            }
            true
        });
    });
    let (mut from, mut to, shared) = (server, client, Arc::clone(shared));
    std::thread::spawn(move || {
        let counted = Arc::clone(&shared);
        let instead = || {
            counted.say_too_late.swap(false, Ordering::SeqCst).then(|| refusal(*b"55P03")).or_else(
                || {
                    let (before, code) = *counted.refused.lock().unwrap();
                    (connection < before).then(|| refusal(code))
                },
            )
        };
        pump(&mut from, &mut to, Some(&instead), |bytes| {
            *server_spoke.lock().unwrap() = true;
            let ready = bytes.windows(6).filter(|bytes| bytes == b"Z\0\0\0\x05I").count();
            shared.answers.fetch_add(ready as u64, Ordering::SeqCst);
            renumber(bytes, shared.numbers.load(Ordering::SeqCst), connection);
            !shared.lose_answer.swap(false, Ordering::SeqCst)
        });
    });
}

type Instead<'a> = Option<&'a dyn Fn() -> Option<Vec<u8>>>;

fn pump(
    from: &mut UnixStream,
    to: &mut UnixStream,
    instead: Instead<'_>,
    mut pass: impl FnMut(&mut [u8]) -> bool,
) {
    let mut buffer = vec![0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if !pass(&mut buffer[..count]) {
            break;
        }
        let other = instead.and_then(|instead| instead());
        if to.write_all(other.as_deref().unwrap_or(&buffer[..count])).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// An error and the end of its transaction.
fn refusal(code: [u8; 5]) -> Vec<u8> {
    let fields = [b"SERROR\0C", &code[..], b"\0Mrefused by the proxy\0\0"].concat();
    let length = (4 + fields.len() as u32).to_be_bytes();
    [&b"E"[..], &length, &fields, b"Z\0\0\0\x05I"].concat()
}

/// The greeting is the only answer with a row of three columns whose first is a number in digits.
fn renumber(bytes: &mut [u8], numbers: u8, connection: u64) {
    if numbers == Numbers::True as u8 {
        return;
    }
    let row = |at: usize, bytes: &[u8]| {
        bytes[at] == b'D' && bytes[at + 5..at + 7] == [0, 3] && bytes[at + 7..at + 10] == [0; 3]
    };
    let Some(at) = (0..bytes.len().saturating_sub(20)).find(|at| row(*at, bytes)) else { return };
    let digits = usize::from(bytes[at + 10]);
    let number = if numbers == Numbers::Same as u8 { 1 } else { connection + 1 };
    bytes[at + 11..at + 11 + digits].copy_from_slice(format!("{number:0digits$}").as_bytes());
}
