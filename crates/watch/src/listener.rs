//! What `sessile metrics --listen` and `sessile serve` answer.
//!
//! Invariants: nothing is changed; the page answers only below a random token; a question that may
//! take long runs beside the serving threads, once at a time. Not here: HTTP itself (`http`).

use std::io::Read;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sessile_core::{Clock, Error, ErrorKind, Result, Sessions, Verified};
use sessile_doctor::{Examination, Report, examine};

use crate::history::{History, STEP};
use crate::http::{Answer, Asked, Served};
use crate::metrics::metrics;
use crate::once::{Once, Shown};
use crate::page;
use crate::sample::{Sample, Sampler, locks_of};

const REFRESH_SECONDS: u32 = 10;
/// Of a page that waits for a result.
const ASK_AGAIN_SECONDS: u32 = 2;
/// An older sample says nothing of the store as it is.
const SAMPLE_AGE_MAX: Duration = Duration::from_secs(300);
const TOKEN_BYTES: usize = 16;
const HTML: &str = "text/html; charset=utf-8";
/// The time between two questions whether the server is to end.
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

/// Serves `/metrics` until `ends` says so. `ready` is told the address.
///
/// # Errors
///
/// `Io` if the address is in use.
pub fn serve_metrics(
    sessions: &Sessions,
    address: SocketAddr,
    ready: impl FnOnce(&Served),
    ends: impl Fn() -> bool + Sync,
) -> Result<()> {
    let served = Served::listen(address)?;
    let mut sampler = Sampler::new(sessions.clone(), Clock::system());
    let last = Mutex::new((sampler.sample(), Instant::now()));
    ready(&served);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sample_until(&ends, sampler, &|sample| {
                *locked(&last) = (sample, Instant::now());
            })
        });
        served.serve(&ends, &|asked: &Asked| match asked.path.as_str() {
            "/metrics" | "/" => {
                let (sample, at) = &*locked(&last);
                if at.elapsed() > SAMPLE_AGE_MAX {
                    return Answer::refused(503, "the store has not answered for minutes");
                }
                Answer::new("text/plain; version=0.0.4; charset=utf-8", metrics(sample))
            }
            _ => Answer::not_found(),
        });
    });
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
    let served = Served::listen(options.address)?;
    let token = match &options.token {
        Some(token) => token.clone(),
        None => random_token()?,
    };
    let mut sampler = Sampler::new(sessions.clone(), Clock::system());
    let page = Page {
        sessions,
        examination: &options.examination,
        token: &token,
        history: Mutex::default(),
        checked: Once::new(),
        examined: Once::new(),
    };
    locked(&page.history).push(sampler.sample());
    ready(&served, &token);
    std::thread::scope(|scope| {
        scope.spawn(|| sample_until(&ends, sampler, &|sample| locked(&page.history).push(sample)));
        served.serve(&ends, &|asked: &Asked| page.answer(asked));
    });
    Ok(())
}

/// Keeps a sample after each step. A sample may take minutes; no reader waits for it.
fn sample_until(ends: &impl Fn() -> bool, mut sampler: Sampler, keep: &impl Fn(Sample)) {
    let mut waited = Duration::ZERO;
    while !ends() {
        if waited >= STEP {
            waited = Duration::ZERO;
            keep(sampler.sample());
        }
        std::thread::sleep(ASK_TO_END);
        waited += ASK_TO_END;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Page<'a> {
    sessions: &'a Sessions,
    examination: &'a Examination,
    token: &'a str,
    history: Mutex<History>,
    checked: Once<String>,
    examined: Once<String>,
}

impl Page<'_> {
    fn answer(&self, asked: &Asked) -> Answer {
        let named = asked.path.trim_start_matches('/').split_once('/');
        let Some((_, name)) = named.filter(|(given, _)| same(given, self.token)) else {
            return Answer::not_found();
        };
        match name {
            "" => {
                let history = locked(&self.history).clone();
                let refresh_seconds = (asked.query != "still").then_some(REFRESH_SECONDS);
                Answer { refresh_seconds, ..Answer::new(HTML, page::overview(&history)) }
            }
            "locks" => Answer::new(HTML, page::locks(&self.locks())),
            "check" => {
                let sessions = self.sessions.clone();
                self.shown("Check", self.checked.ask(move || check_page(&sessions)))
            }
            "doctor" => {
                let label = self.sessions.label().to_owned();
                let examination = self.examination.clone();
                self.shown("Doctor", self.examined.ask(move || doctor_page(&label, &examination)))
            }
            _ => Answer::not_found(),
        }
    }

    /// The locks alone: sizes and details may cost minutes.
    fn locks(&self) -> Sample {
        let (locks, error) = match locks_of(self.sessions) {
            Ok(locks) => (Some(locks), None),
            Err(error) if *error.kind() == ErrorKind::Unsupported => (None, None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        let (label, at) = (self.sessions.label().to_owned(), Clock::system().now());
        Sample { label, at, locks, locks_at: at, error, ..Sample::default() }
    }

    fn shown(&self, title: &str, shown: Shown<String>) -> Answer {
        match shown {
            Shown::Fresh(text) => Answer::new(HTML, text),
            Shown::Running(last) => {
                let text = last.unwrap_or_else(|| page::running(title, self.sessions.label()));
                Answer { refresh_seconds: Some(ASK_AGAIN_SECONDS), ..Answer::new(HTML, text) }
            }
        }
    }
}

fn check_page(sessions: &Sessions) -> String {
    let result: Result<Verified> = sessions.verify(&mut |_| {});
    page::checked(sessions.label(), &result)
}

fn doctor_page(label: &str, examination: &Examination) -> String {
    let result: Result<Report> = examine(examination);
    page::examined(label, &result)
}

/// In a time that does not tell how much of it is right.
fn same(given: &str, token: &str) -> bool {
    let different = given.bytes().zip(token.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == token.len() && different == 0
}

fn random_token() -> Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| {
        Error::new(ErrorKind::Io, "the kernel gives no random bytes").source(error)
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
