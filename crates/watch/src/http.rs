//! A server of HTTP/1.1 for a few readers: one request a connection, GET and HEAD, no bodies.
//!
//! Source: RFC 9112. Invariants: a request has at most [`HEAD_BYTES_MAX`] bytes and
//! [`EXCHANGE_MAX`] of time, reading and writing alike, and no body is ever read, so no reader
//! holds a thread for longer, and silent ones keep nobody waiting; an error of `accept` is never
//! the end; on loopback only requests for the own name are handled, so that a page of another site
//! cannot reach the server through a name that leads here. Not here: connections that stay open,
//! encryption, compression.

use std::io::{Read, Result as IoResult, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sessile_core::{Error, ErrorKind, Result};

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";
const HEAD_BYTES_MAX: usize = 8 << 10;
const EXCHANGE_MAX: Duration = Duration::from_secs(5);
/// More readers at once are sent away.
const READERS_MAX: usize = 64;
/// The time between two tries of `accept`, and the longest until the server ends.
const ASK_FOR_WORK: Duration = Duration::from_millis(100);

/// A server that listens.
pub struct Served {
    socket: TcpListener,
    address: SocketAddr,
}

/// What a reader asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked {
    /// The path, beginning with `/`.
    pub path: String,
    /// What follows `?`.
    pub query: String,
}

/// What a reader gets.
pub struct Answer {
    pub code: u16,
    pub kind: &'static str,
    pub text: String,
    /// After how many seconds a browser asks again.
    pub refresh_seconds: Option<u32>,
}

impl Answer {
    pub fn new(kind: &'static str, text: String) -> Answer {
        Answer { code: 200, kind, text, refresh_seconds: None }
    }

    pub fn refused(code: u16, why: &str) -> Answer {
        let text = format!("{why}\n");
        Answer { code, kind: "text/plain; charset=utf-8", text, refresh_seconds: None }
    }

    pub fn not_found() -> Answer {
        Answer::refused(404, "there is nothing here")
    }
}

impl Served {
    /// Listens. Error: `Io` if the address is in use.
    pub fn listen(address: SocketAddr) -> Result<Served> {
        let listens = TcpListener::bind(address).and_then(|socket| {
            socket.set_nonblocking(true)?;
            let address = socket.local_addr()?;
            Ok(Served { socket, address })
        });
        listens.map_err(|error| {
            Error::new(ErrorKind::Io, format!("{address} cannot be listened on: {error}"))
                .advice("choose another port in --listen, or 0 for a free one")
        })
    }

    /// The address with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `ends` says so.
    pub fn serve(
        &self,
        ends: &(impl Fn() -> bool + Sync),
        handle: &(impl Fn(&Asked) -> Answer + Sync),
    ) {
        let readers = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            while !ends() {
                match self.socket.accept() {
                    Ok((stream, _)) if readers.load(Ordering::Acquire) < READERS_MAX => {
                        readers.fetch_add(1, Ordering::AcqRel);
                        let seat = Seat(&readers);
                        let answer = move || {
                            let _seat = seat;
                            if let Err(error) = self.exchange(stream, handle) {
                                log::debug!("a reader went away: {error}");
                            }
                        };
                        // Without another thread the reader is sent away.
                        let _ = std::thread::Builder::new().spawn_scoped(scope, answer);
                    }
                    Ok(_) => log::debug!("a reader was sent away: {READERS_MAX} are there"),
                    // Nobody asks, or a passing error such as too many open files.
                    Err(_) => std::thread::sleep(ASK_FOR_WORK),
                }
            }
        });
    }

    fn exchange(&self, mut stream: TcpStream, handle: &impl Fn(&Asked) -> Answer) -> IoResult<()> {
        stream.set_nonblocking(false)?;
        let head = read_head(&mut stream, Instant::now() + EXCHANGE_MAX)?;
        let (answer, with_text) = match head.as_deref().map(parse) {
            None => (Answer::refused(431, "the head is too long"), true),
            Some(None) => (Answer::refused(400, "this is no request of HTTP/1.1"), true),
            Some(Some(head)) if !matches!(head.method, "GET" | "HEAD") => {
                (Answer::refused(405, "only GET"), true)
            }
            Some(Some(head)) if !is_own_name(head.host, self.address) => {
                (Answer::refused(421, "this is not the name of this server"), true)
            }
            Some(Some(head)) => (handle(&head.asked), head.method == "GET"),
        };
        write_answer(&mut stream, &answer, with_text, Instant::now() + EXCHANGE_MAX)?;
        stream.shutdown(Shutdown::Both)
    }
}

