//! Somebody who answers in the server's place, and badly: what that costs is bounded, in memory and
//! in time.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sessile_core::{ErrorKind, Result, Sessions};
use sessile_stores::Context;
use tempfile::TempDir;

use crate::setup::key;

const ROWS: usize = 100_000;
/// Some 200 ms, and what a busy machine adds; an impostor goes on for 20 s.
const LONGEST: Duration = Duration::from_secs(15);

/// Says something on a connection, the number of which comes first, in answer to a request, the
/// number of which comes last.
trait Says: Fn(&mut UnixStream, u8, u32) -> io::Result<()> + Send + Sync + 'static {}
impl<S: Fn(&mut UnixStream, u8, u32) -> io::Result<()> + Send + Sync + 'static> Says for S {}

struct Impostor(TempDir);

impl Impostor {
    fn new(says: impl Says) -> Impostor {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("socket")).unwrap();
        let says = Arc::new(says);
        std::thread::spawn(move || {
            for (number, client) in
                (0..).zip(listener.incoming().map_while(std::result::Result::ok))
            {
                let says = Arc::clone(&says);
                std::thread::spawn(move || {
                    converse(client, |client, request| says(client, number, request))
                });
            }
        });
        Impostor(dir)
    }

    fn open(&self) -> Result<Sessions> {
        let socket = self.0.path().join("socket");
        let url =
            format!("postgres+unix:{}?user=postgres&response_timeout_ms=200", socket.display());
        sessile_stores::open(&url, &Context::default())
    }
}

/// The first words, and all that ends with a Query or a Sync, are requests.
fn converse(
    mut client: UnixStream,
    says: impl Fn(&mut UnixStream, u32) -> io::Result<()>,
) -> io::Result<()> {
    let skip = |client: &mut UnixStream| {
        let mut length = [0; 4];
        client.read_exact(&mut length)?;
        io::copy(&mut client.take(u64::from(u32::from_be_bytes(length)) - 4), &mut io::sink())
            .map(drop)
    };
    skip(&mut client)?;
    says(&mut client, 0)?;
    let mut request = 1;
    loop {
        let mut kind = [0];
        client.read_exact(&mut kind)?;
        skip(&mut client)?;
        if matches!(kind, [b'Q' | b'S']) {
            says(&mut client, request)?;
            request += 1;
        }
    }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(4 + body.len() as u32).to_be_bytes(), body].concat()
}

fn row(columns: &[&str]) -> Vec<u8> {
    let mut body = (columns.len() as u16).to_be_bytes().to_vec();
    for text in columns {
        body.extend((text.len() as u32).to_be_bytes());
        body.extend(text.as_bytes());
    }
    message(b'D', &body)
}

fn ready() -> Vec<u8> {
    [message(b'C', b"SELECT 1\0"), message(b'Z', b"I")].concat()
}

/// What a server says until the store is open: to the login, to the greeting, of the tables, of
/// their version and whether the fences are behind.
fn opening(connection: u8, request: u32) -> Vec<u8> {
    let pid = connection.to_string();
    match request {
        0 => [message(b'R', &[0; 4]), message(b'Z', b"I")].concat(),
        1 => [row(&[&pid, "f", "public"]), ready()].concat(),
        2 => [row(&["t", "t"]), ready()].concat(),
        _ => [row(&["1", "f"]), ready()].concat(),
    }
}

/// Five bytes made the client reserve a gigabyte for whoever sat on the port.
#[test]
fn what_is_announced_before_the_login_is_over_is_not_believed() {
    let impostor = Impostor::new(|client, _, _| {
        client.write_all(&[&b"R"[..], &(1_u32 << 29).to_be_bytes()].concat())
    });
    assert_eq!(impostor.open().unwrap_err().kind(), &ErrorKind::Io);
}

/// A byte now and then kept a request waiting for as long as somebody liked.
#[test]
fn an_answer_that_comes_byte_by_byte_is_too_late() {
    let impostor = Impostor::new(|client, _, _| {
        client.write_all(&message(b'R', &[0; 1_000])[..5])?;
        (0..1_000).try_for_each(|_| {
            std::thread::sleep(Duration::from_millis(20));
            client.write_all(&[0])
        })
    });
    let start = Instant::now();
    assert_eq!(impostor.open().unwrap_err().kind(), &ErrorKind::Unreachable);
    assert!(start.elapsed() < LONGEST, "{:?}", start.elapsed());
}

