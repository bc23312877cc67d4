//! `expiry`: the cost for requests when sessions expire all the time.
//!
//! In a stream of cycles at a fixed rate a tenth of the calls meet an expired session. The baseline
//! uses ids that never had a session, and runs twice, which shows how much two equal streams
//! differ. Nothing is swept. A call that meets no session creates it.

use std::ops::Range as Ids;
use std::time::Duration;

use crate::capacity::PlannedFill;
use crate::experiments::phase::PhaseSamples;
use crate::experiments::{Bench, ReadyContender, check_interrupted};
use crate::histogram::Latencies;
use crate::monotonic::now_ns;
use crate::report::{Buckets, ExpiryVerdict, RoundSample, Row, TailComparison};
use crate::run::RunError;
use crate::selection::{Choice, ContenderSource};
use crate::statistics::Spread;
use crate::worker::protocol::{
    ContenderFailure, ExpirySchedule, SampleAction, SamplePlan, SessionRange, WorkerRequest,
};
use crate::worker::sample::STREAM_ABSENT_OF;

const WORKERS: usize = 2;
const STREAMS: [&str; 3] = [EXPIRED, "baseline-a", "baseline-b"];
const EXPIRED: &str = "expired";
/// Between an expiry and the first call that meets it, beside the warm-up and the longest create: a
/// store may reckon the expiry from any moment in that create.
const GUARD: Duration = Duration::from_millis(50);
/// Ids beyond the expected number.
const SPARE_IDS: usize = 4;

struct CallStream {
    phase: PhaseSamples,
    /// Without the wait for the call before.
    calls: Latencies,
    samples: Vec<RoundSample>,
    /// Of the calls of each round, in microseconds.
    p999: Vec<f64>,
    /// Calls that met no session.
    met: u64,
}

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    bench.keep_choices(|choice| match choice.target {
        ContenderSource::Reference(_) => {
            Some("a reference row does not care for what expires".to_owned())
        }
        _ => None,
    });
    bench.progress.expect_more(bench.choices.len() * (1 + bench.settings.rounds * STREAMS.len()));
    for choice in bench.choices.clone() {
        check_interrupted()?;
        // Expired and new sessions lie beside the filled ones.
        let ids = ids_of(bench);
        if !bench
            .has_room(&choice, PlannedFill { sessions: ids, ids, workers: workers_of(&choice) })
        {
            continue;
        }
        let first_row = bench.rows.len();
        let measured = measure(bench, &choice);
        check_interrupted()?;
        if let Err(failure) = measured {
            bench.rows.truncate(first_row);
            let row = bench.failed_row(&choice, EXPIRED, 1, bench.settings.sessions, &failure);
            bench.rows.push(row);
        }
        bench.finish_rows()?;
    }
    Ok(())
}

fn measure(bench: &mut Bench, choice: &Choice) -> Result<(), ContenderFailure> {
    let settings = bench.settings.clone();
    let absent = absent_of_sample(bench);
    let mut contender =
        bench.set_up(choice, workers_of(choice), settings.sessions, ids_of(bench))?;
    bench.progress.advance();
    let mut streams = STREAMS.map(CallStream::new);
    let mut random = fastrand::Rng::with_seed(settings.seed);
    let mut next = settings.sessions;
    for round in 1..=settings.rounds {
        let seed = random.u64(..);
        let mut order = [0, 1, 2];
        random.shuffle(&mut order);
        for number in order {
            if check_interrupted().is_err() {
                return Ok(());
            }
            let Some(stream) = streams.get_mut(number) else { continue };
            bench.progress.set_message(&format!(
                "{} {}, round {round}",
                choice.title(),
                stream.phase.op
            ));
            stream.sample(bench, &mut contender, next..next + absent, seed)?;
            next += absent;
            bench.progress.advance();
        }
    }
    contender.measure_space(settings.sessions);
    let first_row = bench.rows.len();
    let verdict = verdict(&streams);
    for stream in streams {
        let row = bench.row(choice, stream.phase.op, 1, settings.sessions);
        bench.rows.push(stream.into_row(row, &contender));
    }
    let verified = [contender.verify(settings.sessions)?, contender.verify_created()?];
    if let Some(row) = bench.rows.get_mut(first_row) {
        row.expiry = Some(verdict);
        verified.into_iter().for_each(|verified| verified.add_to_row(row));
    }
    Ok(())
}

