//! The HTTP servers of `sessile metrics --listen` and `sessile serve`.
//!
//! Invariants: only GET and HEAD are answered, and nothing is changed; the page answers only below
//! a random token and only to its own name, so that a page of another site cannot reach it through
//! a name that leads here; every answer has a policy that lets in no script and nothing from
//! elsewhere.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sessile_core::{Clock, Error, ErrorKind, Result, Sessions};
use sessile_doctor::{Examination, examine};
use tiny_http::{Header, Method, Request, Response, Server};

use crate::history::{History, STEP};
use crate::metrics::metrics;
use crate::page;
use crate::view::{View, Watcher};

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";
const REFRESH_SECONDS: &str = "10";
const TOKEN_BYTES: usize = 16;
/// How often a server looks whether it is to end.
const ASK_TO_END: Duration = Duration::from_millis(250);

/// What the page's server needs.
pub struct ServeOptions {
    /// The address to listen on.
    pub address: SocketAddr,
    /// The secret part of the path; `None`: a random one.
    pub token: Option<String>,
    /// The examination behind the page `doctor`.
    pub examination: Examination,
}

/// A server that listens.
pub struct Served {
    server: Server,
    address: SocketAddr,
}

impl Served {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn listen(address: SocketAddr) -> Result<Served> {
    let server = Server::http(address).map_err(|error| {
        Error::new(ErrorKind::Io, format!("{address} cannot be listened on: {error}"))
            .advice("choose another port in --listen, or 0 for a free one")
    })?;
    let address = server.server_addr().to_ip().unwrap_or(address);
    Ok(Served { server, address })
}

/// Serves `/metrics` until `ends` says so. `ready` is told the address.
///
/// # Errors
///
/// `Io` if the address is in use.
pub fn serve_metrics(
    sessions: &Sessions,
    address: SocketAddr,
    ready: impl FnOnce(&Served),
    ends: impl Fn() -> bool,
) -> Result<()> {
    let served = listen(address)?;
    ready(&served);
    let mut watcher = Watcher::new(sessions.clone(), Clock::system());
    while !ends() {
        let Ok(Some(request)) = served.server.recv_timeout(ASK_TO_END) else { continue };
        let path = request.url().split('?').next().unwrap_or_default().to_owned();
        match path.as_str() {
            "/metrics" | "/" => {
                let text = metrics(&watcher.look());
                answer(request, 200, "text/plain; version=0.0.4; charset=utf-8", &text, false);
            }
            _ => not_found(request),
        }
    }
    Ok(())
}

/// Serves the page until `ends` says so. `ready` is told the address and the token.
///
/// # Errors
///
/// `Io` if the address is in use.
pub fn serve_page(
    sessions: &Sessions,
    options: &ServeOptions,
    ready: impl FnOnce(&Served, &str),
    ends: impl Fn() -> bool + Sync,
) -> Result<()> {
    let served = listen(options.address)?;
    let token = match &options.token {
        Some(token) => token.clone(),
        None => random_token()?,
    };
    let history = Mutex::new(History::default());
    push_look(&history, Watcher::new(sessions.clone(), Clock::system()).look());
    ready(&served, &token);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut watcher = Watcher::new(sessions.clone(), Clock::system());
            let mut waited = Duration::ZERO;
            while !ends() {
                std::thread::sleep(ASK_TO_END);
                waited += ASK_TO_END;
                if waited >= STEP {
                    waited = Duration::ZERO;
                    push_look(&history, watcher.look());
                }
            }
        });
        while !ends() {
            let Ok(Some(request)) = served.server.recv_timeout(ASK_TO_END) else { continue };
            handle(request, sessions, options, &served, (&token, &history));
        }
    });
    Ok(())
}

fn push_look(history: &Mutex<History>, view: View) {
    history.lock().unwrap_or_else(PoisonError::into_inner).push(view);
}

fn handle(
    request: Request,
    sessions: &Sessions,
    options: &ServeOptions,
    served: &Served,
    (token, history): (&str, &Mutex<History>),
) {
    let path = request.url().to_owned();
    let (path, query) = path.split_once('?').unwrap_or((&path, ""));
    let named = path.trim_start_matches('/').split_once('/');
    let Some((_, name)) = named.filter(|(given, _)| same(given, token)) else {
        return not_found(request);
    };
    if !is_own_name(&request, served.address) {
        return answer(request, 421, "text/plain", "not the name of this server\n", false);
    }
    let history = history.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let moves = name.is_empty() && query != "still";
    let text = match name {
        "" => page::overview(&history),
        "locks" => {
            let look = Watcher::new(sessions.clone(), Clock::system()).look();
            page::locks(&look)
        }
        "verify" => page::verified(sessions.label(), &sessions.verify(&mut |_| {})),
        "doctor" => page::examined(sessions.label(), &examine(&options.examination)),
        _ => return not_found(request),
    };
    answer(request, 200, "text/html; charset=utf-8", &text, moves);
}

/// In a time that does not tell how much of it is right.
fn same(given: &str, token: &str) -> bool {
    let different = given.bytes().zip(token.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == token.len() && different == 0
}

/// The address, or a name that always leads to this host. On another address than loopback any
/// name may be this server's.
fn is_own_name(request: &Request, address: SocketAddr) -> bool {
    if !address.ip().is_loopback() {
        return true;
    }
    let host = request.headers().iter().find(|header| header.field.equiv("Host"));
    let host = host.map(|header| header.value.as_str().to_owned()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name);
    name == "localhost" || name.trim_matches(['[', ']']) == address.ip().to_string()
}

fn not_found(request: Request) {
    answer(request, 404, "text/plain", "there is nothing here\n", false);
}

fn answer(request: Request, code: u16, kind: &str, text: &str, refreshes: bool) {
    let reads = matches!(request.method(), Method::Get | Method::Head);
    let (code, text) = if reads { (code, text) } else { (405, "only GET\n") };
    let mut response = Response::from_string(text).with_status_code(code);
    let mut headers = vec![
        ("Content-Type", kind),
        ("Content-Security-Policy", POLICY),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
    ];
    if refreshes {
        headers.push(("Refresh", REFRESH_SECONDS));
    }
    for (name, value) in headers {
        if let Ok(header) = Header::from_bytes(name, value) {
            response.add_header(header);
        }
    }
    if let Err(error) = request.respond(response) {
        log::debug!("a reader went away: {error}");
    }
}

fn random_token() -> Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| {
        Error::new(ErrorKind::Io, "the kernel gives no random bytes").source(error)
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