/// One of the readers who are there, until it is dropped.
struct Seat<'a>(&'a AtomicUsize);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The time that is left: a zero would be no limit at all.
fn left(until: Instant) -> IoResult<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(std::io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// All up to the empty line; `None` if that is too much.
fn read_head(stream: &mut TcpStream, until: Instant) -> IoResult<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut part = [0; 1_024];
    while head.len() < HEAD_BYTES_MAX {
        stream.set_read_timeout(Some(left(until)?))?;
        let bytes = stream.read(&mut part)?;
        if bytes == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(part.get(..bytes).unwrap_or_default());
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            head.truncate(end);
            return Ok(Some(head));
        }
    }
    Ok(None)
}

struct Head<'a> {
    method: &'a str,
    asked: Asked,
    /// Empty if there is none, or more than one.
    host: &'a str,
}

fn parse(head: &[u8]) -> Option<Head<'_>> {
    let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if !version.starts_with("HTTP/1.") || words.next().is_some() || !target.starts_with('/') {
        return None;
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut hosts = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then_some(value.trim())
    });
    let host = hosts.next().filter(|_| hosts.next().is_none()).unwrap_or_default();
    let asked = Asked { path: path.to_owned(), query: query.to_owned() };
    Some(Head { method, asked, host })
}

/// The address, or a name that always leads to this host. On another address than loopback any
/// name may be this server's.
fn is_own_name(host: &str, address: SocketAddr) -> bool {
    if !address.ip().is_loopback() {
        return true;
    }
    let name = match host.strip_prefix('[') {
        Some(host) => host.split(']').next(),
        None => host.split(':').next(),
    };
    let name = name.unwrap_or_default();
    name.eq_ignore_ascii_case("localhost") || name == address.ip().to_string()
}

fn write_answer(
    stream: &mut TcpStream,
    answer: &Answer,
    with_text: bool,
    until: Instant,
) -> IoResult<()> {
    let Answer { code, kind, text, refresh_seconds } = answer;
    let refresh =
        refresh_seconds.map_or_else(String::new, |seconds| format!("Refresh: {seconds}\r\n"));
    let head = format!(
        "HTTP/1.1 {code} {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Content-Security-Policy: {POLICY}\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nCache-Control: no-store\r\n{refresh}\
         Connection: close\r\n\r\n",
        reason(*code),
        text.len(),
    );
    let text = if with_text { text.as_str() } else { "" };
    let whole = head + text;
    let mut rest = whole.as_bytes();
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        let bytes = stream.write(rest)?;
        if bytes == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        rest = rest.get(bytes..).unwrap_or_default();
    }
    Ok(())
}

