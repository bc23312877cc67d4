//! A server that lies: what no real memcached says when one wants to test it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// How it answers a begin.
#[derive(Clone, Copy)]
pub enum Lie {
    /// The lock is taken when one adds it and gone when one looks.
    TakenAndGone,
    /// The lock is granted, and no empty item can be made: `mg` with `N` says that there is none.
    NoRoomForRecords,
}

/// Listens at `at` until the test ends.
pub fn start(at: PathBuf, lie: Lie) {
    let listener = UnixListener::bind(at).unwrap();
    let lock = Arc::new(Mutex::new(Vec::new()));
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let lock = Arc::clone(&lock);
            std::thread::spawn(move || serve(&client, lie, &lock));
        }
    });
}

/// `None` when the client has gone.
fn serve(mut client: &UnixStream, lie: Lie, lock: &Mutex<Vec<u8>>) -> Option<()> {
    let mut from = BufReader::new(client);
    loop {
        let mut line = String::new();
        from.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        let mut lock = lock.lock().unwrap();
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let answer = match (words.as_slice(), lie) {
            (["stats", ..], _) => {
                b"STAT pid 1\r\nSTAT uptime 1\r\nSTAT time 9\r\nSTAT item_size_max \
                  1048576\r\nEND\r\n"
                    .to_vec()
            }
            (["add", .., bytes], lie) => {
                let mut value = vec![0; bytes.parse::<usize>().unwrap() + 2];
                from.read_exact(&mut value).ok()?;
                match lie {
                    Lie::TakenAndGone => b"NOT_STORED\r\n".to_vec(),
                    Lie::NoRoomForRecords => {
                        *lock = value;
                        b"STORED\r\n".to_vec()
                    }
                }
            }
            (["mg", key, ..], Lie::NoRoomForRecords) if key.contains(":l:") && !lock.is_empty() => {
                [format!("VA {} c7 t60\r\n", lock.len() - 2).as_bytes(), &lock].concat()
            }
            (["md", ..], _) => {
                lock.clear();
                b"HD\r\n".to_vec()
            }
            (["ma", ..], _) => b"VA 1\r\n5\r\n".to_vec(),
            _ => b"EN\r\n".to_vec(),
        };
        client.write_all(&answer).ok()?;
    }
}
