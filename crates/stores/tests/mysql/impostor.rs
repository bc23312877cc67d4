//! A server that says what a test wants: logins that MariaDB does not know, and a server that is
//! somebody else's.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use sessile_core::ErrorKind;
use sha2::{Digest, Sha256};

use crate::setup::support::certificate;
use crate::setup::{key, open, refusal, ttl};

const WITHIN: Duration = Duration::from_secs(30);
const NONCE: [u8; 20] = *b"abcdefghijklmnopqrst";
const OK: [u8; 7] = [0, 0, 0, 2, 0, 0, 0];
/// The server has the digest of the password at hand, or asks for the password.
const FAST: [u8; 2] = [1, 3];
const FULL: [u8; 2] = [1, 4];
/// The status of a statement that is the last of its message, or is not.
const LAST: u8 = 2;
const MORE: u8 = 10;
const PASSWORD: &str = "s3cret";

/// One connection, as the server sees it.
struct Server<C> {
    client: C,
    number: u8,
}

impl<C: Read + Write> Server<C> {
    fn say(&mut self, body: &[u8]) -> io::Result<()> {
        let length = u32::try_from(body.len()).unwrap() | u32::from(self.number) << 24;
        self.number += 1;
        self.client.write_all(&[&length.to_le_bytes(), body].concat())
    }

    fn hear(&mut self) -> io::Result<Vec<u8>> {
        let mut head = [0; 4];
        self.client.read_exact(&mut head)?;
        let [a, b, c, number] = head;
        self.number = number + 1;
        let mut body = vec![0; u32::from_le_bytes([a, b, c, 0]) as usize];
        self.client.read_exact(&mut body).map(|()| body)
    }

    /// Returns what the client answers to the greeting.
    fn greet(&mut self, method: &str) -> io::Result<Vec<u8>> {
        let (first, second) = NONCE.split_at(8);
        let capabilities = 0x00ff_f7ff_u32.to_le_bytes(); // no TLS
        let parts: [&[u8]; 11] = [
            b"\x0a8.0.40\0\x01\0\0\0",
            first,
            b"\0",
            &capabilities[..2],
            b"\x2d\x02\0",
            &capabilities[2..],
            &[21],
            &[0; 10],
            second,
            b"\0",
            &[method.as_bytes(), b"\0"].concat(),
        ];
        self.say(&parts.concat())?;
        self.hear()
    }
}

/// Serves each connection, the number of which the script gets.
fn serve<C: Read + Write + Send + 'static>(
    clients: impl Iterator<Item = C> + Send + 'static,
    script: impl Fn(&mut Server<C>, u32) -> io::Result<()> + Send + 'static,
) {
    std::thread::spawn(move || {
        for (number, client) in (0..).zip(clients) {
            let _ = script(&mut Server { client, number: 0 }, number); // the client may have left
        }
    });
}

/// Returns the URL.
fn over_tcp(
    script: impl Fn(&mut Server<TcpStream>, u32) -> io::Result<()> + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    serve(std::iter::from_fn(move || Some(listener.accept().ok()?.0)), script);
    format!("mysql://shop:{PASSWORD}@127.0.0.1:{port}/shop")
}

/// Returns the URL of a socket in a directory. The password is in a file beside it.
fn at_socket(
    dir: &Path,
    script: impl Fn(&mut Server<UnixStream>, u32) -> io::Result<()> + Send + 'static,
) -> String {
    let (socket, password) = (dir.join("socket"), dir.join("password"));
    let listener = UnixListener::bind(&socket).unwrap();
    std::fs::write(&password, PASSWORD).unwrap();
    serve(std::iter::from_fn(move || Some(listener.accept().ok()?.0)), script);
    let (socket, password) = (socket.display(), password.display());
    format!("mysql+unix:{socket}?user=shop&database=shop&password_file={password}")
}

