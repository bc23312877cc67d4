//! One keeper with one number of sessions: its samples, and the rows that they make.
//!
//! Invariant: a row has figures only if every value of every sample was what had to be there.

use crate::experiments::perl::OPS;
use crate::experiments::perl::home::Home;
use crate::experiments::perl::values::{Values, Wrong};
use crate::histogram::Latencies;
use crate::interruption::interrupted;
use crate::perl::{Dissected, Round};
use crate::report::{CpuUs, LatencyUs, RoundSample, Row, WholeCache};

const MAKE: usize = 0;
const REOPEN: usize = 1;
/// Sessions of the turn that is not recorded.
const WARM_UP_SESSIONS: usize = 50;
/// Sessions that are opened to see where the time goes.
const DISSECTED_SESSIONS: usize = 10;

/// One combination, and what its samples gave.
pub(super) struct Cell {
    pub member: usize,
    pub sessions: usize,
    phases: [Phase; 2],
    /// As they were after the last whole round.
    whole: [Phase; 2],
    /// In which phase, and why.
    failed: Option<(usize, String)>,
    bytes: u64,
    dissected: Option<Dissected>,
}

#[derive(Clone)]
struct Phase {
    latencies: Latencies,
    samples: Vec<RoundSample>,
    operations: u64,
    cpu_us: f64,
    server_cpu_us: f64,
    misses: u64,
    errors: u64,
    lost: u64,
}

impl Cell {
    pub(super) fn new(member: usize, sessions: usize) -> Cell {
        Cell {
            member,
            sessions,
            phases: std::array::from_fn(|_| Phase::new()),
            whole: std::array::from_fn(|_| Phase::new()),
            failed: None,
            bytes: 0,
            dissected: None,
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// A small sample that is verified and not recorded.
    pub(super) fn warm_up(&mut self, home: &mut Home, values: &Values) {
        let mut small = Cell::new(self.member, self.sessions.min(WARM_UP_SESSIONS));
        small.sample(home, values, 0);
        let during = |(phase, why)| (phase, format!("while it became warm: {why}"));
        if let Some(failed) = small.failed.map(during) {
            self.failed = Some(failed);
            for (phase, of_small) in self.phases.iter_mut().zip(small.phases) {
                (phase.misses, phase.errors, phase.lost) = (of_small.misses, of_small.errors, of_small.lost);
            }
        }
    }

    /// One sample of both, unless one has failed before.
    pub(super) fn sample(&mut self, home: &mut Home, values: &Values, turn: usize) {
        if self.failed.is_some() {
            return;
        }
        // A signal ends a sample in the middle, which is no fault of the keeper; its round does not count.
        if let Err((phase, why)) = self.try_sample(home, values, turn)
            && !interrupted()
        {
            self.failed = Some((phase, home.redact(&why)));
        }
    }

    /// The round is whole.
    pub(super) fn keep_round(&mut self) {
        self.whole = self.phases.clone();
    }

    fn try_sample(&mut self, home: &mut Home, values: &Values, turn: usize) -> Result<(), (usize, String)> {
        let sessions = self.sessions;
        let (first, second) = (values.of(sessions, 2 * turn), values.of(sessions, 2 * turn + 1));
        let [make, reopen] = &mut self.phases;
        home.runner.clear().map_err(|why| (MAKE, why))?;
        make.timed(home, None, |home| home.runner.make(&first)).map_err(|why| (MAKE, why))?;
        reopen.timed(home, Some(&first), |home| home.runner.reopen(&second)).map_err(|why| (REOPEN, why))?;
        self.bytes = home.bytes().unwrap_or(0);
        let read = home.runner.read(sessions).map_err(|why| (REOPEN, why))?;
        let wrong = Wrong::among(&read.read, Some(&second));
        reopen.lost += wrong.missing + wrong.other;
        verdict(sessions, wrong, "when they were read once more").map_err(|why| (REOPEN, why))?;
        let dissected = home.runner.dissect(sessions.min(DISSECTED_SESSIONS)).map_err(|why| (REOPEN, why))?;
        self.dissected = Some(dissected);
        Ok(())
    }

    /// A row for each of both. `empty` makes it but for the figures.
    pub(super) fn into_rows(self, empty: impl Fn(&str, usize) -> Row) -> Vec<Row> {
        let sessions = self.sessions;
        let whole_cache = self.dissected.as_ref().and_then(|it| WholeCache::of(it, sessions.min(DISSECTED_SESSIONS)));
        let bytes = whole_cache.as_ref().map_or(self.bytes, |cache| cache.bytes) / sessions.max(1) as u64;
        let mut rows = Vec::new();
        let phases = if self.failed.is_some() { self.phases } else { self.whole };
        for (number, (op, phase)) in OPS.into_iter().zip(phases).enumerate() {
            let failed = match &self.failed {
                Some((at, why)) if *at == number => Some(why.clone()),
                Some(_) if phase.samples.is_empty() => Some("not measured: there were no sound sessions".to_owned()),
                _ => None,
            };
            let mut row = Row { failed, bytes_per_session: bytes, ..phase.into_row(empty(op, sessions)) };
            if let Some(figures) = row.keeper.as_mut().filter(|_| number == REOPEN) {
                figures.whole_cache.clone_from(&whole_cache);
            }
            rows.push(row);
        }
        rows
    }
}

/// What is wrong with these sessions, in words.
fn verdict(sessions: usize, wrong: Wrong, when: &str) -> Result<(), String> {
    if wrong == Wrong::default() {
        return Ok(());
    }
    let Wrong { missing, other } = wrong;
    Err(format!("wrong check value: of {sessions} sessions {missing} were empty and {other} had other values {when}"))
}

impl Phase {
    fn new() -> Phase {
        Phase {
            latencies: Latencies::new(),
            samples: Vec::new(),
            operations: 0,
            cpu_us: 0.0,
            server_cpu_us: 0.0,
            misses: 0,
            errors: 0,
            lost: 0,
        }
    }

    /// One sample, whose values are compared with the expected ones; without those the sessions must be empty.
    fn timed(
        &mut self,
        home: &mut Home,
        expected: Option<&[String]>,
        run: impl FnOnce(&mut Home) -> Result<Round, String>,
    ) -> Result<(), String> {
        let before = home.server_cpu();
        let round = run(home)?;
        self.server_cpu_us += home.server_cpu().saturating_sub(before).as_secs_f64() * 1e6;
        let wrong = Wrong::among(&round.read, expected);
        self.misses += wrong.missing;
        self.errors += wrong.other;
        verdict(round.ns.len(), wrong, "when they were opened")?;
        let mut latencies = Latencies::new();
        round.ns.iter().for_each(|ns| latencies.record(*ns));
        let operations = round.ns.len() as u64;
        self.samples.push(RoundSample::of(operations, round.ns.iter().sum(), &latencies));
        self.latencies.add(&latencies);
        self.operations += operations;
        self.cpu_us += round.cpu_ns as f64 / 1e3;
        Ok(())
    }

    fn into_row(self, row: Row) -> Row {
        let each = |us: f64| us / self.operations.max(1) as f64;
        Row {
            rounds: self.samples.len(),
            ops_per_second: RoundSample::spread(&self.samples),
            samples: self.samples,
            latency_us: LatencyUs::of(&self.latencies),
            operations: self.operations,
            errors: self.errors,
            misses: self.misses,
            lost: self.lost,
            cpu_us_per_op: CpuUs { client: each(self.cpu_us), server: each(self.server_cpu_us) },
            ..row
        }
    }
}
