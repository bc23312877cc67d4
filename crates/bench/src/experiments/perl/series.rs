//! The samples of one keeper with one number of sessions, and their rows.
//!
//! Invariant: a row has figures only if every value of every sample was correct.

use sessile_results::histogram::Latencies;
use sessile_results::{CpuUs, LatencyUs, RoundSample, Row, WholeCache};

use crate::experiments::perl::OPS;
use crate::experiments::perl::running_keeper::RunningKeeper;
use crate::experiments::perl::values::{SessionValues, WrongSessions};
use crate::interruption::interrupted;
use crate::perl::{CostBreakdown, RunnerReply};

const MAKE: usize = 0;
const REOPEN: usize = 1;
const WARM_UP_SESSIONS: usize = 50;
/// Sessions that are opened to see where the time goes.
const COST_SESSIONS: usize = 10;

pub(super) struct KeeperSeries {
    pub contender: usize,
    pub sessions: usize,
    phases: [KeeperPhase; 2],
    /// Copy after the last whole round.
    whole: [KeeperPhase; 2],
    /// The phase and the reason.
    failed: Option<(usize, String)>,
    bytes: u64,
    costs: Option<CostBreakdown>,
}

#[derive(Clone)]
struct KeeperPhase {
    latencies: Latencies,
    samples: Vec<RoundSample>,
    operations: u64,
    cpu_us: f64,
    server_cpu_us: f64,
    misses: u64,
    errors: u64,
    lost: u64,
}

impl KeeperSeries {
    pub(super) fn new(contender: usize, sessions: usize) -> KeeperSeries {
        KeeperSeries {
            contender,
            sessions,
            phases: std::array::from_fn(|_| KeeperPhase::new()),
            whole: std::array::from_fn(|_| KeeperPhase::new()),
            failed: None,
            bytes: 0,
            costs: None,
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Takes a small sample that is verified and not recorded.
    pub(super) fn warm_up(&mut self, keeper_process: &mut RunningKeeper, values: &SessionValues) {
        let mut small = KeeperSeries::new(self.contender, self.sessions.min(WARM_UP_SESSIONS));
        small.sample(keeper_process, values, 0);
        let during = |(phase, why)| (phase, format!("during the warm-up: {why}"));
        if let Some(failed) = small.failed.map(during) {
            self.failed = Some(failed);
            for (phase, of_small) in self.phases.iter_mut().zip(small.phases) {
                (phase.misses, phase.errors, phase.lost) =
                    (of_small.misses, of_small.errors, of_small.lost);
            }
        }
    }

    /// Does nothing after a failure.
    pub(super) fn sample(
        &mut self,
        keeper_process: &mut RunningKeeper,
        values: &SessionValues,
        pass: usize,
    ) {
        if self.failed.is_some() {
            return;
        }
        // A signal ends a sample in the middle: no fault of the keeper, and the round does not
        // count.
        if let Err((phase, why)) = self.try_sample(keeper_process, values, pass)
            && !interrupted()
        {
            self.failed = Some((phase, keeper_process.redact(&why)));
        }
    }

    pub(super) fn keep_round(&mut self) {
        self.whole = self.phases.clone();
    }

    fn try_sample(
        &mut self,
        keeper_process: &mut RunningKeeper,
        values: &SessionValues,
        pass: usize,
    ) -> Result<(), (usize, String)> {
        let sessions = self.sessions;
        let (first, second) =
            (values.for_sessions(sessions, 2 * pass), values.for_sessions(sessions, 2 * pass + 1));
        let [make, reopen] = &mut self.phases;
        keeper_process.runner.clear().map_err(|why| (MAKE, why))?;
        make.timed(keeper_process, None, |keeper_process| keeper_process.runner.make(&first))
            .map_err(|why| (MAKE, why))?;
        reopen
            .timed(keeper_process, Some(&first), |keeper_process| {
                keeper_process.runner.reopen(&second)
            })
            .map_err(|why| (REOPEN, why))?;
        self.bytes = keeper_process.bytes().unwrap_or(0);
        let read = keeper_process.runner.read(sessions).map_err(|why| (REOPEN, why))?;
        let wrong = WrongSessions::count(&read.read, Some(&second));
        reopen.lost += wrong.missing + wrong.other;
        check_values(sessions, wrong, "when they were read once more")
            .map_err(|why| (REOPEN, why))?;
        let costs = keeper_process
            .runner
            .cost_breakdown(sessions.min(COST_SESSIONS))
            .map_err(|why| (REOPEN, why))?;
        self.costs = Some(costs);
        Ok(())
    }

    /// `empty` makes rows without figures.
    pub(super) fn into_rows(self, empty: impl Fn(&str, usize) -> Row) -> Vec<Row> {
        let sessions = self.sessions;
        let whole_cache =
            self.costs.as_ref().and_then(|it| WholeCache::new(it, sessions.min(COST_SESSIONS)));
        let bytes =
            whole_cache.as_ref().map_or(self.bytes, |cache| cache.bytes) / sessions.max(1) as u64;
        let mut rows = Vec::new();
        let phases = if self.failed.is_some() { self.phases } else { self.whole };
        for (number, (op, phase)) in OPS.into_iter().zip(phases).enumerate() {
            let failed = match &self.failed {
                Some((at, why)) if *at == number => Some(why.clone()),
                Some(_) if phase.samples.is_empty() => {
                    Some("not measured: there were no sound sessions".to_owned())
                }
                _ => None,
            };
            let mut row =
                Row { failed, bytes_per_session: bytes, ..phase.into_row(empty(op, sessions)) };
            if let Some(figures) = row.keeper.as_mut().filter(|_| number == REOPEN) {
                figures.whole_cache.clone_from(&whole_cache);
            }
            rows.push(row);
        }
        rows
    }
}

fn check_values(sessions: usize, wrong: WrongSessions, when: &str) -> Result<(), String> {
    if wrong == WrongSessions::default() {
        return Ok(());
    }
    let WrongSessions { missing, other } = wrong;
    Err(format!(
        "wrong check value: of {sessions} sessions {missing} were empty and {other} had other \
         values {when}"
    ))
}

impl KeeperPhase {
    fn new() -> KeeperPhase {
        KeeperPhase {
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

    /// Without expected values the sessions must be empty.
    fn timed(
        &mut self,
        keeper_process: &mut RunningKeeper,
        expected: Option<&[String]>,
        run: impl FnOnce(&mut RunningKeeper) -> Result<RunnerReply, String>,
    ) -> Result<(), String> {
        let before = keeper_process.server_cpu();
        let round = run(keeper_process)?;
        self.server_cpu_us +=
            keeper_process.server_cpu().saturating_sub(before).as_secs_f64() * 1e6;
        let wrong = WrongSessions::count(&round.read, expected);
        self.misses += wrong.missing;
        self.errors += wrong.other;
        check_values(round.ns.len(), wrong, "when they were opened")?;
        let mut latencies = Latencies::new();
        round.ns.iter().for_each(|ns| latencies.record(*ns));
        let operations = round.ns.len() as u64;
        self.samples.push(RoundSample::new(operations, round.ns.iter().sum(), &latencies));
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
            latency_us: LatencyUs::new(&self.latencies),
            operations: self.operations,
            errors: self.errors,
            misses: self.misses,
            lost: self.lost,
            cpu_us_per_op: CpuUs { client: each(self.cpu_us), server: each(self.server_cpu_us) },
            ..row
        }
    }
}
