//! The parent's side: the workers of one contender.
//!
//! Invariant: a crew that is dropped has no process left, and what it has made in a store of the user's is in the hands of who
//! removes it. A worker that dies, stays silent or answers something else fails its contender's rows, never the run.

use std::time::Duration;

use crate::interruption::{GivesUp, interrupted, out_of_time};
use crate::monotonic::{now_ns, wait_until};
use crate::worker::leftovers::{Leftovers, PIECE};
use crate::worker::memory::WorkerMemory;
use crate::worker::oversize::{Save, Saved};
use crate::worker::placement;
use crate::worker::process::{Launch, Process, TASK_MAX, failure, server_lives, unexpected};
use crate::worker::protocol::{Done, Failure, Opening, Plan, Range, Reply, Request, Sampled};

/// The workers of one contender.
pub(crate) struct Crew {
    workers: Vec<Process>,
    /// The private server that they talk to.
    server: Option<u32>,
    /// What it has made, where the store does not end with it.
    leftovers: Option<Leftovers>,
}

/// Time beyond the planned end of a sample: one operation may wait for a lock for long.
const SAMPLE_GRACE: Duration = Duration::from_secs(60);

impl Crew {
    /// Starts the workers; all of them have opened the contender when this returns. Who makes sessions in a store of the
    /// user's brings along where they are taken down.
    pub(crate) fn start(
        launch: &Launch,
        opening: &Opening,
        count: usize,
        server: Option<u32>,
        leftovers: Option<Leftovers>,
    ) -> Result<Crew, Failure> {
        let mut crew = Crew::open(launch, opening, count, server, interrupted)?;
        crew.leftovers = leftovers;
        Ok(crew)
    }

    /// Workers that make nothing, unless whoever waits gives up.
    pub(super) fn open(
        launch: &Launch,
        opening: &Opening,
        count: usize,
        server: Option<u32>,
        gives_up: GivesUp,
    ) -> Result<Crew, Failure> {
        let mut crew = Crew { workers: Vec::with_capacity(count), server, leftovers: None };
        for worker in 0..count {
            // One after the other: the first may create files that the others only open.
            let mut process = Process::open_unless(launch, &Opening { worker, ..opening.clone() }, gives_up)?;
            process.needs(server);
            crew.workers.push(process);
        }
        Ok(crew)
    }

    /// Another worker in place of those that were killed; what they have made stays.
    pub(crate) fn renew(&mut self, launch: &Launch, opening: &Opening, server: Option<u32>) -> Result<(), Failure> {
        let mut other = Crew::open(launch, opening, 1, server, interrupted)?;
        std::mem::swap(&mut self.workers, &mut other.workers);
        self.server = server;
        Ok(())
    }

    /// One request to each of the first `count` workers, which share a range of sessions.
    pub(crate) fn share(
        &mut self,
        count: usize,
        range: Range,
        request: impl Fn(Range) -> Request,
    ) -> Result<Done, Failure> {
        let (gives_up, fills): (GivesUp, bool) = match request(range) {
            Request::Fill(_) => (interrupted, true),
            Request::Verify(_) => (out_of_time, false), // what was measured is worth nothing without it
            _ => (interrupted, false),
        };
        // Where it is taken down, so that not much more is than was made.
        let piece = if fills && self.leftovers.is_some() { PIECE } else { usize::MAX };
        let mut total = Done::default();
        for from in (range.from..range.to).step_by(piece) {
            let to = range.to.min(from.saturating_add(piece));
            let done = self.ask(count, Range { from, to, ..range }, &request, TASK_MAX, gives_up)?;
            // Out of time, or full. What is not asked for is not taken down, and a store may keep a trace of each id that is removed.
            let is_short = done.count < (to - from) as u64;
            total.elapsed_ns += done.elapsed_ns;
            total.add(done);
            if is_short {
                break;
            }
        }
        Ok(total)
    }

    /// The same at once, within a time and unless whoever waits gives up.
    pub(super) fn ask(
        &mut self,
        count: usize,
        range: Range,
        request: &impl Fn(Range) -> Request,
        within: Duration,
        gives_up: GivesUp,
    ) -> Result<Done, Failure> {
        server_lives(self.server)?;
        let step = self.workers.len().min(count).max(1);
        for number in 0..step.min(self.workers.len()) {
            self.send(number, &request(Range { from: range.from + number, step, ..range }))?;
        }
        let mut total = Done::default();
        for worker in self.workers.iter_mut().take(step) {
            let done = worker.done(within, gives_up)?;
            total.elapsed_ns = total.elapsed_ns.max(done.elapsed_ns);
            total.add(done);
        }
        Ok(total)
    }