/// What proves a password to `caching_sha2_password`.
fn proof(nonce: &[u8]) -> Vec<u8> {
    let once = Sha256::digest(PASSWORD);
    let mask = Sha256::new().chain_update(Sha256::digest(once)).chain_update(nonce).finalize();
    once.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect()
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// What the client sends after the login: its settings, so it is in.
fn is_in(server: &mut Server<impl Read + Write>) -> io::Result<bool> {
    Ok(has(&server.hear()?, b"SET NAMES"))
}

fn first<T>(heard: &Receiver<T>) -> T {
    heard.recv_timeout(WITHIN).unwrap()
}

#[test]
fn a_server_that_has_the_digest_gets_a_proof_also_after_it_has_changed_the_method() {
    for method in ["caching_sha2_password", "mysql_native_password"] {
        let (sender, heard) = channel();
        let url = over_tcp(move |server, _| {
            let mut words = server.greet(method)?;
            let mut nonce = NONCE;
            if method != "caching_sha2_password" {
                nonce.reverse();
                server.say(&[&b"\xfecaching_sha2_password\0"[..], &nonce, b"\0"].concat())?;
                words = server.hear()?;
            }
            server.say(&FAST)?;
            server.say(&OK)?;
            let told = (has(&words, &proof(&nonce)), is_in(server)?);
            sender.send(told).map_err(io::Error::other)
        });
        assert_eq!(open(&url).unwrap_err().kind(), &ErrorKind::Unreachable, "it says no more");
        assert_eq!(first(&heard), (true, true), "{method}");
    }
}

#[test]
fn at_a_socket_a_server_gets_the_password_that_it_asks_for() {
    let (dir, (sender, heard)) = (tempfile::tempdir().unwrap(), channel());
    let url = at_socket(dir.path(), move |server, _| {
        server.greet("caching_sha2_password")?;
        server.say(&FULL)?;
        let password = server.hear()?;
        server.say(&OK)?;
        let told = (password, is_in(server)?);
        sender.send(told).map_err(io::Error::other)
    });
    assert_eq!(open(&url).unwrap_err().kind(), &ErrorKind::Unreachable, "it says no more");
    assert_eq!(first(&heard), (b"s3cret\0".to_vec(), true));
}

/// Whatever answered at the port got the password: it sent a key of its own to encrypt it with.
#[test]
fn a_password_is_told_over_tcp_only_if_the_url_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let Some(pem) = public_key(dir.path()) else { return };
    let (sender, heard) = channel();
    let url = over_tcp(move |server, _| {
        server.greet("caching_sha2_password")?;
        server.say(&FULL)?;
        let mut words = Vec::new();
        if let Ok(asked) = server.hear() {
            words.push(asked);
            server.say(&[&[1], pem.as_slice()].concat())?;
            words.push(server.hear()?);
            server.say(&OK)?;
            is_in(server)?;
        }
        sender.send(words).map_err(io::Error::other)
    });
    let (kind, text) = refusal(&url);
    assert!(kind == ErrorKind::Denied && text.contains("tls=1"), "{text}");
    assert_eq!(first(&heard), Vec::<Vec<u8>>::new());

    let (kind, text) = refusal(&format!("{url}?clear_password=1"));
    assert_eq!(kind, ErrorKind::Unreachable, "it says no more: {text}");
    let [asked, encrypted]: [Vec<u8>; 2] = first(&heard).try_into().unwrap();
    assert_eq!(asked, [2], "for the key");
    let masked = decrypt(dir.path(), &encrypted);
    let password: Vec<u8> = masked.iter().zip(NONCE).map(|(byte, mask)| byte ^ mask).collect();
    assert_eq!(password, b"s3cret\0");
}

/// What was no key, or too short for the password, was a panic.
#[test]
fn a_key_that_cannot_encrypt_the_password_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let Some(good) = public_key(dir.path()) else { return };
    let pem = |body: &str| format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----");
    let good = String::from_utf8(good).unwrap();
    let cut = good.lines().filter(|line| line.len() != 64).collect::<Vec<_>>().join("\n");
    let bits = "rsa_keygen_bits:512";
    openssl(dir.path(), &["genpkey", "-algorithm", "RSA", "-pkeyopt", bits, "-out", "key.pem"]);
    let short = openssl(dir.path(), &["pkey", "-in", "key.pem", "-pubout"]);
    let long = "x".repeat(214);
    let keys = [
        (String::new(), PASSWORD),
        ("no key".to_owned(), PASSWORD),
        (pem("AAAA"), PASSWORD),
        (pem("not base64"), PASSWORD),
        (good.replace("BEGIN PUBLIC", "BEGIN RSA PUBLIC"), PASSWORD),
        (cut, PASSWORD),
        (String::from_utf8(short).unwrap(), PASSWORD),
        (good.clone(), long.as_str()),
    ];
    for (sent, password) in keys {
        let answer = [&[1], sent.as_bytes()].concat();
        let url = over_tcp(move |server, _| {
            server.greet("caching_sha2_password")?;
            server.say(&FULL)?;
            server.hear()?;
            server.say(&answer)?;
            server.hear().map(drop)
        });
        let (kind, text) = refusal(&format!("{url}?clear_password=1").replace(PASSWORD, password));
        assert!(kind == ErrorKind::Denied && text.contains("public key"), "{sent}: {text}");
    }
}

