//! Which servers do not answer: a request does not wait where other requests have waited.
//!
//! ```text
//!              two failures within no less than FIRST_FAILURES_FOR
//!   available ------------------------------------------------------> out of order
//!       ^  ^                                                           |        ^
//!       |  | first byte                                    next is due |        | no byte in time
//!       |  +--------------------------------------------------- one probe ------+
//!       +--- first byte on any connection
//! ```
//!
//! A failure is a connect that fails, or a new connection on which no byte arrives in time. All
//! that a server answers is a sign of life, also a refusal. What happens on a connection that has
//! carried a byte is no death: not a slow statement, and not the loss of an idle connection. But
//! after a time-out there, the next new connection has only [`SUSPECT_FOR`] for its first byte.
//!
//! A probe is the request that comes when `next` is due. It gets [`PROBE_FOR`], or eight times what
//! the first byte of this server usually takes. Each two seconds one gets `connect_timeout_ms`, so
//! that a server that has become slow is found, too. Other requests wait for a probe under way, and
//! fail if it fails. A host that refuses connections does so at once: while it does, each request
//! is a probe, and none waits for `next`.
//!
//! Invariants: each address has its own state, also those of one host name; a forked child begins
//! with none; no mutex is held over a system call. Not here: whether a request is sent again
//! (`retry.rs`).

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::locks::process_local::ProcessLocal;

/// Failures of a shorter time are an accident, a restart, or the first ones, which are allowed
/// their usual time.
const FIRST_FAILURES_FOR: Duration = Duration::from_millis(700);
const FAILURES_MIN: u32 = 2;
/// Longer than the first byte takes within a data centre, shorter than a visitor notices.
pub const PROBE_FOR: Duration = Duration::from_millis(40);
const SUSPECT_FOR: Duration = Duration::from_millis(250);
const PROBE_TIMES_USUAL: u32 = 8;
const PATIENT_EACH: Duration = Duration::from_secs(2);
/// An outage that nobody has seen for so long may be over: the next request is allowed its usual
/// time. Where connections are refused, that is little.
const FORGET_REFUSED: Duration = Duration::from_secs(5);
const FORGET_SILENT: Duration = Duration::from_secs(60);
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// A server that is back is used again within this time.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Beyond, the oldest is forgotten.
const SERVERS_MAX: usize = 1_024;

static SERVERS: ProcessLocal<Vec<Server>> = ProcessLocal::of_nobody(Vec::new());

