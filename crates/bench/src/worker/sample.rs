//! One sample of one worker: the timed loop.
//!
//! The loop contains only the contender and what `null` measures. Errors are counted and the loop
//! goes on. Operations that start in the warm-up are verified but not recorded.

mod arrivals;
mod request;

use std::ops::Range;
use std::time::Duration;

use sessile_core::Result;
use sessile_results::histogram::Latencies;

use self::arrivals::Arrivals;
use crate::contender::Contender;
use crate::monotonic::{cpu_us, now_ns, wait_until};
use crate::payload::Payloads;
use crate::published::CREATED_TTL;
use crate::worker::protocol::{LeaseTimes, SampleAction, SamplePlan, SampleResult};

enum OpOutcome {
    Done,
    Missed,
    Damaged,
    /// A session that never was is answered.
    Returned,
}

/// Requests whose ids are announced together: their cache misses overlap, and all are still cached
/// when the last one comes.
const AHEAD: usize = 32;

#[derive(Default)]
struct OpTimes {
    granted_ns: u64,
    swept: bool,
}

pub(crate) struct SampleRun<'a> {
    contender: &'a mut dyn Contender,
    payloads: &'a Payloads,
    ttl: Duration,
    plan: SamplePlan,
    random: fastrand::Rng,
    payload: Vec<u8>,
    fresh: Range<usize>,
    /// The sessions of the next requests, last one first.
    ahead: Vec<usize>,
    recording: bool,
    latencies: Latencies,
    extra: Latencies,
    /// When requests were due and how long they took, until it is known which of them count.
    undecided: Vec<(u64, u64)>,
    result: SampleResult,
}

