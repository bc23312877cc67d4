//! A whole storm: start, inject faults, listen, then check what is left.
//!
//! After the last process is dead, every session is read back, the store is verified, everything is
//! destroyed and swept by a clock past every tombstone, and the space is compared with that of the
//! empty store.

use std::io::PipeWriter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use sessile_core::{Budget, Clock, Detail, ErrorKind, Limits, Sessions};

use super::checker::Checker;
use super::client::ReportingClient;
use super::counts::StormCounts;
use super::listener::Listener;
use super::pool::{ProcessCounts, ProcessEvent, StormOptions, WorkerPool};
use super::prober::{self, PROBER, ProbeRequest};
use super::report::{OccupiedSpace, StormReport};
use super::run_sessions::RunSessions;
use super::target::{SpaceRule, StormTarget};
use crate::check::{Failure, ensure};
use crate::testbed::minute;

/// What remains beside the empty store's own space: a segment, a directory that has grown.
const SPACE_SLACK_BYTES: u64 = 8 << 20;
/// One part of so many of the space that was in use at most may wait to be used again.
const KEPT_PART: u64 = 3;
const BEGUN_BYTES_MAX: u64 = 210_000;
/// Of a session: an entry and its due time, and the buckets of all levels of the index.
const TABLE_BYTES_MAX: u64 = 72 + 52;
/// Of the space that was in use at most: a stamp of 8 bytes for each slot of 64.
const STAMPS_PART: u64 = 8;

/// Runs a storm over a store. What the store does wrong is in the report.
pub fn run(options: &StormOptions, target: &StormTarget) -> Result<StormReport, Failure> {
    let store = target.open(Clock::system())?;
    let nonce = fastrand::u64(..);
    let sessions = RunSessions::new(nonce);
    // What a store makes once, with its first session, counts as empty.
    store.create(&sessions.key(u64::MAX), b"first", minute())?;
    store.destroy(&sessions.key(u64::MAX))?;
    let empty = target.occupied();
    let (pipe, reports) = std::io::pipe()?;
    let (probes, requests) = channel();
    let (events, heard_events) = channel();
    let own_reports = Box::new(reports.try_clone()?);
    let client = ReportingClient::new(store.clone(), sessions.clone(), PROBER, own_reports);
    let prober = std::thread::spawn(move || prober::serve(client, requests));
    let checker = Checker::new(options.stuck_ms_max);
    let mut listener = Listener::new(checker, pipe, heard_events, probes.clone());
    let processes = inject_faults(options, &target.url, nonce, reports, events, &mut listener)?;
    let read_back = read_back(&mut listener, probes, prober)?;
    let ids = listener.checker.ids();
    let mut report = StormReport {
        store: target.name.clone(),
        options: options.clone(),
        processes,
        counts: std::mem::take::<StormCounts>(&mut listener.checker.counts),
        read_back,
        verified: None,
        space: None,
        details: Vec::new(),
        notes: Vec::new(),
    };
    verify(&store, &mut report);
    let most = target.occupied();
    sessions.forget();
    for id in ids {
        store.destroy(&sessions.key(id))?;
    }
    sweep_all(target, &mut report)?;
    verify(&store, &mut report);
    drop(store);
    if let (Some(empty), Some(most), Some(after)) = (empty, most, target.occupied()) {
        measure(target.space, [empty, most, after], &mut report);
    }
    Ok(report)
}

fn inject_faults(
    options: &StormOptions,
    url: &str,
    nonce: u64,
    reports: PipeWriter,
    events: Sender<ProcessEvent>,
    listener: &mut Listener,
) -> Result<ProcessCounts, Failure> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                // Pairs with the Release below: the round after it hears of every death.
                let last = over.load(Ordering::Acquire);
                listener.round();
                if last && listener.done() {
                    break;
                }
            }
        });
        let pool = WorkerPool::start(options, url, nonce, reports, events);
        let counts = pool.and_then(|mut pool| {
            pool.run_faults()?;
            // The last processes are not part of the storm: their deaths are no random moments.
            let counts = pool.counts;
            pool.kill_all().map(|()| counts)
        });
        over.store(true, Ordering::Release);
        counts
    })
}