thread_local! {
    /// For how long the server has not answered that refused the last connect of this thread.
    static OUTAGE: Cell<Option<Duration>> = const { Cell::new(None) };
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

struct Server {
    place: Place,
    /// The shortest time from a connect to the first byte.
    usual: Option<Duration>,
    /// Since when a connection that had worked was silent.
    suspect: Option<Instant>,
    outage: Option<Outage>,
}

#[derive(Clone, Copy)]
struct Outage {
    since: Instant,
    failures: u32,
    probes: u32,
    /// When a request had its usual time last.
    patient: Instant,
    /// When the last failure ended.
    seen: Instant,
    /// From when on a request may probe.
    next: Instant,
    /// Until when the probe under way counts as such: its request may have been killed.
    probing: Option<Instant>,
    last: io::ErrorKind,
}

impl Outage {
    /// Whether a try costs next to nothing: the host is there, and the server is not.
    fn is_refused_at_once(&self) -> bool {
        matches!(self.last, io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
    }

    fn is_forgotten(&self, now: Instant) -> bool {
        let after = if self.is_refused_at_once() { FORGET_REFUSED } else { FORGET_SILENT };
        now.duration_since(self.seen) > after && self.probing.is_none_or(|end| end < now)
    }

    fn is_over_the_first_failures(&self, now: Instant) -> bool {
        self.failures >= FAILURES_MIN && now.duration_since(self.since) >= FIRST_FAILURES_FOR
    }
}

enum Admission {
    Free,
    Probe(Duration),
    ProbeUnderWay(Outage),
    KeptOut(Outage),
}

/// For how long the server has not answered that the last request of this thread did not wait for.
pub fn outage() -> Option<Duration> {
    OUTAGE.get()
}

/// Before another request of this thread.
pub fn forget_outage() {
    OUTAGE.set(None);
}

/// After a connect to a name, which is out of order for as long as all of its addresses are.
pub fn set_outage_of_all(outages: Vec<Option<Duration>>) {
    let all = outages.into_iter().collect::<Option<Vec<Duration>>>();
    OUTAGE.set(all.and_then(|all| all.into_iter().min()));
}

/// The state of a new connection until the server has sent its first byte.
pub struct Watch {
    place: Place,
    pid: u32,
    start: Instant,
    /// A shorter silence says nothing.
    patience: Duration,
    /// The end of a probe.
    pub probe_ends: Option<Instant>,
    settled: bool,
}

impl Watch {
    /// Before a connect that may take this long. The error says since when the server does not
    /// answer.
    pub fn admit(place: Place, patience: Duration, deadline: Instant) -> io::Result<Watch> {
        forget_outage();
        let first = Instant::now();
        loop {
            let now = Instant::now();
            let watch = |probe_ends| {
                let (place, pid) = (place.clone(), std::process::id());
                Watch { place, pid, start: now, patience, probe_ends, settled: false }
            };
            match admit(&place, now, patience) {
                Admission::Free => return Ok(watch(None)),
                Admission::Probe(time) => return Ok(watch(Some(now + time))),
                Admission::ProbeUnderWay(_)
                    if now.duration_since(first) < PROBE_FOR && now < deadline =>
                {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Admission::ProbeUnderWay(outage) | Admission::KeptOut(outage) => {
                    OUTAGE.set(Some(now.duration_since(outage.since)));
                    return Err(refusal(outage, now));
                }
            }
        }
    }

    /// The first byte has arrived.
    pub fn heard(mut self) {
        self.settled = true;
        if self.pid == std::process::id() {
            OUTAGE.set(None);
            answered(&self.place, self.start.elapsed());
        }
    }

    /// The connect failed, or nothing arrived until the deadline. Returns what to tell: of a probe,
    /// since when the server does not answer.
    pub fn failed(&mut self, error: io::Error, connected: bool) -> io::Error {
        let outage = self.note_failure(error.kind(), connected);
        outage.map_or(error, |outage| refusal(outage, Instant::now()))
    }

    fn note_failure(&mut self, kind: io::ErrorKind, connected: bool) -> Option<Outage> {
        use io::ErrorKind::{
            ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable, NetworkDown,
            NetworkUnreachable, NotFound, TimedOut,
        };
        let now = Instant::now();
        let is_death = match kind {
            // The operation may have had little time left.
            TimedOut => now.duration_since(self.start) >= self.patience.mul_f32(0.9),
            ConnectionRefused | ConnectionAborted | ConnectionReset | HostUnreachable
            | NetworkDown | NetworkUnreachable | NotFound => !connected,
            _ => false,
        };
        let is_probe = self.probe_ends.is_some();
        if self.pid != std::process::id() || self.settled || !is_death && !is_probe {
            return None;
        }
        self.settled = true;
        if kind == TimedOut && self.probe_ends.is_some_and(|end| now < end) {
            SERVERS.with(|servers| {
                let outage = &mut entry(servers, &self.place).outage;
                outage.iter_mut().for_each(|outage| outage.probing = None);
            });
            return None;
        }
        // A server that takes connections and is silent is not a lost packet.
        let weight = if connected || is_probe { FAILURES_MIN } else { 1 };
        let outage = failed(&self.place, self.start, now, kind, weight);
        let outage = outage.filter(|known| is_probe && known.is_over_the_first_failures(now))?;
        OUTAGE.set(Some(now.duration_since(outage.since)));
        Some(outage)
    }
}

/// A probe whose connection ends without a byte has failed.
impl Drop for Watch {
    fn drop(&mut self) {
        if self.probe_ends.is_some() {
            self.note_failure(io::ErrorKind::UnexpectedEof, true);
        }
    }
}

fn refusal(outage: Outage, now: Instant) -> io::Error {
    let since = now.duration_since(outage.since).as_secs_f32();
    let (tries, last) = (outage.failures, outage.last);
    let why = format!(
        "no answer for {since:.1} s ({tries} failures, the last one: {last}); requests no longer \
         wait for it, and it is used again within about a second after it has come back"
    );
    io::Error::new(outage.last, why)
}

fn admit(place: &Place, now: Instant, patience: Duration) -> Admission {
    let admission = SERVERS.with(|servers| {
        let server = servers.iter_mut().find(|server| server.place == *place)?;
        let usual = server.usual;
        let long = |least: Duration| {
            usual.map_or(least, |usual| least.max(usual * PROBE_TIMES_USUAL)).min(patience)
        };
        server.outage = server.outage.filter(|outage| !outage.is_forgotten(now));
        let over = |outage: &&mut Outage| outage.is_over_the_first_failures(now);
        let Some(outage) = server.outage.as_mut().filter(over) else {
            return server.suspect.map(|_| Admission::Probe(long(SUSPECT_FOR)));
        };
        if outage.is_refused_at_once() {
            return Some(Admission::Probe(long(SUSPECT_FOR)));
        }
        if outage.probing.is_some_and(|end| now < end) {
            return Some(Admission::ProbeUnderWay(*outage));
        }
        if now < outage.next {
            return Some(Admission::KeptOut(*outage));
        }
        outage.probes = outage.probes.wrapping_add(1);
        let is_patient = now.duration_since(outage.patient) >= PATIENT_EACH;
        if is_patient {
            outage.patient = now;
        }
        let time = if is_patient { patience } else { long(PROBE_FOR) };
        outage.probing = Some(now + time);
        Some(Admission::Probe(time))
    });
    admission.flatten().unwrap_or(Admission::Free)
}

/// A connection that had worked has been silent since then.
pub fn stalled(place: &Place, since: Instant) {
    SERVERS.with(|servers| {
        entry(servers, place).suspect.get_or_insert(since);
    });
}

fn answered(place: &Place, took: Duration) {
    SERVERS.with(|servers| {
        let server = entry(servers, place);
        (server.outage, server.suspect) = (None, None);
        server.usual = Some(server.usual.map_or(took, |usual| usual.min(took)));
    });
}

fn failed(
    place: &Place,
    start: Instant,
    now: Instant,
    last: io::ErrorKind,
    weight: u32,
) -> Option<Outage> {
    let jitter = jitter();
    SERVERS.with(|servers| {
        let Server { outage, .. } = entry(servers, place);
        let before = outage.unwrap_or(Outage {
            since: start,
            failures: 0,
            probes: 0,
            patient: now,
            seen: now,
            next: now,
            probing: None,
            last,
        });
        // The first probe comes at once, the others after growing pauses.
        let doublings = before.probes.saturating_sub(1).min(8);
        let pause = (PAUSE_FIRST * (1 << doublings)).min(PAUSE_MAX).mul_f32(jitter);
        let next = if before.probes == 0 { now } else { now + pause };
        let failures = before.failures.saturating_add(weight);
        *outage.insert(Outage { failures, next, probing: None, last, seen: now, ..before })
    })
}

fn entry<'s>(servers: &'s mut Vec<Server>, place: &Place) -> &'s mut Server {
    let at = servers.iter().position(|server| server.place == *place).unwrap_or_else(|| {
        if servers.len() >= SERVERS_MAX {
            servers.remove(0);
        }
        servers.push(Server { place: place.clone(), usual: None, suspect: None, outage: None });
        servers.len() - 1
    });
    #[expect(clippy::indexing_slicing, reason = "the position of an element")]
    &mut servers[at]
}

/// From a half to one: the workers of a host do not probe all at once.
pub fn jitter() -> f32 {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
    let mixed = (nanos ^ std::process::id()).wrapping_mul(2_654_435_761) >> 16;
    0.5 + 0.5 * (mixed as f32 / 65_536.0)
}

#[cfg(test)]
mod tests;
