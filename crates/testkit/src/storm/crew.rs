//! The processes of a storm, and who is killed or stopped when: at random microseconds, from a seed.
//!
//! Invariant: there are always as many processes as were asked for; a killed one is waited for before its
//! successor starts. It does not know what the processes do.

use std::io::PipeReader;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::event::now_ns;
use super::work::Orders;
use crate::check::Failure;

/// The word that makes the storm program one of its own workers.
pub const WORKER_WORD: &str = "storm-worker";
/// A stop lasts up to this long, usually much shorter.
const STOP_MS_MAX: u64 = 60;

/// What happened to a process.
#[derive(Debug)]
pub enum Fate {
    /// It is about to run, and this is where it reports.
    Started { worker: usize, pipe: PipeReader },
    /// It was killed, and is gone.
    Died { worker: usize, killed_at: u64, dead_at: u64 },
    /// It was stopped; `to` is the end of time while it is.
    Stopped { worker: usize, from: u64, to: u64 },
    /// It ended by itself: it could not work.
    Ended { worker: usize, dead_at: u64 },
}

/// How wild it is.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Processes at any time.
    pub processes: usize,
    /// On average.
    pub kills_per_second: f64,
    /// On average.
    pub stops_per_second: f64,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deeds {
    pub started: u64,
    pub kills: u64,
    pub stops: u64,
    pub ended: u64,
}

struct Member {
    worker: usize,
    child: Child,
    /// Since when it is stopped, and when it goes on.
    stopped: Option<(u64, Instant)>,
}

/// The processes. All are killed when it is dropped.
pub struct Crew {
    program: PathBuf,
    orders: Orders,
    random: Rng,
    members: Vec<Member>,
    fates: Sender<Fate>,
    pub deeds: Deeds,
}

impl Crew {
    /// Starts the processes. `orders.seed` is the seed of everything.
    pub fn start(program: PathBuf, orders: Orders, processes: usize, fates: Sender<Fate>) -> Result<Crew, Failure> {
        let random = Rng::with_seed(orders.seed);
        let mut crew = Crew { program, orders, random, members: Vec::new(), fates, deeds: Deeds::default() };
        (0..processes).try_for_each(|_| crew.add())?;
        Ok(crew)
    }

    fn add(&mut self) -> Result<(), Failure> {
        self.deeds.started += 1;
        // Number 0 is the prober.
        let worker = usize::try_from(self.deeds.started).unwrap_or(usize::MAX);
        let (orders, pools) = (&self.orders, &self.orders.pools);
        let numbers = [orders.nonce, worker as u64, self.random.u64(..), pools.lasting, pools.short, pools.wandering];
        // Told before it runs: what it does must not be seen by others before its pipe is known.
        let (pipe, report) = std::io::pipe()?;
        let _ = self.fates.send(Fate::Started { worker, pipe });
        let child = Command::new(&self.program)
            .args([WORKER_WORD, &orders.url])
            .args(numbers.map(|number| number.to_string()))
            .stdin(Stdio::null())
            .stdout(report)
            .spawn()?;
        self.members.push(Member { worker, child, stopped: None });
        Ok(())
    }

    /// Kills and stops for a while.
    pub fn rage(&mut self, during: Duration, weather: &Weather) -> Result<(), Failure> {
        let start = Instant::now();
        let (mut next_kill, mut next_stop) =
            (start + self.gap(weather.kills_per_second), start + self.gap(weather.stops_per_second));
        while start.elapsed() < during {
            let goes_on = self.members.iter().filter_map(|member| member.stopped.map(|(_, until)| until)).min();
            let next = next_kill.min(next_stop).min(goes_on.unwrap_or(next_kill)).min(start + during);
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            let now = Instant::now();
            self.wake(now);
            if now >= next_kill {
                self.kill_one()?;
                next_kill = now + self.gap(weather.kills_per_second);
            }
            if now >= next_stop {
                self.stop_one();
                next_stop = now + self.gap(weather.stops_per_second);
            }
        }
        Ok(())
    }

    /// A random time until the next deed; kills and stops do not come at regular times.
    fn gap(&mut self, per_second: f64) -> Duration {
        let mean_us = 1e6 / per_second.max(0.001);
        Duration::from_micros((self.random.f64() * 2.0 * mean_us) as u64)
    }

    fn wake(&mut self, now: Instant) {
        for member in &mut self.members {
            if let Some((from, until)) = member.stopped
                && until <= now
            {
                signal(&member.child, Signal::SIGCONT);
                member.stopped = None;
                let _ = self.fates.send(Fate::Stopped { worker: member.worker, from, to: now_ns() });
            }
        }
    }

    fn stop_one(&mut self) {
        let chosen = self.random.usize(0..self.members.len().max(1));
        let ms = if self.random.u8(0..4) == 0 { STOP_MS_MAX } else { STOP_MS_MAX / 6 };
        let length = Duration::from_micros(self.random.u64(100..ms * 1_000));
        let Some(member) = self.members.get_mut(chosen).filter(|member| member.stopped.is_none()) else { return };
        let from = now_ns();
        let _ = self.fates.send(Fate::Stopped { worker: member.worker, from, to: u64::MAX });
        signal(&member.child, Signal::SIGSTOP);
        member.stopped = Some((from, Instant::now() + length));
        self.deeds.stops += 1;
    }

    fn kill_one(&mut self) -> Result<(), Failure> {
        if self.members.is_empty() {
            return Ok(());
        }
        let chosen = self.random.usize(0..self.members.len());
        let member = self.members.swap_remove(chosen);
        self.end(member)?;
        self.add()
    }

    fn end(&mut self, Member { worker, mut child, .. }: Member) -> Result<(), Failure> {
        if child.try_wait()?.is_some() {
            self.deeds.ended += 1;
            let _ = self.fates.send(Fate::Ended { worker, dead_at: now_ns() });
            return Ok(());
        }
        let killed_at = now_ns();
        child.kill()?;
        child.wait()?;
        self.deeds.kills += 1;
        let _ = self.fates.send(Fate::Died { worker, killed_at, dead_at: now_ns() });
        Ok(())
    }

    /// Kills all; the storm is over.
    pub fn end_all(&mut self) -> Result<(), Failure> {
        while let Some(member) = self.members.pop() {
            self.end(member)?;
        }
        Ok(())
    }
}

fn signal(child: &Child, signal: Signal) {
    // Fails only for one that has ended by itself, which is noticed when its turn to be killed comes.
    let _ = i32::try_from(child.id()).map(|pid| kill(Pid::from_raw(pid), signal));
}

impl Drop for Crew {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}