/// Locks and reads every session that was ever mentioned; returns how many. A store that has failed
/// already is only read: a lock that stays for ever costs seconds.
fn read_back(
    listener: &mut Listener,
    probes: Sender<ProbeRequest>,
    prober: JoinHandle<()>,
) -> Result<u64, Failure> {
    listener.probes = None;
    let ids = listener.checker.ids();
    let sound = listener.checker.counts.problems.is_empty();
    let locks = ids.iter().filter(|_| sound).map(|id| ProbeRequest::Lock(*id));
    for request in locks.chain(ids.iter().map(|id| ProbeRequest::Read(*id))) {
        probes.send(request).map_err(|_| Failure("the prober has ended".into()))?;
    }
    drop(probes);
    while !prober.is_finished() {
        listener.round();
    }
    prober.join().map_err(|_| Failure("the prober panicked".into()))?;
    for _ in 0..1_000 {
        listener.round();
        if listener.done() {
            return Ok(ids.len() as u64);
        }
    }
    Err(Failure("some reads could never be judged: the harness is broken".into()))
}

fn verify(store: &Sessions, report: &mut StormReport) {
    match store.verify(&mut |_| ()) {
        Ok(verified) => {
            report.verified = report.verified.max(Some(verified.checked));
            for problem in &verified.problems {
                report.counts.note(format!("verify: {problem}"));
            }
            report.counts.problems_unlisted += verified.unlisted;
        }
        Err(error) if *error.kind() == ErrorKind::Unsupported => {
            let note = "invariants: the store has no verify".to_owned();
            if !report.notes.contains(&note) {
                report.notes.push(note);
            }
        }
        Err(error) => report.counts.note(format!("verify: {error:#}")),
    }
}

/// Sweeps past every tombstone: what is still there then is there for ever.
fn sweep_all(target: &StormTarget, report: &mut StormReport) -> Result<(), Failure> {
    let later =
        target.open(Clock::ahead_of_system(Limits::TOMBSTONE_TTL * 3 + Limits::GRACE_MAX))?;
    let budget = Budget { records_max: 100_000, time_max: Duration::from_secs(1) };
    for _ in 0..2 {
        let mut steps = 0;
        while !later.sweep(budget)?.complete {
            steps += 1;
            ensure(steps < 100_000, || "a sweep never completes".into())?;
        }
    }
    report.details = later.details()?;
    if matches!(target.space, SpaceRule::ReturnedButTable) {
        let data = report.details.iter().find(|(name, _)| *name == "data_file");
        if !matches!(data, Some((_, Detail::Bytes(0)))) {
            report.counts.note("memory of records is left after removing all".into());
        }
    }
    match later.stat() {
        // In somebody's store there may be others.
        Ok(stat) if target.dir.is_some() && stat.sessions + stat.expired > 0 => {
            let (sessions, expired) = (stat.sessions, stat.expired);
            report.counts.note(format!(
                "{sessions} sessions and {expired} expired ones are left after removing all"
            ));
        }
        Err(error) if *error.kind() != ErrorKind::Unsupported => return Err(error.into()),
        _ => {}
    }
    Ok(())
}

fn measure(rule: SpaceRule, [empty, most, after]: [u64; 3], report: &mut StormReport) {
    let more = match rule {
        SpaceRule::Unchecked(why) => return report.notes.push(format!("space: {why}")),
        SpaceRule::Returned => 0,
        SpaceRule::ReturnedButBegun => report.counts.killed_in_change * BEGUN_BYTES_MAX,
        SpaceRule::ReturnedButTable => report.read_back * TABLE_BYTES_MAX + most / STAMPS_PART,
        SpaceRule::ReturnedInParts => most / KEPT_PART,
    };
    let limit = empty + SPACE_SLACK_BYTES + more;
    report.space = Some(OccupiedSpace { empty, most, after, limit });
    if after > limit {
        let problem =
            format!("{after} bytes are occupied after everything was removed, {empty} when empty");
        report.counts.note(problem);
    }
}