    /// Every request of a crew goes this way, and is taken down first.
    fn send(&mut self, worker: usize, request: &Request) -> Result<(), Failure> {
        if let Some(leftovers) = &mut self.leftovers {
            leftovers.expect(request);
        }
        self.worker(worker)?.send(request)
    }

    /// What becomes of a large payload in the hands of the first worker.
    pub(crate) fn save(&mut self, save: Save) -> Result<Saved, Failure> {
        self.send(0, &Request::Save(save))?;
        match self.worker(0)?.receive(TASK_MAX)? {
            Reply::Saved(saved) => Ok(saved),
            other => Err(unexpected(&other)),
        }
    }

    /// Kills all workers with SIGKILL, and does not wait until they are gone.
    pub(crate) fn kill(&mut self) {
        self.workers.iter_mut().for_each(Process::kill);
    }

    /// Waits until all of them are gone.
    pub(crate) fn reap(&mut self) {
        self.workers.iter_mut().for_each(Process::reap);
    }

    /// The process of the first worker: where a store without a place of its own keeps its sessions.
    pub(crate) fn first_pid(&self) -> u32 {
        self.workers.first().map_or(0, |worker| worker.pid())
    }

    /// Gives each of the first `count` workers a processor, drawn by a seed: others with the same seed have the same ones.
    pub(crate) fn place(&self, count: usize, seed: u64) -> Result<(), Failure> {
        let placed = placement::drawn(count, seed).and_then(|processors| {
            let mut workers = self.workers.iter().zip(&processors);
            workers.try_for_each(|(worker, processors)| placement::place(worker.pid(), processors))
        });
        placed.map_err(|error| {
            let why = format!(
                "two programs are measured on the same processors, and a worker cannot be put there: {error}; \
                 sched_setaffinity must be allowed (a container may forbid it), and no processor be taken away meanwhile"
            );
            failure("worker", why)
        })
    }

    /// What the first `count` workers occupy now.
    pub(crate) fn memory(&self, count: usize) -> WorkerMemory {
        WorkerMemory::of(self.workers.iter().take(count).map(|worker| worker.pid()))
    }

    /// Gives one worker something to do and does not wait for it.
    pub(crate) fn begin_task(&mut self, worker: usize, request: &Request) -> Result<(), Failure> {
        self.send(worker, request)
    }

    /// Whether the task of a worker has ended.
    pub(crate) fn task_ended(&mut self, worker: usize) -> Result<bool, Failure> {
        self.worker(worker)?.readable(Duration::ZERO)
    }

    /// What the task of a worker did; waits for its end.
    pub(crate) fn end_task(&mut self, worker: usize) -> Result<Done, Failure> {
        self.worker(worker)?.done(TASK_MAX, interrupted)
    }

    /// One sample of as many workers as there are plans, at once. `look` is called when recording starts and after the
    /// last answer: the moments for reading the CPU time of a server.
    pub(crate) fn sample<T>(
        &mut self,
        plans: &[Plan],
        gives_up: GivesUp,
        mut look: impl FnMut() -> T,
    ) -> Result<(Vec<Sampled>, T, T), Failure> {
        const LEAD_NS: u64 = 3_000_000;
        server_lives(self.server)?;
        for (number, plan) in plans.iter().enumerate().take(self.workers.len()) {
            self.send(number, &Request::Sample(plan.clone()))?;
        }
        for (worker, _) in self.workers.iter_mut().zip(plans) {
            worker.ready_unless(TASK_MAX, gives_up)?;
        }
        let start_ns = now_ns() + LEAD_NS;
        for (worker, _) in self.workers.iter_mut().zip(plans) {
            worker.send(&Request::Go { start_ns })?;
        }
        let warm_up_ns = plans.first().map_or(0, |plan| plan.warm_up_ns);
        wait_until(start_ns + warm_up_ns);
        let before = look();
        let mut sampled = Vec::with_capacity(plans.len());
        for (worker, plan) in self.workers.iter_mut().zip(plans) {
            match worker.receive_unless(Duration::from_nanos(plan.measure_ns) + SAMPLE_GRACE, gives_up)? {
                Reply::Sampled(sample) => sampled.push(*sample),
                other => return Err(unexpected(&other)),
            }
        }
        if let Some(leftovers) = &mut self.leftovers {
            plans.iter().zip(&sampled).for_each(|(plan, sample)| leftovers.sampled(plan, sample.created));
        }
        Ok((sampled, before, look()))
    }

    fn worker(&mut self, number: usize) -> Result<&mut Process, Failure> {
        self.workers.get_mut(number).ok_or_else(|| failure("protocol", "there is no such worker"))
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        Process::end(self.workers.iter_mut());
        if let Some(leftovers) = self.leftovers.take() {
            leftovers.hand_over();
        }
    }
}