impl<'a> SampleRun<'a> {
    pub(crate) fn new(
        contender: &'a mut dyn Contender,
        payloads: &'a Payloads,
        ttl: Duration,
        plan: SamplePlan,
    ) -> SampleRun<'a> {
        let mut payload = Vec::new();
        payloads.compose(0, 0, &mut payload);
        SampleRun {
            contender,
            payloads,
            ttl,
            random: fastrand::Rng::with_seed(plan.seed),
            payload,
            fresh: plan.fresh.clone(),
            ahead: Vec::with_capacity(AHEAD),
            recording: false,
            latencies: Latencies::new(),
            extra: Latencies::new(),
            undecided: Vec::new(),
            result: SampleResult::default(),
            plan,
        }
    }

    /// `told` says, once it is known, which requests of a plan that is `until_told` count.
    pub(crate) fn run(
        mut self,
        start_ns: u64,
        mut told: impl FnMut() -> Option<Range<u64>>,
    ) -> SampleResult {
        let mut counted = None;
        let record_from = start_ns + self.plan.warm_up_ns;
        let end = record_from + self.plan.measure_ns;
        let most = self.plan.operations_max.unwrap_or(u64::MAX);
        let mut arrivals = self.plan.rate.map(|rate| {
            [(start_ns, record_from), (record_from, end)]
                .map(|(from, until)| Arrivals::between(from, until, rate))
        });
        let mut cpu_before = 0;
        let mut recording_since = 0;
        let mut aside_ns = 0;
        wait_until(start_ns);
        let mut asked = now_ns();
        loop {
            if self.ahead.is_empty() && self.plan.action != SampleAction::Create {
                let since = now_ns();
                self.draw_ahead();
                asked = now_ns();
                // At a fixed rate this falls into the wait for the next request.
                if recording_since != 0 && arrivals.is_none() {
                    aside_ns += asked.saturating_sub(since);
                }
            }
            let due = match &mut arrivals {
                None => asked,
                Some(arrivals) => {
                    let random = &mut self.random;
                    let Some(due) = arrivals.iter_mut().find_map(|it| it.draw(random)) else {
                        break;
                    };
                    if self.plan.until_told && counted.is_none() {
                        counted = told();
                    }
                    if counted.as_ref().is_some_and(|counted| due >= counted.end) {
                        break;
                    }
                    wait_until(due);
                    asked = now_ns();
                    if due < record_from && asked >= record_from {
                        continue; // a queue from the warm-up must not use up recorded time
                    }
                    due
                }
            };
            if recording_since == 0 && due >= record_from {
                recording_since = asked;
                self.recording = true;
                cpu_before = cpu_us();
                asked = now_ns();
            }
            let mut times = OpTimes::default();
            let outcome = self.run_op(&mut times);
            let ended = now_ns();
            let due = if arrivals.is_none() { asked } else { due };
            if recording_since != 0 {
                self.record(outcome, due, asked, &times, ended);
            } else {
                self.count_errors(outcome);
            }
            if recording_since != 0 {
                self.result.elapsed_ns = ended.saturating_sub(recording_since + aside_ns);
            }
            let exhausted = self.plan.action.creates() && self.fresh.is_empty();
            if ended >= end || self.result.operations >= most || exhausted {
                break;
            }
            asked = ended;
        }
        self.result.cpu_us = cpu_us().saturating_sub(cpu_before);
        self.finish(counted)
    }

    fn finish(mut self, counted: Option<Range<u64>>) -> SampleResult {
        if let Some(counted) = counted {
            let undecided = std::mem::take(&mut self.undecided).into_iter();
            let during = undecided.filter(|(due, _)| counted.contains(due));
            during.for_each(|(_, latency)| self.latencies.record(latency));
            self.result.operations = self.latencies.count();
            self.result.elapsed_ns = counted.end.saturating_sub(counted.start);
        }
        self.result.created = self.fresh.start - self.plan.fresh.start;
        self.result.latency = self.latencies.to_text();
        let with_extra = self.plan.action == SampleAction::StartWithSweep;
        self.result.latency_extra = with_extra.then(|| self.extra.to_text());
        self.result
    }

    fn run_op(&mut self, times: &mut OpTimes) -> Result<OpOutcome> {
        self.contender.start_request()?;
        match self.plan.action {
            SampleAction::Create => self.create(),
            SampleAction::Read => self.read(),
            SampleAction::Request(workload) => self.request(workload, times),
            SampleAction::Cycle | SampleAction::Begin | SampleAction::StartWithSweep => {
                self.cycle(times)
            }
        }
    }

    /// Draws the next sessions. A closed loop counts this time neither as latency nor in the rate.
    fn draw_ahead(&mut self) {
        let (random, sessions) = (&mut self.random, self.plan.sessions.clone());
        self.ahead.extend(std::iter::repeat_with(|| random.usize(sessions.clone())).take(AHEAD));
        self.contender.prefetch_ids(&self.ahead);
    }

    fn choose(&mut self) -> usize {
        if self.ahead.is_empty() {
            self.draw_ahead();
        }
        self.ahead.pop().unwrap_or(self.plan.sessions.start)
    }

    fn create(&mut self) -> Result<OpOutcome> {
        let Some(session) = self.fresh.next() else { return Ok(OpOutcome::Missed) };
        self.compose(session, 0);
        let ttl = if self.plan.as_published { CREATED_TTL } else { self.ttl };
        self.contender.create(session, &self.payload, ttl)?;
        Ok(OpOutcome::Done)
    }

    /// As published, as many characters as the payload has are drawn before each write. The
    /// verifiable payload is written.
    fn compose(&mut self, session: usize, counter: u64) {
        if self.plan.as_published {
            let length = self.payload.len();
            let drawn = std::iter::repeat_with(|| self.random.alphanumeric() as u8).take(length);
            self.payload.clear();
            self.payload.extend(drawn);
            std::hint::black_box(&self.payload);
        }
        self.payloads.compose(session as u64, counter, &mut self.payload);
    }

    fn read(&mut self) -> Result<OpOutcome> {
        let session = self.choose();
        let Some(payload) = self.contender.read(session)? else { return Ok(OpOutcome::Missed) };
        let intact = self.payloads.check(session as u64, payload).is_some();
        Ok(if intact { OpOutcome::Done } else { OpOutcome::Damaged })
    }

    fn create_missing(&mut self, session: usize) -> Result<OpOutcome> {
        if self.contender.begin(session)?.is_some() {
            self.contender.release()?;
            return Ok(OpOutcome::Returned);
        }
        self.payloads.compose(session as u64, 0, &mut self.payload);
        self.contender.commit(&self.payload)?;
        Ok(OpOutcome::Done)
    }

    fn cycle(&mut self, times: &mut OpTimes) -> Result<OpOutcome> {
        let session = self.choose();
        let found = self.contender.begin(session)?;
        let missed = found.is_none();
        let counter = found.and_then(|payload| self.payloads.check(session as u64, payload));
        if !matches!(self.plan.action, SampleAction::Cycle | SampleAction::Request(_))
            || self.plan.record_leases
        {
            times.granted_ns = now_ns();
        }
        if self.plan.action == SampleAction::StartWithSweep && self.random.u8(..10) == 0 {
            times.swept = true;
            self.contender.collect_garbage()?;
        }
        let Some(counter) = counter else {
            self.contender.release()?;
            return Ok(if missed { OpOutcome::Missed } else { OpOutcome::Damaged });
        };
        if self.plan.hold_ns > 0 {
            let until = now_ns() + self.plan.hold_ns;
            while now_ns() < until {
                std::hint::spin_loop();
            }
        }
        self.compose(session, counter + 1);
        self.contender.commit(&self.payload)?;
        self.result.commits += 1;
        Ok(OpOutcome::Done)
    }

    fn record(
        &mut self,
        outcome: Result<OpOutcome>,
        due: u64,
        asked: u64,
        times: &OpTimes,
        ended: u64,
    ) {
        if !self.count_errors(outcome) {
            return;
        }
        self.result.operations += 1;
        let measured =
            if self.plan.action == SampleAction::Begin { times.granted_ns } else { ended };
        let latency = measured.saturating_sub(due);
        if self.plan.until_told {
            self.undecided.push((due, latency));
        } else if times.swept {
            self.extra.record(latency)
        } else {
            self.latencies.record(latency)
        }
        if self.plan.record_leases {
            let granted_ns = times.granted_ns;
            self.result.leases.push(LeaseTimes {
                due_ns: due,
                asked_ns: asked,
                granted_ns,
                released_ns: ended,
            });
        }
    }

    /// Counts errors; true without one.
    #[inline]
    fn count_errors(&mut self, outcome: Result<OpOutcome>) -> bool {
        match outcome {
            Ok(OpOutcome::Done) => return true,
            Ok(OpOutcome::Missed) => self.result.misses += 1,
            Ok(OpOutcome::Returned) => self.fail("a session that never was is answered".to_owned()),
            Ok(OpOutcome::Damaged) => self.fail("a payload is not what was written".to_owned()),
            Err(error) => {
                let _ = self.contender.release(); // the failed operation may hold a lock
                self.fail(format!("{error:#}"));
            }
        }
        false
    }

    fn fail(&mut self, message: String) {
        self.result.errors += 1;
        self.result.first_error.get_or_insert(message);
    }
}

#[cfg(test)]
mod tests;