fn workers_of(choice: &Choice) -> usize {
    if choice.shared_by_processes { WORKERS } else { 1 }
}

fn ids_of(bench: &Bench) -> usize {
    bench.settings.sessions + STREAMS.len() * bench.settings.rounds * absent_of_sample(bench)
}

fn absent_of_sample(bench: &Bench) -> usize {
    let calls = bench.settings.rate.unwrap_or_default() * bench.settings.seconds;
    (calls / STREAM_ABSENT_OF as f64).ceil() as usize + SPARE_IDS
}

/// Creates sessions that expire at the pace of the stream, and returns when the first has expired.
fn fill_expiring(
    bench: &Bench,
    contender: &mut ReadyContender,
    ids: &Ids<usize>,
) -> Result<(), ContenderFailure> {
    let each_ns = contender.fill_ns / bench.settings.sessions.max(1) as u64;
    let filling_ns = each_ns * ids.len() as u64 * 3 / 2 + 20_000_000;
    let at_ns = now_ns() + filling_ns;
    let apart_ns = (STREAM_ABSENT_OF as f64 * 1e9 / bench.settings.rate.unwrap_or(1.0)) as u64;
    let expiring = Some(ExpirySchedule { first: ids.start, at_ns, apart_ns });
    let done = contender.group.run_split(
        contender.workers,
        SessionRange { expiring, ..SessionRange::whole(ids) },
        WorkerRequest::Fill,
    )?;
    if let Some(message) = done.first_error {
        return Err(ContenderFailure {
            code: "fill".to_owned(),
            message: contender.deployment.redact(&message),
        });
    }
    let due_ns = at_ns.max(now_ns()) + done.longest_ns + GUARD.as_nanos() as u64;
    std::thread::sleep(Duration::from_nanos(due_ns.saturating_sub(now_ns())));
    Ok(())
}

impl CallStream {
    fn new(op: &'static str) -> CallStream {
        CallStream {
            phase: PhaseSamples::new(op),
            calls: Latencies::new(),
            samples: Vec::new(),
            p999: Vec::new(),
            met: 0,
        }
    }

    fn sample(
        &mut self,
        bench: &Bench,
        contender: &mut ReadyContender,
        ids: Ids<usize>,
        seed: u64,
    ) -> Result<(), ContenderFailure> {
        if self.phase.op == EXPIRED {
            fill_expiring(bench, contender, &ids)?;
        }
        let settings = &bench.settings;
        let plan = SamplePlan {
            sessions: 0..settings.sessions,
            fresh: ids.clone(),
            warm_up_ns: (settings.warm_up_seconds * 1e9) as u64,
            measure_ns: (settings.seconds * 1e9) as u64,
            // The streams of a round make the same calls.
            seed,
            rate: settings.rate,
            ..SamplePlan::new(SampleAction::Stream)
        };
        let (mut sample, server_cpu) = contender.timed(plan)?;
        contender.created.push(ids.start..ids.start + sample.created);
        self.met += sample.created as u64;
        let latencies = Latencies::from_text(&sample.latency).unwrap_or_else(Latencies::new);
        self.samples.push(RoundSample::new(sample.operations, sample.elapsed_ns, &latencies));
        if let Some(calls) = sample.latency_extra.take().as_deref().and_then(Latencies::from_text) {
            self.p999.push(calls.us(0.999));
            self.calls.add(&calls);
        }
        self.phase.add((sample, server_cpu));
        Ok(())
    }

    fn into_row(self, row: Row, contender: &ReadyContender) -> Row {
        let (rounds, ops_per_second) = (self.samples.len(), RoundSample::spread(&self.samples));
        let p999_us_of_rounds = Some(Spread::of(&self.p999));
        // Waits behind a slow call would smear a second mode.
        let histogram = Some(Buckets::from_latencies(&self.calls));
        let samples = self.samples;
        Row {
            rounds,
            ops_per_second,
            samples,
            p999_us_of_rounds,
            histogram,
            ..self.phase.into_row(row, contender, None)
        }
    }
}

fn verdict([expired, a, b]: &[CallStream; 3]) -> ExpiryVerdict {
    ExpiryVerdict {
        met: expired.met,
        from_call: TailComparison::new(&expired.calls, &a.calls, &b.calls),
        from_due: TailComparison::new(
            &expired.phase.latencies,
            &a.phase.latencies,
            &b.phase.latencies,
        ),
    }
}