/// Words that answer nothing moved the end of the wait, as payloads do.
#[test]
fn a_server_that_only_talks_is_too_late() {
    for word in [message(b'N', b"Snotice\0\0"), message(b'S', b"name\0value\0")] {
        let chatter = word.repeat(2_000);
        let impostor = Impostor::new(move |client, _, _| {
            (0..1_000).try_for_each(|_| {
                std::thread::sleep(Duration::from_millis(20));
                client.write_all(&chatter)
            })
        });
        let start = Instant::now();
        assert_eq!(impostor.open().unwrap_err().kind(), &ErrorKind::Unreachable);
        assert!(start.elapsed() < LONGEST, "{:?}", start.elapsed());
    }
}

/// Each byte of a handshake had the whole time to itself.
#[test]
fn a_handshake_that_comes_byte_by_byte_is_too_late() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(std::result::Result::ok) {
            std::thread::spawn(move || {
                client.read_exact(&mut [0; 8])?;
                // It has TLS; then the head of a record of 16 KiB that never ends.
                client.write_all(b"S\x16\x03\x03\x40\x00")?;
                (0..1_000).try_for_each(|_| {
                    std::thread::sleep(Duration::from_millis(20));
                    client.write_all(&[2])
                })
            });
        }
    });
    let start = Instant::now();
    let url = format!("postgres://nobody:x@127.0.0.1:{port}/x?tls=on&response_timeout_ms=200");
    let error = sessile_stores::open(&url, &Context::default()).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unreachable, "{error:?}");
    assert!(start.elapsed() < LONGEST, "{:?}", start.elapsed());
}

/// Whoever answered at the port got the password by asking for it.
#[test]
fn a_password_is_told_in_clear_only_if_the_url_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(std::result::Result::ok) {
            let mut words = Vec::new();
            let ask = message(b'R', &3_u32.to_be_bytes());
            let told = client.read(&mut [0; 1_000]).and_then(|_| client.write_all(&ask));
            told.and_then(|()| client.read_to_end(&mut words)).unwrap();
            sender.send(words).unwrap();
        }
    });
    for (option, tells, kind) in
        [("", false, ErrorKind::Denied), ("&clear_password=1", true, ErrorKind::Unreachable)]
    {
        let url = format!("postgres://u:s3cret@127.0.0.1:{port}/x?response_timeout_ms=100{option}");
        let error = sessile_stores::open(&url, &Context::default()).unwrap_err();
        assert_eq!(error.kind(), &kind, "{error:?}");
        let words = heard.recv_timeout(LONGEST).unwrap();
        assert_eq!(words.windows(6).any(|bytes| bytes == b"s3cret"), tells, "{option}");
    }
}

#[test]
fn rows_that_nobody_asked_for_are_refused() {
    let impostor = Impostor::new(|client, connection, request| match request {
        1 => client
            .write_all(&row(&["1", "f", "public"]).repeat(ROWS))
            .and_then(|()| client.write_all(&ready())),
        _ => client.write_all(&opening(connection, request)),
    });
    assert_eq!(impostor.open().unwrap_err().kind(), &ErrorKind::Io, "to a text");
    let impostor = Impostor::new(|client, connection, request| match request {
        4 => {
            let values = message(b't', &[0, 2, 0, 0, 0, 25, 0, 0, 0, 25]);
            let described =
                [message(b'1', b""), values, message(b'T', &[0, 0]), message(b'Z', b"I")];
            client.write_all(&described.concat())
        }
        5 => client.write_all(&[message(b'2', b""), row(&[]).repeat(ROWS), ready()].concat()),
        _ => client.write_all(&opening(connection, request)),
    });
    let store = impostor.open().unwrap();
    assert_eq!(store.peek(&key("a")).unwrap_err().kind(), &ErrorKind::Io, "to a statement");
}
