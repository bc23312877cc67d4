//! The workers of one contender, as their parent sees them.
//!
//! Invariant: dropping the group ends its processes, and its sessions in a store of the user are
//! handed over for removal. A worker that dies, stays silent or breaks the protocol fails its
//! contender's rows, never the run.

use std::time::Duration;

use sessile_results::WorkerMemory;

use crate::interruption::{GiveUpCheck, interrupted, out_of_time};
use crate::monotonic::{now_ns, wait_until};
use crate::worker::cleanup::{CreatedSessions, PIECE};
use crate::worker::memory::measure_memory;
use crate::worker::oversize::{SaveReport, SaveTask};
use crate::worker::placement;
use crate::worker::process::{Launch, TASK_MAX, WorkerProcess, check_server, failure, unexpected};
use crate::worker::protocol::{
    OpenRequest, SamplePlan, SampleResult, SessionRange, TaskTotals, WorkerReply, WorkerRequest,
    WorkerResult,
};

pub(crate) struct WorkerGroup {
    workers: Vec<WorkerProcess>,
    server: Option<u32>,
    /// Sessions in a store that outlives the workers.
    created_sessions: Option<CreatedSessions>,
}

/// One operation may wait long for a lock.
const SAMPLE_GRACE: Duration = Duration::from_secs(60);

impl WorkerGroup {
    /// Returns when all workers have opened the contender. `created_sessions` records their
    /// sessions in a store of the user.
    pub(crate) fn start(
        launch: &Launch,
        opening: &OpenRequest,
        count: usize,
        server: Option<u32>,
        created_sessions: Option<CreatedSessions>,
    ) -> WorkerResult<WorkerGroup> {
        let mut group = WorkerGroup::open(launch, opening, count, server, interrupted)?;
        group.created_sessions = created_sessions;
        Ok(group)
    }

    /// These workers must create nothing.
    pub(super) fn open(
        launch: &Launch,
        opening: &OpenRequest,
        count: usize,
        server: Option<u32>,
        gives_up: GiveUpCheck,
    ) -> WorkerResult<WorkerGroup> {
        let mut group =
            WorkerGroup { workers: Vec::with_capacity(count), server, created_sessions: None };
        for worker in 0..count {
            // In turn: the first may create files that the others only open.
            let mut process =
                WorkerProcess::open(launch, &OpenRequest { worker, ..opening.clone() }, gives_up)?;
            process.depend_on(server);
            group.workers.push(process);
        }
        Ok(group)
    }

    /// Replaces killed workers by one; their sessions stay.
    pub(crate) fn replace_killed(
        &mut self,
        launch: &Launch,
        opening: &OpenRequest,
        server: Option<u32>,
    ) -> WorkerResult<()> {
        let mut other = WorkerGroup::open(launch, opening, 1, server, interrupted)?;
        std::mem::swap(&mut self.workers, &mut other.workers);
        self.server = server;
        Ok(())
    }

    /// Sends one request to each of the first `count` workers, which share a range of sessions.
    pub(crate) fn run_split(
        &mut self,
        count: usize,
        range: SessionRange,
        request: impl Fn(SessionRange) -> WorkerRequest,
    ) -> WorkerResult<TaskTotals> {
        let (gives_up, fills): (GiveUpCheck, bool) = match request(range) {
            WorkerRequest::Fill(_) => (interrupted, true),
            // Nothing is valid without verification.
            WorkerRequest::Verify(_) => (out_of_time, false),
            _ => (interrupted, false),
        };
        // Small pieces, so that not many more ids are recorded than are created.
        let piece = if fills && self.created_sessions.is_some() { PIECE } else { usize::MAX };
        let mut total = TaskTotals::default();
        for from in (range.from..range.to).step_by(piece) {
            let to = range.to.min(from.saturating_add(piece));
            let done = self.run_piece(
                count,
                SessionRange { from, to, ..range },
                &request,
                TASK_MAX,
                gives_up,
            )?;
            // Out of time, or full. Ids that are not asked for are not recorded: a store may keep a
            // tombstone of each removed id.
            let is_short = done.count < (to - from) as u64;
            total.elapsed_ns += done.elapsed_ns;
            total.add(done);
            if is_short {
                break;
            }
        }
        Ok(total)
    }

    pub(super) fn run_piece(
        &mut self,
        count: usize,
        range: SessionRange,
        request: &impl Fn(SessionRange) -> WorkerRequest,
        within: Duration,
        gives_up: GiveUpCheck,
    ) -> WorkerResult<TaskTotals> {
        check_server(self.server)?;
        let step = self.workers.len().min(count).max(1);
        for number in 0..step.min(self.workers.len()) {
            self.send(number, &request(SessionRange { from: range.from + number, step, ..range }))?;
        }
        let mut total = TaskTotals::default();
        for worker in self.workers.iter_mut().take(step) {
            let done = worker.done(within, gives_up)?;
            total.elapsed_ns = total.elapsed_ns.max(done.elapsed_ns);
            total.add(done);
        }
        Ok(total)
    }

    /// Every request is recorded before it is sent.
    fn send(&mut self, worker: usize, request: &WorkerRequest) -> WorkerResult<()> {
        if let Some(created_sessions) = &mut self.created_sessions {
            created_sessions.record_request(request);
        }
        self.worker(worker)?.send(request)
    }