fn reason(code: u16) -> &'static str {
    match code {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        421 => "Misdirected Request",
        503 => "Service Unavailable",
        _ => "Request Header Fields Too Large",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::ErrorKind;
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        // What was not read of a long request resets the connection after the answer.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    fn with_server(test: impl FnOnce(SocketAddr)) {
        struct Ends<'a>(&'a AtomicBool);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let served = Served::listen(([127, 0, 0, 1], 0).into()).unwrap();
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let handle = |asked: &Asked| Answer::new("text/plain", asked.path.clone());
                served.serve(&|| ends.load(Ordering::Relaxed), &handle);
            });
            let _ends = Ends(&ends);
            test(served.address());
        });
    }

    fn assert_sound(address: SocketAddr) {
        let answer = ask(address, b"GET /sound?x HTTP/1.1\r\nHost: localhost:1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n/sound"), "{answer}");
    }

    /// A server waited for the body of the first for ever, and the length of the second ended it.
    #[test]
    fn a_promised_body_is_not_waited_for() {
        with_server(|address| {
            for length in ["2000", "9223372036854775808", "-1"] {
                let start = Instant::now();
                let request = format!(
                    "GET /a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n"
                );
                let answer = ask(address, request.as_bytes());
                assert!(answer.starts_with("HTTP/1.1 200"), "{length}: {answer}");
                assert!(start.elapsed() < Duration::from_secs(4), "{length}");
                assert_sound(address);
            }
        });
    }

    #[test]
    fn what_is_no_request_is_refused() {
        with_server(|address| {
            let host = "Host: localhost\r\n\r\n";
            let long = format!("GET /{} HTTP/1.1\r\n{host}", "a".repeat(3 * HEAD_BYTES_MAX));
            for (request, code) in [
                (format!("GET / HTTP/1.1\r\n{host}"), "200"),
                (format!("HEAD / HTTP/1.1\r\n{host}"), "200"),
                (format!("POST / HTTP/1.1\r\n{host}"), "405"),
                (format!("GET http://localhost/ HTTP/1.1\r\n{host}"), "400"),
                (format!("GET / HTTP/2\r\n{host}"), "400"),
                (format!("GET / x HTTP/1.1\r\n{host}"), "400"),
                ("\r\n\r\n".to_owned(), "400"),
                ("GET / HTTP/1.1\r\n\r\n".to_owned(), "421"),
                ("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n".to_owned(), "421"),
                (format!("GET / HTTP/1.1\r\nhost: evil.test\r\n{host}"), "421"),
            ] {
                let answer = ask(address, request.as_bytes());
                assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{request}: {answer}");
            }
            let answer = ask(address, long.as_bytes());
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
            assert_sound(address);
        });
    }

    #[test]
    fn a_head_request_gets_no_text() {
        with_server(|address| {
            let answer = ask(address, b"HEAD /abc HTTP/1.1\r\nHost: localhost\r\n\r\n");
            assert!(answer.contains("Content-Length: 4\r\n"), "{answer}");
            assert!(answer.ends_with("\r\n\r\n"), "{answer}");
        });
    }

    /// Four silent readers held all threads, and others waited until their time was over.
    #[test]
    fn readers_who_say_nothing_keep_nobody_waiting_and_are_bounded() {
        with_server(|address| {
            let silent = |count| -> Vec<TcpStream> {
                (0..count).map(|_| TcpStream::connect(address).unwrap()).collect()
            };
            let mut some = silent(READERS_MAX / 2);
            let start = Instant::now();
            assert_sound(address);
            assert!(start.elapsed() < EXCHANGE_MAX / 2, "{:?}", start.elapsed());
            some.extend(silent(READERS_MAX / 2));
            let mut one_more = TcpStream::connect(address).unwrap();
            one_more.set_read_timeout(Some(EXCHANGE_MAX / 2)).unwrap();
            let sent_away = one_more.read(&mut [0]);
            let closed = |error: &std::io::Error| error.kind() == ErrorKind::ConnectionReset;
            assert!(sent_away.as_ref().map_or_else(closed, |read| *read == 0), "{sent_away:?}");
            drop(some);
            std::thread::sleep(10 * ASK_FOR_WORK);
            assert_sound(address);
        });
    }

    #[test]
    fn the_own_name_is_told_from_others() {
        let (four, six) = (([127, 0, 0, 1], 80).into(), "[::1]:80".parse().unwrap());
        assert!(is_own_name("127.0.0.1:80", four) && is_own_name("LocalHost", four));
        assert!(is_own_name("[::1]:80", six) && is_own_name("[::1]", six));
        for foreign in ["", "evil.test", "127.0.0.1.evil.test", "[::1].evil.test", "localhost.a"] {
            assert!(!is_own_name(foreign, four), "{foreign}");
        }
        assert!(is_own_name("any.test", ([192, 0, 2, 1], 80).into()));
    }
}
