//! From the name of a host to its addresses, in bounded time.
//!
//! The resolver of the system takes no time-out and no deadline: it waits five seconds for a name
//! server that is dead before it asks the next one. So a thread asks it. The thread ends when the
//! resolver does. An answer that comes too late for its asker is there for the next one.
//!
//! Invariants: at any time at most one thread of a process looks up a name; a thread takes no
//! signal, because the handlers of a host program, as PHP's, count on their own threads; a forked
//! child waits for no thread of its parent.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow};

use crate::locks::process_local::ProcessLocal;

/// For so long an answer that came too late is good.
const LATE_MAX: Duration = Duration::from_secs(60);

/// Those that are under way, and those with an answer that nobody has got.
static LOOK_UPS: ProcessLocal<Vec<Arc<LookUp>>> = ProcessLocal::of_nobody(Vec::new());

/// The port of the addresses is 0.
type Answer = Result<Vec<SocketAddr>, Arc<io::Error>>;

struct LookUp {
    host: String,
    answer: Mutex<Option<(Instant, Answer)>>,
    came: Condvar,
}

impl LookUp {
    fn new(host: &str) -> LookUp {
        LookUp { host: host.to_owned(), answer: Mutex::default(), came: Condvar::new() }
    }

    /// Whether its answer, now or later, is good for an asker that comes now.
    fn is_good(&self) -> bool {
        match self.answer.try_lock().as_deref() {
            Ok(Some((came, answer))) => answer.is_ok() && came.elapsed() < LATE_MAX,
            Ok(None) | Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Poisoned(_)) => false,
        }
    }

    fn answer(&self, answer: Answer) {
        let mut place = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some((Instant::now(), answer));
        self.came.notify_all();
    }

    /// `None` when the time is over.
    fn wait(&self, within: Duration) -> Option<Answer> {
        let place = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.came.wait_timeout_while(place, within, |answer| answer.is_none());
        let (place, _) = waited.unwrap_or_else(PoisonError::into_inner);
        place.as_ref().map(|(_, answer)| answer.clone())
    }
}

pub fn resolve(host: &str, port: u16, within: Duration) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let name = host.to_owned();
    let mut addresses =
        ask(host, within, move || Ok((name.as_str(), 0).to_socket_addrs()?.collect()))?;
    addresses.iter_mut().for_each(|address| address.set_port(port));
    Ok(addresses)
}

fn ask(
    host: &str,
    within: Duration,
    question: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
) -> io::Result<Vec<SocketAddr>> {
    let new = Arc::new(LookUp::new(host));
    let joined = LOOK_UPS.with(|look_ups| {
        look_ups.retain(|look_up| look_up.is_good());
        let joined = look_ups.iter().find(|look_up| look_up.host == host).map(Arc::clone);
        if joined.is_none() {
            look_ups.push(Arc::clone(&new));
        }
        joined
    });
    let look_up = match joined.flatten() {
        Some(joined) => joined,
        None => {
            if let Err(error) = spawn(Arc::clone(&new), question) {
                new.answer(Err(Arc::new(error)));
            }
            new
        }
    };
    let answer = look_up.wait(within).ok_or_else(|| {
        let why = "the name of the host was not looked up in time: a name server does not answer";
        io::Error::new(io::ErrorKind::TimedOut, why)
    })?;
    LOOK_UPS.with(|look_ups| look_ups.retain(|other| !Arc::ptr_eq(other, &look_up)));
    answer.map_err(|error| io::Error::new(error.kind(), error))
}

fn spawn(
    look_up: Arc<LookUp>,
    question: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
) -> io::Result<()> {
    // A new thread inherits the mask.
    let signals = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let thread = std::thread::Builder::new().name("resolve".to_owned());
    let spawned = thread.spawn(move || look_up.answer(question().map_err(Arc::new)));
    signals.thread_set_mask()?;
    spawned.map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU16, Ordering::SeqCst};
    use std::sync::mpsc::channel;

    use nix::sys::signal::Signal;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(50);

    fn address(number: u16) -> Vec<SocketAddr> {
        vec![SocketAddr::new(IpAddr::from([127, 0, 0, 1]), number)]
    }

    #[test]
    fn addresses_need_no_resolver_and_a_name_of_this_host_is_found() {
        let none = Duration::ZERO;
        assert_eq!(resolve("::1", 7, none).unwrap(), ["[::1]:7".parse().unwrap()]);
        assert_eq!(resolve("127.0.0.1", 7, none).unwrap(), ["127.0.0.1:7".parse().unwrap()]);
        assert!(resolve("localhost", 7, LONG).unwrap().iter().all(|found| found.port() == 7));
        assert!(resolve("no host", 7, LONG).is_err());
    }

    #[test]
    fn a_silent_resolver_is_given_up_in_time_and_named() {
        let (_end, silence) = channel::<()>();
        let start = Instant::now();
        let silent = ask("silent", SHORT, move || {
            silence.recv().ok();
            Ok(Vec::new())
        });
        let error = silent.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("name server"), "{error}");
        assert!(start.elapsed() < LONG);
    }

    #[test]
    fn a_thread_that_looks_up_takes_no_signals() {
        let blocked = || SigSet::thread_get_mask().unwrap().contains(Signal::SIGPROF);
        assert!(!blocked());
        let masked = ask("masked", LONG, move || Ok(address(u16::from(blocked()))));
        assert_eq!(masked.unwrap(), address(1));
        assert!(!blocked(), "only for the other thread");
    }

    /// Each request that came while a name server was dead left a thread behind, and none of them
    /// got an answer: it came after each had given up.
    #[test]
    fn requests_share_one_look_up_and_a_late_answer_is_for_the_next() {
        static ASKED: AtomicU16 = AtomicU16::new(0);
        let (end, late) = channel::<()>();
        let first = ask("slow", SHORT, move || {
            late.recv().ok();
            Ok(address(ASKED.fetch_add(1, SeqCst)))
        });
        assert!(first.is_err());
        let other = || ask("slow", SHORT, || Ok(address(10 + ASKED.fetch_add(1, SeqCst))));
        assert!(other().is_err(), "waits for the first one");
        drop(end);
        let next = ask("slow", LONG, || Err(io::ErrorKind::Other.into()));
        assert_eq!(next.unwrap(), address(0), "its answer was too late for two");
        assert_eq!(other().unwrap(), address(11), "and was given out");
    }
}
