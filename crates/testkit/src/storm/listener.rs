//! Reads the reports of all processes, and gives them to the checker in the order of time.
//!
//! It owns the rule that makes the checker right: a round takes the time first and then reads the
//! pipe until it is empty, so it has read of everything that had an effect before that time.

use std::collections::BTreeMap;
use std::io::{PipeReader, Read};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::checker::Checker;
use super::event::{WorkerEvent, now_ns};
use super::pool::ProcessEvent;
use super::prober::{PROBER, ProbeRequest};

/// Requests that wait at most; a lock that stays for ever costs the prober seconds.
const PROBES_MAX: u64 = 2;

enum QueuedReport {
    Line { worker: usize, event: WorkerEvent },
    Death { worker: usize, killed_at: u64 },
    Stop { worker: usize, to: u64 },
}

pub struct Listener {
    pub checker: Checker,
    pipe: PipeReader,
    partial: Vec<u8>,
    events: Receiver<ProcessEvent>,
    /// `None` once the storm is over and no lock is probed any more.
    pub probes: Option<Sender<ProbeRequest>>,
    probes_open: u64,
    queue: BTreeMap<(u64, u64), QueuedReport>,
    arrivals: u64,
}

impl Listener {
    pub fn new(
        checker: Checker,
        pipe: PipeReader,
        events: Receiver<ProcessEvent>,
        probes: Sender<ProbeRequest>,
    ) -> Listener {
        Listener {
            checker,
            pipe,
            partial: Vec::new(),
            events,
            probes: Some(probes),
            probes_open: 0,
            queue: BTreeMap::new(),
            arrivals: 0,
        }
    }

    pub fn done(&self) -> bool {
        self.queue.is_empty() && self.checker.all_judged() && self.probes_open == 0
    }

    pub fn round(&mut self) {
        let round = now_ns();
        // Before the pipe: all that a dead process has reported is then read in this round.
        let events: Vec<ProcessEvent> = self.events.try_iter().collect();
        for event in events {
            match event {
                ProcessEvent::Stopped { worker, from, to } => {
                    self.push(from, QueuedReport::Stop { worker, to });
                }
                ProcessEvent::Died { worker, killed_at, dead_at } => {
                    if killed_at.is_none() {
                        let why = "a worker ended by itself; its reason is on standard error";
                        self.checker.problem(why.into());
                    }
                    let killed_at = killed_at.unwrap_or(dead_at);
                    self.push(dead_at, QueuedReport::Death { worker, killed_at });
                }
            }
        }
        self.drain();
        let later = self.queue.split_off(&(round, 0));
        for ((at, _), report) in std::mem::replace(&mut self.queue, later) {
            self.pass_on(at, report);
        }
        self.checker.judge(round);
    }

    fn push(&mut self, at: u64, report: QueuedReport) {
        self.arrivals += 1;
        self.queue.insert((at, self.arrivals), report);
    }

    fn drain(&mut self) {
        let mut patience = PollTimeout::from(2_u8);
        let mut bytes = [0; 1 << 16];
        while poll(&mut [PollFd::new(self.pipe.as_fd(), PollFlags::POLLIN)], patience)
            .is_ok_and(|ready| ready > 0)
        {
            patience = PollTimeout::ZERO;
            let count = self.pipe.read(&mut bytes).unwrap_or(0);
            self.partial.extend_from_slice(bytes.get(..count).unwrap_or_default());
            if count == 0 {
                break;
            }
        }
        let whole = self.partial.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let lines: Vec<u8> = self.partial.drain(..whole).collect();
        for line in String::from_utf8_lossy(&lines).lines() {
            match WorkerEvent::parse(line) {
                Some((worker, at, event)) => self.push(at, QueuedReport::Line { worker, event }),
                None => {
                    self.checker.problem(format!("a worker said {line:?}: the harness is broken"));
                }
            }
        }
    }

    fn pass_on(&mut self, at: u64, report: QueuedReport) {
        match report {
            QueuedReport::Stop { worker, to } => self.checker.stopped(worker, at, to),
            QueuedReport::Death { worker, killed_at } => {
                let request = self.checker.died(worker, killed_at, at);
                if let (Some(request), Some(probes)) = (request, &self.probes)
                    && self.probes_open < PROBES_MAX
                    && probes.send(request).is_ok()
                {
                    self.probes_open += 1;
                }
            }
            QueuedReport::Line { worker, event } => {
                // Each probe of a storm ends with the release, or with a refused begin.
                let result = matches!(event, WorkerEvent::Result(_));
                self.checker.observe(worker, at, event);
                if worker == PROBER && result && !self.checker.holds(PROBER) {
                    self.probes_open = self.probes_open.saturating_sub(1);
                }
            }
        }
    }
}
