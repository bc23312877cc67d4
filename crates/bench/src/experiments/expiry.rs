//! `expiry`: what it costs a request that sessions expire all the time.
//!
//! For each contender, one after the other: a stream of cycles at a fixed rate, in which a tenth of the calls meet a
//! session that has expired (as many expire each second as are met), and the same stream with ids in their
//! place whose sessions never were. The second one runs twice a round, so that it is known how much two equal
//! streams differ on this machine. Nobody sweeps. A call that meets no session starts it anew.

use std::ops::Range as Ids;
use std::time::Duration;

use crate::capacity::Filling;
use crate::experiments::phase::Phase;
use crate::experiments::{Bench, Member, go_on};
use crate::histogram::Latencies;
use crate::monotonic::now_ns;
use crate::report::{Buckets, ExpiryVerdict, RoundSample, Row, SlowEnd};
use crate::run::RunError;
use crate::selection::{Choice, Target};
use crate::statistics::Spread;
use crate::worker::protocol::{Action, Expiring, Failure, Plan, Range, Request};
use crate::worker::sample::STREAM_ABSENT_OF;

/// Processes that fill; the first one is timed later.
const CREW: usize = 2;
/// The first meets expired sessions, the others are the baseline.
const STREAMS: [&str; 3] = [EXPIRED, "baseline-a", "baseline-b"];
const EXPIRED: &str = "expired";
/// The first call that meets an expired session comes at least this long after its expiry, plus the warm-up and the longest
/// call that made one: a store reckons the end from some moment in that call, which may be late.
const GUARD: Duration = Duration::from_millis(50);
/// Ids more than the rate asks for, so that chance does not use them up.
const SPARE_IDS: usize = 4;

/// One of the streams, over all rounds.
struct Stream {
    phase: Phase,
    /// How long calls took, without the wait for the end of the call before.
    calls: Latencies,
    samples: Vec<RoundSample>,
    /// p99.9 of the calls of each round, in microseconds.
    p999: Vec<f64>,
    /// Calls that met no session.
    met: u64,
}

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    bench.keep_choices(|choice| match choice.target {
        Target::Reference(_) => Some("a reference row does not care for what expires".to_owned()),
        _ => None,
    });
    bench.progress.expect_more(bench.choices.len() * (1 + bench.settings.rounds * STREAMS.len()));
    for choice in bench.choices.clone() {
        go_on()?;
        // Those that expire, and those that calls start anew, are there beside those that are filled in first.
        let ids = ids_of(bench);
        if !bench.has_room(&choice, Filling { sessions: ids, ids, workers: crew_of(&choice) }) {
            continue;
        }
        let first_row = bench.rows.len();
        let measured = measure(bench, &choice);
        go_on()?;
        if let Err(failure) = measured {
            bench.rows.truncate(first_row);
            let row = bench.failed_row(&choice, EXPIRED, 1, bench.settings.sessions, &failure);
            bench.rows.push(row);
        }
        bench.rows_are_whole()?;
    }
    Ok(())
}

fn measure(bench: &mut Bench, choice: &Choice) -> Result<(), Failure> {
    let settings = bench.settings.clone();
    let absent = absent_of_sample(bench);
    let mut member = bench.enlist(choice, crew_of(choice), settings.sessions, ids_of(bench))?;
    bench.progress.step();
    let mut streams = STREAMS.map(Stream::new);
    let mut random = fastrand::Rng::with_seed(settings.seed);
    let mut next = settings.sessions;
    for round in 1..=settings.rounds {
        let seed = random.u64(..);
        let mut order = [0, 1, 2];
        random.shuffle(&mut order);
        for number in order {
            if go_on().is_err() {
                return Ok(());
            }
            let Some(stream) = streams.get_mut(number) else { continue };
            bench.progress.say(&format!("{} {}, round {round}", choice.title(), stream.phase.op));
            stream.sample(bench, &mut member, next..next + absent, seed)?;
            next += absent;
            bench.progress.step();
        }
    }
    member.weigh(settings.sessions);
    let first_row = bench.rows.len();
    let verdict = verdict(&streams);
    for stream in streams {
        let row = bench.row(choice, stream.phase.op, 1, settings.sessions);
        bench.rows.push(stream.into_row(row, &member));
    }
    let verified = [member.verify(settings.sessions)?, member.verify_created()?];
    if let Some(row) = bench.rows.get_mut(first_row) {
        row.expiry = Some(verdict);
        verified.into_iter().for_each(|verified| verified.put_on(row));
    }
    Ok(())
}

