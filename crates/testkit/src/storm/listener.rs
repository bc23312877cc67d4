//! Reads the pipes of all processes, and gives the checker what they said in the order of time.
//!
//! It owns the rule that makes the checker right: a round takes the time first and then reads every pipe until
//! it is empty, so that everything that had an effect before that time has been read.

use std::collections::{BTreeMap, HashMap};
use std::io::{PipeReader, Read};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::checker::Checker;
use super::crew::Fate;
use super::event::{Event, now_ns};
use super::prober::{Errand, PROBER};

/// Errands that wait for the prober at most; in a store whose locks stay for ever each takes seconds.
const ERRANDS_MAX: u64 = 2;

enum Heard {
    Line { worker: usize, event: Event },
    Dead { worker: usize, killed_at: u64 },
    Stop { worker: usize, to: u64 },
}

struct Pipe {
    reader: PipeReader,
    /// The beginning of a line.
    rest: Vec<u8>,
    at_end: bool,
    /// When it was killed, and when it was gone.
    dead: Option<(u64, u64)>,
}

/// The listener.
pub struct Listener {
    pub checker: Checker,
    pipes: HashMap<usize, Pipe>,
    fates: Receiver<Fate>,
    reports: Receiver<(u64, Event)>,
    /// `None` once the storm is over and no lock is probed any more.
    pub errands: Option<Sender<Errand>>,
    queue: BTreeMap<(u64, u64), Heard>,
    sequence: u64,
    errands_open: u64,
}

impl Listener {
    /// Listens to processes whose fates come over one channel and to a prober that reports over another.
    pub fn new(
        checker: Checker,
        fates: Receiver<Fate>,
        reports: Receiver<(u64, Event)>,
        errands: Sender<Errand>,
    ) -> Listener {
        Listener {
            checker,
            pipes: HashMap::new(),
            fates,
            reports,
            errands: Some(errands),
            queue: BTreeMap::new(),
            sequence: 0,
            errands_open: 0,
        }
    }

    /// Whether every process is gone and all that was said is judged.
    pub fn done(&self) -> bool {
        self.pipes.is_empty() && self.queue.is_empty() && self.checker.settled() && self.errands_open == 0
    }

    /// One round.
    pub fn round(&mut self) {
        let round = now_ns();
        self.take_fates();
        let reports: Vec<(u64, Event)> = self.reports.try_iter().collect();
        for (at, event) in reports {
            self.push(at, Heard::Line { worker: PROBER, event });
        }
        self.drain();
        self.bury();
        let later = self.queue.split_off(&(round, 0));
        let now = std::mem::replace(&mut self.queue, later);
        for ((at, _), heard) in now {
            self.tell(at, heard);
        }
        self.checker.settle(round);
    }

    fn push(&mut self, at: u64, heard: Heard) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), heard);
    }

    fn take_fates(&mut self) {
        let fates: Vec<Fate> = self.fates.try_iter().collect();
        for fate in fates {
            match fate {
                Fate::Started { worker, pipe } => {
                    let pipe = Pipe { reader: pipe, rest: Vec::new(), at_end: false, dead: None };
                    self.pipes.insert(worker, pipe);
                }
                Fate::Died { worker, killed_at, dead_at } => self.mark_dead(worker, killed_at, dead_at),
                Fate::Stopped { worker, from, to } => self.push(from, Heard::Stop { worker, to }),
                Fate::Ended { worker, dead_at } => {
                    self.checker.problem("a worker ended by itself; its reason is on standard error".into());
                    self.mark_dead(worker, dead_at, dead_at);
                }
            }
        }
    }

    fn mark_dead(&mut self, worker: usize, killed_at: u64, dead_at: u64) {
        if let Some(pipe) = self.pipes.get_mut(&worker) {
            pipe.dead = Some((killed_at, dead_at));
        }
    }

    /// Reads until no pipe has anything to say; waits a little for the first word.
    fn drain(&mut self) {
        let mut patience = PollTimeout::from(2_u8);
        loop {
            let open: Vec<(&usize, &Pipe)> = self.pipes.iter().filter(|(_, pipe)| !pipe.at_end).collect();
            let mut asked: Vec<PollFd<'_>> =
                open.iter().map(|(_, pipe)| PollFd::new(pipe.reader.as_fd(), PollFlags::POLLIN)).collect();
            let ready = poll(&mut asked, patience).unwrap_or(0);
            let speaking: Vec<usize> = (open.iter().zip(&asked))
                .filter(|(_, asked)| asked.any().unwrap_or(true))
                .map(|((worker, _), _)| **worker)
                .collect();
            if ready <= 0 {
                return;
            }
            patience = PollTimeout::ZERO;
            for worker in speaking {
                self.read_some(worker);
            }
        }
    }

    fn read_some(&mut self, worker: usize) {
        let mut bytes = [0; 1 << 16];
        let Some(pipe) = self.pipes.get_mut(&worker) else { return };
        let count = pipe.reader.read(&mut bytes).unwrap_or(0);
        pipe.at_end = count == 0;
        pipe.rest.extend_from_slice(bytes.get(..count).unwrap_or_default());
        let whole = pipe.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let lines: Vec<u8> = pipe.rest.drain(..whole).collect();
        for line in String::from_utf8_lossy(&lines).lines() {
            match Event::parse(line) {
                Some((at, event)) => self.push(at, Heard::Line { worker, event }),
                None => self.checker.problem(format!("a worker said {line:?}: the harness is broken")),
            }
        }
    }

    /// A process is dead for the checker once its pipe is empty.
    fn bury(&mut self) {
        let gone = |pipe: &Pipe| pipe.dead.filter(|_| pipe.at_end);
        let dead: Vec<(usize, (u64, u64))> =
            self.pipes.iter().filter_map(|(worker, pipe)| gone(pipe).map(|moments| (*worker, moments))).collect();
        for (worker, (killed_at, dead_at)) in dead {
            self.pipes.remove(&worker);
            self.push(dead_at, Heard::Dead { worker, killed_at });
        }
    }

    fn tell(&mut self, at: u64, heard: Heard) {
        match heard {
            Heard::Stop { worker, to } => self.checker.stopped(worker, at, to),
            Heard::Dead { worker, killed_at } => {
                if let Some(errand) = self.checker.died(worker, killed_at, at) {
                    self.probe(errand);
                }
            }
            Heard::Line { worker, event } => {
                // Each errand of a storm ends with the release, or with a refused begin.
                let answer = matches!(event, Event::Answer(_));
                self.checker.hear(worker, at, event);
                if worker == PROBER && answer && !self.checker.holds(PROBER) {
                    self.errands_open = self.errands_open.saturating_sub(1);
                }
            }
        }
    }

    fn probe(&mut self, errand: Errand) {
        if self.errands_open >= ERRANDS_MAX {
            return;
        }
        if let Some(errands) = &self.errands
            && errands.send(errand).is_ok()
        {
            self.errands_open += 1;
        }
    }
}
