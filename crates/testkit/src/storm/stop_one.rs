//! One process is stopped at a random instruction: do the others' sessions notice?
//!
//! The victim works without a pause, so that it is nearly always inside the store when it is stopped; it never
//! touches the others' sessions. The others make cycles at a fixed rate, and a cycle's latency counts from when
//! it was due: one that hangs for five seconds counts as all the cycles that it kept from being made.
//! The same is measured before without a victim, because a busy machine has slow cycles of its own.

use std::fmt;
use std::io::{BufRead, BufReader, PipeReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use sessile_core::{Clock, Ttl};
use sessile_fixtures::Awake;

use super::actor::{WAIT, key};
use super::event::now_ns;
use super::payload::{Content, content, seal};
use super::target::Target;
use crate::check::{Failure, ensure};
use crate::opener;

/// The word that makes the storm program one of these workers.
pub(super) const CYCLER_WORD: &str = "storm-cycler";
/// Each of the others makes a cycle this often; together they leave most of two cores idle.
const PACE: Duration = Duration::from_millis(5);
const SLOW: Duration = Duration::from_millis(10);
const SHARE_LEAST: f64 = 0.999;
const SESSIONS: u64 = 8;
const PAYLOAD_BYTES: usize = 1_500;

/// One cycle: when it was due, how long after that it was done, and whether it found what it had left.
type Cycle = (u64, u64, bool);

/// What was measured over some windows of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latency {
    cycles: usize,
    slow: usize,
    p50_us: f64,
    p999_us: f64,
    most_us: f64,
}

/// The result.
#[derive(Clone, Debug)]
pub struct StopOne {
    store: String,
    processes: usize,
    stop_seconds: f64,
    stops: usize,
    before: Latency,
    during: Latency,
    bad: usize,
}

/// Measures: `stops` times one process is stopped for `stop_seconds`.
///
/// # Errors
///
/// When the harness itself fails.
pub fn stop_one(
    program: &Path,
    target: &Target,
    processes: usize,
    stop_seconds: f64,
    stops: usize,
) -> Result<StopOne, Failure> {
    ensure(processes > 1, || "one is stopped, so at least two processes are wanted".into())?;
    // The others leave the machine idle in between; what it takes to wake up is not the store's.
    let _awake = Awake::keep();
    let (nonce, stop) = (fastrand::u64(..), Duration::from_secs_f64(stop_seconds));
    let cycles = Arc::new(Mutex::new(Vec::new()));
    let start = |number: usize, pace: Duration| -> Result<Cycler, Failure> {
        let cycles = (!pace.is_zero()).then(|| Arc::clone(&cycles));
        Cycler::start(program, &target.url, [nonce, number as u64, pace.as_micros() as u64], cycles)
    };
    let mut others = (1..processes).map(|number| start(number, PACE)).collect::<Result<Vec<_>, _>>()?;
    std::thread::sleep(Duration::from_millis(300)); // all have opened the store and warmed up
    let calm = (now_ns(), now_ns() + stop.as_nanos() as u64);
    std::thread::sleep(stop);
    let mut victim = start(0, Duration::ZERO)?;
    let mut windows = Vec::new();
    for _ in 0..stops {
        std::thread::sleep(Duration::from_micros(fastrand::u64(200_000..400_000)));
        victim.signal(Signal::SIGSTOP)?;
        let from = now_ns();
        std::thread::sleep(stop);
        windows.push((from, now_ns()));
        victim.signal(Signal::SIGCONT)?;
    }
    // What was due at the end of a window may take its time, and the victim must be able to go on.
    std::thread::sleep(Duration::from_millis(500));
    let alive = others.iter_mut().chain([&mut victim]).all(|cycler| matches!(cycler.child.try_wait(), Ok(None)));
    ensure(alive, || "a process ended by itself; its reason is on standard error".into())?;
    drop((victim, others));
    let cycles = cycles.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(StopOne {
        store: target.name.clone(),
        processes,
        stop_seconds,
        stops,
        before: latency(&cycles, &[calm]),
        during: latency(&cycles, &windows),
        bad: cycles.iter().filter(|(_, _, good)| !good).count(),
    })
}

fn latency(cycles: &[Cycle], windows: &[(u64, u64)]) -> Latency {
    let within = |due: u64| windows.iter().any(|(from, to)| (*from..*to).contains(&due));
    let mut took: Vec<u64> = cycles.iter().filter(|(due, ..)| within(*due)).map(|(_, took, _)| *took).collect();
    took.sort_unstable();
    let last = took.len().saturating_sub(1);
    let at = |share: f64| took.get((last as f64 * share).round() as usize).map_or(0.0, |ns| *ns as f64 / 1e3);
    let slow = took.iter().filter(|took| **took > SLOW.as_nanos() as u64).count();
    Latency { cycles: took.len(), slow, p50_us: at(0.5), p999_us: at(0.999), most_us: at(1.0) }
}