/// MySQL says why it closes an idle connection in a packet with the number of a greeting. That was
/// taken for an answer that cannot be read, and was not tried again.
#[test]
fn a_connection_that_the_server_has_closed_for_its_silence_costs_no_request() {
    let (sender, heard) = channel();
    let url = over_tcp(move |server, connection| {
        log_in(server)?;
        loop {
            let asked = server.hear()?;
            if has(&asked, b"wsrep_on") && connection == 0 {
                rows(server, 1, None, LAST)?;
                server.number = 0;
                server.say(b"\xff\xbf\x0f#HY000The client was disconnected by the server")?;
                return Ok(());
            } else if !is_opened(server, &asked)? {
                sender.send(connection).map_err(io::Error::other)?;
                rows(server, 11, None, LAST)?;
            }
        }
    });
    let store = open(&url).unwrap();
    assert!(store.peek(&key("a")).unwrap().is_none());
    assert_eq!(first(&heard), 1, "the request was answered on the second connection");
}

/// With a time of a second for an answer, the time to wait for a row was always over.
#[test]
fn a_deadlock_is_tried_again_however_short_the_time_for_an_answer() {
    let url = over_tcp(move |server, _| {
        log_in(server)?;
        let mut rolled_back = false;
        loop {
            let asked = server.hear()?;
            if is_opened(server, &asked)? {
                continue;
            }
            if has(&asked, b"GET_LOCK") {
                server.say(&done(MORE))?;
                rows(server, 1, None, MORE)?;
                rows(server, 11, None, MORE)?;
                rows(server, 1, Some(&["17"]), LAST)?;
            } else if has(&asked, b"INSERT") && !rolled_back {
                server.say(b"\xff\xbd\x04#40001Deadlock found")?;
            } else if has(&asked, b"INSERT") {
                server.say(&[0, 1, 0, MORE, 0, 0, 0])?;
                server.say(&done(LAST))?;
            } else {
                server.say(&done(LAST))?;
            }
            rolled_back = has(&asked, b"ROLLBACK");
        }
    });
    let store = open(&format!("{url}?response_timeout_ms=1000")).unwrap();
    let commit = |n| {
        let begun = store.begin(&key(&format!("s{n}")), Duration::ZERO).ok()?;
        begun.lease.commit(b"x", ttl()).ok()
    };
    // Once: a busy machine may stand still for a second.
    assert!((0..10).any(|n| commit(n).is_some()));
}

fn log_in(server: &mut Server<impl Read + Write>) -> io::Result<()> {
    server.greet("caching_sha2_password")?;
    server.say(&FAST)?;
    server.say(&OK)
}

/// Answers what is asked when a store is opened; false for all else.
fn is_opened(server: &mut Server<impl Read + Write>, asked: &[u8]) -> io::Result<bool> {
    if has(asked, b"VERSION()") {
        (0..3).try_for_each(|_| server.say(&done(MORE)))?;
        rows(server, 5, Some(&["8.0.40", "67108864", "0", "1", "1"]), LAST)?;
    } else if has(asked, b"TABLE_COMMENT") {
        rows(server, 2, Some(&["sessions of sessile, schema 1", "InnoDB"]), LAST)?;
    } else if has(asked, b"INDEX_NAME") {
        rows(server, 1, Some(&["1"]), LAST)?;
    } else if has(asked, b"wsrep_on") {
        rows(server, 1, None, LAST)?;
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// The answer to a statement that changed nothing.
fn done(status: u8) -> [u8; 7] {
    [0, 0, 0, status, 0, 0, 0]
}

fn rows(
    server: &mut Server<impl Read + Write>,
    columns: u8,
    row: Option<&[&str]>,
    status: u8,
) -> io::Result<()> {
    let end = [0xfe, 0, 0, status, 0];
    let column = b"\x03def\0\0\0\x01c\0\x0c\x21\0\0\x01\0\0\xfd\0\0\0\0\0";
    server.say(&[columns])?;
    (0..columns).try_for_each(|_| server.say(column))?;
    server.say(&end)?;
    if let Some(row) = row {
        let text = |text: &&str| [&[text.len() as u8], text.as_bytes()].concat();
        server.say(&row.iter().flat_map(text).collect::<Vec<u8>>())?;
    }
    server.say(&end)
}

/// In PEM; its private key is in the directory. `None`, said on stderr, without openssl.
fn public_key(dir: &Path) -> Option<Vec<u8>> {
    certificate::make(dir, "DNS:localhost")
        .then(|| openssl(dir, &["pkey", "-in", "key.pem", "-pubout"]))
}

fn decrypt(dir: &Path, encrypted: &[u8]) -> Vec<u8> {
    std::fs::write(dir.join("encrypted"), encrypted).unwrap();
    let padding = "rsa_padding_mode:oaep";
    openssl(
        dir,
        &["pkeyutl", "-decrypt", "-inkey", "key.pem", "-in", "encrypted", "-pkeyopt", padding],
    )
}

fn openssl(dir: &Path, words: &[&str]) -> Vec<u8> {
    let mut command = Command::new("openssl");
    let done = command.args(words).current_dir(dir).stderr(Stdio::null()).output().unwrap();
    assert!(done.status.success());
    done.stdout
}