    /// The first worker saves a large payload.
    pub(crate) fn save(&mut self, save: SaveTask) -> WorkerResult<SaveReport> {
        self.send(0, &WorkerRequest::Save(save))?;
        match self.worker(0)?.receive(TASK_MAX, interrupted)? {
            WorkerReply::Saved(saved) => Ok(saved),
            other => Err(unexpected(&other)),
        }
    }

    /// Does not wait for their end.
    pub(crate) fn kill(&mut self) {
        self.workers.iter_mut().for_each(WorkerProcess::kill);
    }

    pub(crate) fn reap(&mut self) {
        self.workers.iter_mut().for_each(WorkerProcess::reap);
    }

    /// A store without a directory or server keeps its sessions in this process.
    pub(crate) fn first_pid(&self) -> u32 {
        self.workers.first().map_or(0, |worker| worker.pid())
    }

    /// Pins each of the first `count` workers to a processor; equal seeds give equal processors.
    pub(crate) fn pin(&self, count: usize, seed: u64) -> WorkerResult<()> {
        let placed = placement::draw_processors(count, seed).and_then(|processors| {
            let mut workers = self.workers.iter().zip(&processors);
            workers.try_for_each(|(worker, processors)| placement::pin(worker.pid(), processors))
        });
        placed.map_err(|error| {
            let why = format!(
                "two programs are measured on the same processors, and a worker cannot be put \
                 there: {error}; \
                 sched_setaffinity must be allowed (a container may forbid it), and no processor \
                 be taken away meanwhile"
            );
            failure("worker", why)
        })
    }

    pub(crate) fn memory(&self, count: usize) -> WorkerMemory {
        measure_memory(self.workers.iter().take(count).map(|worker| worker.pid()))
    }

    /// Does not wait for the answer.
    pub(crate) fn begin_task(
        &mut self,
        worker: usize,
        request: &WorkerRequest,
    ) -> WorkerResult<()> {
        self.send(worker, request)
    }

    /// Waits for the answer.
    pub(crate) fn end_task(&mut self, worker: usize) -> WorkerResult<TaskTotals> {
        self.worker(worker)?.done(TASK_MAX, interrupted)
    }

    /// Returns when the sample starts.
    pub(crate) fn begin_sample(
        &mut self,
        plans: &[SamplePlan],
        gives_up: GiveUpCheck,
    ) -> WorkerResult<u64> {
        const LEAD_NS: u64 = 3_000_000;
        check_server(self.server)?;
        for (number, plan) in plans.iter().enumerate().take(self.workers.len()) {
            self.send(number, &WorkerRequest::Sample(plan.clone()))?;
        }
        for (worker, _) in self.workers.iter_mut().zip(plans) {
            worker.ready(TASK_MAX, gives_up)?;
        }
        let start_ns = now_ns() + LEAD_NS;
        for (worker, _) in self.workers.iter_mut().zip(plans) {
            worker.send(&WorkerRequest::Go { start_ns })?;
        }
        Ok(start_ns)
    }

    /// Ends the sample of the first worker, of which only requests count that were due within this
    /// time. It creates nothing.
    pub(crate) fn end_sample(
        &mut self,
        counted: std::ops::Range<u64>,
    ) -> WorkerResult<SampleResult> {
        let worker = self.worker(0)?;
        worker.send(&WorkerRequest::EndSample(counted))?;
        match worker.receive(SAMPLE_GRACE, interrupted)? {
            WorkerReply::Sampled(sample) => Ok(*sample),
            other => Err(unexpected(&other)),
        }
    }

    /// One sample of as many workers as there are plans. `observe` is called when recording starts
    /// and after the last answer, to read a server's CPU time.
    pub(crate) fn sample<T>(
        &mut self,
        plans: &[SamplePlan],
        gives_up: GiveUpCheck,
        mut observe: impl FnMut() -> T,
    ) -> WorkerResult<(Vec<SampleResult>, T, T)> {
        let start_ns = self.begin_sample(plans, gives_up)?;
        let warm_up_ns = plans.first().map_or(0, |plan| plan.warm_up_ns);
        wait_until(start_ns + warm_up_ns);
        let before = observe();
        let mut sampled = Vec::with_capacity(plans.len());
        for (worker, plan) in self.workers.iter_mut().zip(plans) {
            match worker.receive(Duration::from_nanos(plan.measure_ns) + SAMPLE_GRACE, gives_up)? {
                WorkerReply::Sampled(sample) => sampled.push(*sample),
                other => return Err(unexpected(&other)),
            }
        }
        if let Some(created_sessions) = &mut self.created_sessions {
            plans
                .iter()
                .zip(&sampled)
                .for_each(|(plan, sample)| created_sessions.trim_sample(plan, sample.created));
        }
        Ok((sampled, before, observe()))
    }

    fn worker(&mut self, number: usize) -> WorkerResult<&mut WorkerProcess> {
        self.workers.get_mut(number).ok_or_else(|| failure("protocol", "there is no such worker"))
    }
}

impl Drop for WorkerGroup {
    fn drop(&mut self) {
        WorkerProcess::end(self.workers.iter_mut());
        if let Some(created_sessions) = self.created_sessions.take() {
            created_sessions.hand_over();
        }
    }
}