impl Latency {
    fn share(&self) -> f64 {
        if self.cycles == 0 { 0.0 } else { 1.0 - self.slow as f64 / self.cycles as f64 }
    }

    fn json(&self) -> Value {
        json!({
            "cycles": self.cycles, "slow": self.slow, "share_below_10_ms": self.share(),
            "p50_us": self.p50_us, "p999_us": self.p999_us, "max_us": self.most_us,
        })
    }
}

impl StopOne {
    /// 0 passed, 1 below the bar or something read that was not written.
    pub fn exit_code(&self) -> u8 {
        u8::from(self.during.share() < SHARE_LEAST || self.bad > 0)
    }

    /// All numbers.
    pub fn json(&self) -> Value {
        json!({
            "schema": 1,
            "store": self.store,
            "processes": self.processes,
            "stop_seconds": self.stop_seconds,
            "stops": self.stops,
            "without_stop": self.before.json(),
            "during_stops": self.during.json(),
            "wrong_reads": self.bad,
            "passed": self.exit_code() == 0,
        })
    }
}

impl fmt::Display for StopOne {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (store, stops, seconds, others) = (&self.store, self.stops, self.stop_seconds, self.processes - 1);
        writeln!(f, "stop one over {store}: {stops} stops of {seconds} s, {others} others on sessions of their own")?;
        for (when, latency) in [("without a stop", &self.before), ("during the stops", &self.during)] {
            let Latency { cycles, slow, p50_us, p999_us, most_us } = *latency;
            let share = latency.share() * 100.0;
            writeln!(
                f,
                "  {when}: {share:.3} % of {cycles} cycles below 10 ms ({slow} slow); \
                 p50 {p50_us:.0} us, p99.9 {p999_us:.0} us, at most {most_us:.0} us",
            )?;
        }
        match (self.bad, self.exit_code()) {
            (0, 0) => write!(f, "passed"),
            (0, _) => write!(f, "failed: {} % are wanted", SHARE_LEAST * 100.0),
            (bad, _) => write!(f, "failed: {bad} cycles did not find what they had left"),
        }
    }
}

/// A running process of this mode. Killed when dropped.
struct Cycler {
    child: Child,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Cycler {
    fn start(
        program: &Path,
        url: &str,
        numbers: [u64; 3],
        cycles: Option<Arc<Mutex<Vec<Cycle>>>>,
    ) -> Result<Cycler, Failure> {
        let (pipe, report) = std::io::pipe()?;
        let mut command = Command::new(program);
        command.args([CYCLER_WORD, url]).args(numbers.map(|number| number.to_string()));
        let child = command.stdin(Stdio::null()).stdout(report).spawn()?;
        drop(command); // its end of the pipe, or the reader would never see the end
        Ok(Cycler { child, reader: Some(std::thread::spawn(move || collect(pipe, cycles))) })
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let pid = i32::try_from(self.child.id()).map_err(|error| Failure(error.to_string()))?;
        kill(Pid::from_raw(pid), signal).map_err(|error| Failure(format!("cannot send {signal}: {error}")))
    }
}

impl Drop for Cycler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.reader.take().map(std::thread::JoinHandle::join);
    }
}

fn collect(pipe: PipeReader, cycles: Option<Arc<Mutex<Vec<Cycle>>>>) {
    for line in BufReader::new(pipe).lines().map_while(Result::ok) {
        let numbers: Vec<u64> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
        if let (Some(cycles), &[due, took, good]) = (&cycles, numbers.as_slice()) {
            cycles.lock().unwrap_or_else(PoisonError::into_inner).push((due, took, good == 1));
        }
    }
}

/// The process: cycles on its own sessions until it is killed; at a pace, or as fast as it can.
pub(super) fn cycle(url: &str, nonce: u64, number: u64, pace: Duration) -> Result<(), sessile_core::Error> {
    let store = opener::open(url, Clock::system())?;
    let ttl = Ttl::sliding(Duration::from_secs(3_600))?;
    let (mut due, mut left) = (Instant::now(), [None; SESSIONS as usize]);
    for token in 1.. {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let due_ns = now_ns().saturating_sub(due.elapsed().as_nanos() as u64);
        let session = token % SESSIONS;
        let begun = store.begin(&key(nonce, number << 16 | session)?, WAIT)?;
        let found = match content(begun.record.as_ref()) {
            Content::Missing => None,
            Content::Sealed { token, .. } => Some(token),
            Content::Empty | Content::Torn { .. } => Some(0),
        };
        begun.lease.commit(&seal(session, token, token, PAYLOAD_BYTES), ttl)?;
        let took = now_ns().saturating_sub(due_ns);
        let good = left.get_mut(session as usize).is_some_and(|left| left.replace(token) == found);
        if pace.is_zero() {
            due = Instant::now();
            continue;
        }
        due += pace;
        let line = format!("{due_ns} {took} {}\n", u8::from(good));
        let mut out = std::io::stdout().lock();
        if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
            break;
        }
    }
    Ok(())
}
