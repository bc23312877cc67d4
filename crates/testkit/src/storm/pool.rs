//! The processes of a storm, and when each is killed or stopped: at random microseconds, from a
//! seed.
//!
//! Invariant: there are always as many processes as were asked for; a killed one is waited for
//! before its successor starts.

use std::io::PipeWriter;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use fastrand::Rng;
use nix::sys::signal::Signal;

use super::event::now_ns;
use super::orders::{WorkKind, WorkerOrders};
use crate::check::Failure;
use crate::child::ChildProcess;

/// A stop lasts up to this long, usually much shorter.
const STOP_MS_MAX: u64 = 60;

#[derive(Clone)]
pub struct StormOptions {
    /// The program that becomes a worker when it is told to.
    pub program: PathBuf,
    pub seconds: f64,
    /// Of all choices.
    pub seed: u64,
    /// Processes at any time.
    pub processes: usize,
    /// On average.
    pub kills_per_second: f64,
    /// On average.
    pub stops_per_second: f64,
    /// Longest time after the death of its holder that a lock may stay taken.
    pub stuck_ms_max: u64,
}

pub enum ProcessEvent {
    /// It is gone; without `killed_at` it ended by itself, because it could not work.
    Died { worker: usize, killed_at: Option<u64>, dead_at: u64 },
    /// It was stopped; `to` is the end of time while it is.
    Stopped { worker: usize, from: u64, to: u64 },
}

#[derive(Clone, Copy, Default)]
pub struct ProcessCounts {
    pub started: u64,
    pub kills: u64,
    pub stops: u64,
}

struct RunningWorker {
    worker: usize,
    process: ChildProcess,
    stopped: Option<(u64, Instant)>,
}

/// The processes. All are killed when it is dropped.
pub struct WorkerPool<'a> {
    options: &'a StormOptions,
    url: &'a str,
    nonce: u64,
    reports: PipeWriter,
    random: Rng,
    running: Vec<RunningWorker>,
    events: Sender<ProcessEvent>,
    pub counts: ProcessCounts,
}

impl<'a> WorkerPool<'a> {
    pub fn start(
        options: &'a StormOptions,
        url: &'a str,
        nonce: u64,
        reports: PipeWriter,
        events: Sender<ProcessEvent>,
    ) -> Result<WorkerPool<'a>, Failure> {
        let (random, counts) = (Rng::with_seed(options.seed), ProcessCounts::default());
        let running = Vec::new();
        let mut pool = WorkerPool { options, url, nonce, reports, random, running, events, counts };
        (0..options.processes).try_for_each(|_| pool.add())?;
        Ok(pool)
    }

    fn add(&mut self) -> Result<(), Failure> {
        // Number 0 is the prober.
        self.counts.started += 1;
        let (url, worker) = (self.url.to_owned(), self.counts.started);
        let work = WorkKind::Storm { seed: self.random.u64(..) };
        let orders = WorkerOrders { url, nonce: self.nonce, worker, work };
        let process = orders.spawn(&self.options.program, &self.reports)?;
        let worker = usize::try_from(worker).unwrap_or(usize::MAX);
        self.running.push(RunningWorker { worker, process, stopped: None });
        Ok(())
    }

    pub fn run_faults(&mut self) -> Result<(), Failure> {
        let StormOptions { seconds, kills_per_second, stops_per_second, .. } = *self.options;
        let start = Instant::now();
        let end = start + Duration::from_secs_f64(seconds);
        let mut next_kill = start + self.gap(kills_per_second);
        let mut next_stop = start + self.gap(stops_per_second);
        while Instant::now() < end {
            let goes_on = self.running.iter().filter_map(|running| running.stopped);
            let goes_on = goes_on.map(|(_, until)| until).min().unwrap_or(end);
            let next = next_kill.min(next_stop).min(goes_on).min(end);
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            let now = Instant::now();
            self.resume(now);
            if now >= next_kill {
                self.kill_one()?;
                next_kill = now + self.gap(kills_per_second);
            }
            if now >= next_stop {
                self.stop_one();
                next_stop = now + self.gap(stops_per_second);
            }
        }
        Ok(())
    }

    /// A random time until the next fault; kills and stops do not come at regular times.
    fn gap(&mut self, per_second: f64) -> Duration {
        let mean_us = 1e6 / per_second.max(0.001);
        Duration::from_micros((self.random.f64() * 2.0 * mean_us) as u64)
    }

    fn notify(&self, event: ProcessEvent) {
        let _ = self.events.send(event);
    }

    fn resume(&mut self, now: Instant) {
        for running in &mut self.running {
            let Some((from, _)) = running.stopped.take_if(|(_, until)| *until <= now) else {
                continue;
            };
            // Fails only for one that has ended by itself, as its kill will show.
            let _ = running.process.signal(Signal::SIGCONT);
            let (worker, to) = (running.worker, now_ns());
            let _ = self.events.send(ProcessEvent::Stopped { worker, from, to });
        }
    }

    fn stop_one(&mut self) {
        let chosen = self.random.usize(0..self.running.len().max(1));
        let ms = if self.random.u8(0..4) == 0 { STOP_MS_MAX } else { STOP_MS_MAX / 6 };
        let length = Duration::from_micros(self.random.u64(100..ms * 1_000));
        let Some(running) = self.running.get_mut(chosen).filter(|it| it.stopped.is_none()) else {
            return;
        };
        let (worker, from) = (running.worker, now_ns());
        let _ = self.events.send(ProcessEvent::Stopped { worker, from, to: u64::MAX });
        let _ = running.process.signal(Signal::SIGSTOP);
        running.stopped = Some((from, Instant::now() + length));
        self.counts.stops += 1;
    }

    fn kill_one(&mut self) -> Result<(), Failure> {
        if self.running.is_empty() {
            return Ok(());
        }
        let chosen = self.random.usize(0..self.running.len());
        let running = self.running.swap_remove(chosen);
        self.kill(running)?;
        self.add()
    }

    fn kill(&mut self, mut running: RunningWorker) -> Result<(), Failure> {
        let mut killed_at = None;
        if !running.process.has_ended()? {
            killed_at = Some(now_ns());
            running.process.kill()?;
            self.counts.kills += 1;
        }
        let worker = running.worker;
        self.notify(ProcessEvent::Died { worker, killed_at, dead_at: now_ns() });
        Ok(())
    }

    pub fn kill_all(&mut self) -> Result<(), Failure> {
        while let Some(running) = self.running.pop() {
            self.kill(running)?;
        }
        Ok(())
    }
}
