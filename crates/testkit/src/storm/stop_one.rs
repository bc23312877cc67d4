//! One process is stopped at a random instruction: do the others' sessions notice?
//!
//! The victim works without a pause, so that it is nearly always inside the store when it is
//! stopped, and never touches the others' sessions. The others make cycles at a fixed rate. A
//! cycle's latency counts from when it was due: one that hangs for five seconds counts as all the
//! cycles that it delayed. The same is measured before without a victim, since a busy machine has
//! slow cycles of its own.

use std::fmt;
use std::io::{BufRead, BufReader, PipeReader, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use sessile_core::Sessions;
use sessile_fixtures::Awake;

use super::client::{HOUR_MS, WAIT};
use super::event::{SeenRecord, now_ns};
use super::orders::{WorkKind, WorkerOrders};
use super::report::percentile;
use super::run_sessions::RunSessions;
use super::target::StormTarget;
use crate::check::{Failure, ensure};
use crate::child::ChildProcess;
use crate::sealed::Seal;
use crate::testbed::{ms, ttl};

/// Each of the others makes a cycle this often; together they leave most of two cores idle.
const PACE_US: u64 = 5_000;
const SLOW_US: f64 = 10_000.0;
const SHARE_LEAST: f64 = 0.999;
const SESSIONS: u64 = 8;
const PAYLOAD_BYTES: usize = 1_500;

/// One cycle: when it was due, how long after that it was done, and whether it found what it had
/// left.
type Cycle = (u64, u64, bool);

struct CycleLatency {
    cycles: usize,
    slow: usize,
    p50_us: f64,
    p999_us: f64,
    max_us: f64,
}

pub struct StopOneReport {
    store: String,
    processes: usize,
    stop_seconds: f64,
    stops: usize,
    before: CycleLatency,
    during: CycleLatency,
    wrong_reads: usize,
}

/// Measures: `stops` times one process is stopped for `stop_seconds`.
pub fn stop_one(
    program: &Path,
    target: &StormTarget,
    processes: usize,
    stop_seconds: f64,
    stops: usize,
) -> Result<StopOneReport, Failure> {
    ensure(processes > 1, || "one is stopped, so at least two processes are wanted".into())?;
    // The machine is idle between cycles; the time to wake it up is not the store's.
    let _awake = Awake::keep();
    let (nonce, stop) = (fastrand::u64(..), Duration::from_secs_f64(stop_seconds));
    let (pipe, reports) = std::io::pipe()?;
    let collecting = std::thread::spawn(move || collect(pipe));
    let start = |number: usize, pace_us: Option<u64>| {
        let (url, worker, work) = (target.url.clone(), number as u64, WorkKind::Cycles { pace_us });
        WorkerOrders { url, nonce, worker, work }.spawn(program, &reports)
    };
    let mut running =
        (1..processes).map(|number| start(number, Some(PACE_US))).collect::<Result<Vec<_>, _>>()?;
    std::thread::sleep(ms(300)); // all have opened the store and warmed up
    let calm = (now_ns(), now_ns() + stop.as_nanos() as u64);
    std::thread::sleep(stop);
    let victim = start(0, None)?;
    let mut windows = Vec::new();
    for _ in 0..stops {
        std::thread::sleep(Duration::from_micros(fastrand::u64(200_000..400_000)));
        victim.signal(Signal::SIGSTOP)?;
        let from = now_ns();
        std::thread::sleep(stop);
        windows.push((from, now_ns()));
        victim.signal(Signal::SIGCONT)?;
    }
    // Cycles that were due at the end of a window may take their time.
    std::thread::sleep(ms(500));
    running.push(victim);
    for process in &mut running {
        let ended = ChildProcess::has_ended(process)?;
        ensure(!ended, || "a process ended by itself; its reason is on standard error".into())?;
    }
    // The pipe ends with its last writer.
    drop((running, reports));
    let cycles = collecting.join().map_err(|_| Failure("the collector panicked".into()))?;
    Ok(StopOneReport {
        store: target.name.clone(),
        processes,
        stop_seconds,
        stops,
        before: latency(&cycles, &[calm]),
        during: latency(&cycles, &windows),
        wrong_reads: cycles.iter().filter(|(_, _, good)| !good).count(),
    })
}

fn collect(pipe: PipeReader) -> Vec<Cycle> {
    let lines = BufReader::new(pipe).lines().map_while(Result::ok);
    lines.filter_map(|line| serde_json::from_str(&line).ok()).collect()
}

fn latency(cycles: &[Cycle], windows: &[(u64, u64)]) -> CycleLatency {
    let within = |due: u64| windows.iter().any(|(from, to)| (*from..*to).contains(&due));
    let due_within = cycles.iter().filter(|(due, ..)| within(*due));
    let mut took_us: Vec<f64> = due_within.map(|(_, took, _)| *took as f64 / 1e3).collect();
    took_us.sort_by(f64::total_cmp);
    CycleLatency {
        cycles: took_us.len(),
        slow: took_us.iter().filter(|us| **us > SLOW_US).count(),
        p50_us: percentile(&took_us, 0.5),
        p999_us: percentile(&took_us, 0.999),
        max_us: percentile(&took_us, 1.0),
    }
}

impl CycleLatency {
    fn share(&self) -> f64 {
        if self.cycles == 0 { 0.0 } else { 1.0 - self.slow as f64 / self.cycles as f64 }
    }

    fn json(&self) -> Value {
        json!({
            "cycles": self.cycles, "slow": self.slow, "share_below_10_ms": self.share(),
            "p50_us": self.p50_us, "p999_us": self.p999_us, "max_us": self.max_us,
        })
    }
}

impl StopOneReport {
    /// 0 passed, 1 below the bar or something read that was not written.
    pub fn exit_code(&self) -> u8 {
        u8::from(self.during.share() < SHARE_LEAST || self.wrong_reads > 0)
    }

    pub fn json(&self) -> Value {
        json!({
            "schema": 1,
            "store": self.store,
            "processes": self.processes,
            "stop_seconds": self.stop_seconds,
            "stops": self.stops,
            "without_stop": self.before.json(),
            "during_stops": self.during.json(),
            "wrong_reads": self.wrong_reads,
            "passed": self.exit_code() == 0,
        })
    }
}

impl fmt::Display for StopOneReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StopOneReport { store, stops, stop_seconds, processes, .. } = self;
        let others = processes - 1;
        writeln!(
            f,
            "stop one over {store}: {stops} stops of {stop_seconds} s, {others} others on sessions \
             of their own"
        )?;
        for (when, latency) in
            [("without a stop", &self.before), ("during the stops", &self.during)]
        {
            let CycleLatency { cycles, slow, p50_us, p999_us, max_us } = *latency;
            let share = latency.share() * 100.0;
            writeln!(
                f,
                "  {when}: {share:.3} % of {cycles} cycles below 10 ms ({slow} slow); \
                 p50 {p50_us:.0} us, p99.9 {p999_us:.0} us, at most {max_us:.0} us",
            )?;
        }
        match (self.wrong_reads, self.exit_code()) {
            (0, 0) => write!(f, "passed"),
            (0, _) => write!(f, "failed: {} % are wanted", SHARE_LEAST * 100.0),
            (wrong, _) => write!(f, "failed: {wrong} cycles did not find what they had left"),
        }
    }
}

/// The process: cycles on its own sessions until it is killed; at a pace, or as fast as it can.
pub(super) fn cycle(
    store: &Sessions,
    sessions: &RunSessions,
    worker: u64,
    pace: Option<Duration>,
) -> sessile_core::Result<()> {
    let (mut due, mut left) = (Instant::now(), [None; SESSIONS as usize]);
    for token in 1.. {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let due_ns = now_ns().saturating_sub(due.elapsed().as_nanos() as u64);
        let session = token % SESSIONS;
        let begun = store.begin(&sessions.key(worker << 16 | session), WAIT)?;
        let found = SeenRecord::from_record(begun.record.as_ref()).token();
        let payload = Seal { session, token, counter: token }.payload(PAYLOAD_BYTES);
        begun.lease.commit(&payload, ttl(ms(HOUR_MS)))?;
        let took = now_ns().saturating_sub(due_ns);
        let good = left.get_mut(session as usize).is_some_and(|left| left.replace(token) == found);
        let Some(pace) = pace else {
            due = Instant::now();
            continue;
        };
        due += pace;
        let line = json!([due_ns, took, good]).to_string() + "\n";
        let mut out = std::io::stdout().lock();
        if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
            break;
        }
    }
    Ok(())
}