fn crew_of(choice: &Choice) -> usize {
    if choice.shared_by_processes { CREW } else { 1 }
}

/// Sessions that are there in the end, at most.
fn ids_of(bench: &Bench) -> usize {
    bench.settings.sessions + STREAMS.len() * bench.settings.rounds * absent_of_sample(bench)
}

/// Calls of one sample that meet no session.
fn absent_of_sample(bench: &Bench) -> usize {
    let calls = bench.settings.rate.unwrap_or_default() * bench.settings.seconds;
    (calls / STREAM_ABSENT_OF as f64).ceil() as usize + SPARE_IDS
}

/// Makes sessions that expire one after the other, at the pace at which the stream will meet them, and returns when the
/// first of them has expired.
fn fill_expiring(bench: &Bench, member: &mut Member, ids: &Ids<usize>) -> Result<(), Failure> {
    let each_ns = member.fill_ns / bench.settings.sessions.max(1) as u64;
    let filling_ns = each_ns * ids.len() as u64 * 3 / 2 + 20_000_000;
    let at_ns = now_ns() + filling_ns;
    let apart_ns = (STREAM_ABSENT_OF as f64 * 1e9 / bench.settings.rate.unwrap_or(1.0)) as u64;
    let expiring = Some(Expiring { first: ids.start, at_ns, apart_ns });
    let done = member.crew.share(member.workers, Range { expiring, ..Range::whole(ids) }, Request::Fill)?;
    if let Some(message) = done.first_error {
        return Err(Failure { code: "fill".to_owned(), message: member.stage.redact(&message) });
    }
    // It may also have taken longer than planned.
    let due_ns = at_ns.max(now_ns()) + done.longest_ns + GUARD.as_nanos() as u64;
    std::thread::sleep(Duration::from_nanos(due_ns.saturating_sub(now_ns())));
    Ok(())
}

impl Stream {
    fn new(op: &'static str) -> Stream {
        Stream { phase: Phase::new(op), calls: Latencies::new(), samples: Vec::new(), p999: Vec::new(), met: 0 }
    }

    fn sample(&mut self, bench: &Bench, member: &mut Member, ids: Ids<usize>, seed: u64) -> Result<(), Failure> {
        if self.phase.op == EXPIRED {
            fill_expiring(bench, member, &ids)?;
        }
        let settings = &bench.settings;
        let plan = Plan {
            sessions: 0..settings.sessions,
            fresh: ids.clone(),
            warm_up_ns: (settings.warm_up_seconds * 1e9) as u64,
            measure_ns: (settings.seconds * 1e9) as u64,
            // The same calls in the three streams of a round.
            seed,
            rate: settings.rate,
            ..Plan::of(Action::Stream)
        };
        let (mut sample, server_cpu) = member.timed(plan)?;
        member.created.push(ids.start..ids.start + sample.created);
        self.met += sample.created as u64;
        let latencies = Latencies::from_text(&sample.latency).unwrap_or_else(Latencies::new);
        self.samples.push(RoundSample::of(sample.operations, sample.elapsed_ns, &latencies));
        if let Some(calls) = sample.latency_extra.take().as_deref().and_then(Latencies::from_text) {
            self.p999.push(calls.us(0.999));
            self.calls.add(&calls);
        }
        self.phase.add((sample, server_cpu));
        Ok(())
    }

    fn into_row(self, row: Row, member: &Member) -> Row {
        let (rounds, ops_per_second) = (self.samples.len(), RoundSample::spread(&self.samples));
        let p999_us_of_rounds = Some(Spread::of(&self.p999));
        // The second mode that expiry must not have is one of the calls; waits behind a slow one would smear it.
        let histogram = Some(Buckets::of(&self.calls));
        let samples = self.samples;
        Row { rounds, ops_per_second, samples, p999_us_of_rounds, histogram, ..self.phase.into_row(row, member, None) }
    }
}

fn verdict([expired, a, b]: &[Stream; 3]) -> ExpiryVerdict {
    ExpiryVerdict {
        met: expired.met,
        from_call: SlowEnd::of(&expired.calls, &a.calls, &b.calls),
        from_due: SlowEnd::of(&expired.phase.latencies, &a.phase.latencies, &b.phase.latencies),
    }
}
