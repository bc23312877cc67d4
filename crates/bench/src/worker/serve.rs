//! The worker: opens one contender and serves the requests from standard input.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use serde::de::DeserializeOwned;
use sessile_core::{Budget, Error, ErrorKind, Result};

use crate::contender::Contender;
use crate::monotonic::{cpu_us, now_ns};
use crate::payload::Payloads;
use crate::reference;
use crate::store_contender::StoreContender;
use crate::worker::protocol::{
    ContenderFailure, ContenderSpec, OpenRequest, SessionRange, TaskTotals, WorkerReply,
    WorkerRequest,
};
use crate::worker::sample::SampleRun;
use crate::worker::{faults, oversize};

/// Opens contenders that only a test knows.
pub type OpenTest<'a> = &'a dyn Fn(&str, &std::path::Path, usize) -> Option<Box<dyn Contender>>;

/// Runs a worker until its parent closes the pipe.
pub fn serve(open_test: OpenTest<'_>) -> io::Result<()> {
    // A worker never outlives its parent. The default timer slack would lengthen each sleep by 50
    // us.
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    let _ = prctl::set_timerslack(1);
    let (mut requests, mut stdout) = (Requests::new()?, io::stdout().lock());
    let Some(opening) = requests.next::<OpenRequest>()? else { return Ok(()) };
    let before = now_ns();
    let mut contender = match open(&opening, open_test) {
        Ok(contender) => contender,
        Err(error) => {
            return send_reply(
                &mut stdout,
                &WorkerReply::Failed(ContenderFailure::from_error(&error)),
            );
        }
    };
    let open_ns = now_ns() - before;
    send_reply(&mut stdout, &WorkerReply::Ready)?;
    let payloads = Payloads::new(&opening);
    let mut worker = TaskRunner { payloads, ttl: opening.ttl, buffer: Vec::new() };
    while let Some(request) = requests.next()? {
        let reply = match request {
            WorkerRequest::Sample(plan) => {
                let sample = SampleRun::new(&mut *contender, &worker.payloads, worker.ttl, plan);
                send_reply(&mut stdout, &WorkerReply::Ready)?;
                let start_ns = match requests.next()? {
                    Some(WorkerRequest::Go { start_ns }) => start_ns,
                    Some(_) => return Err(unexpected()),
                    None => return Ok(()),
                };
                let told = || {
                    requests.next_if_there().map(|request| match request {
                        Ok(Some(WorkerRequest::EndSample(counted))) => counted,
                        _ => 0..0, // the parent is gone, or says nonsense
                    })
                };
                WorkerReply::Sampled(Box::new(sample.run(start_ns, told)))
            }
            WorkerRequest::Go { .. } | WorkerRequest::EndSample(_) => return Err(unexpected()),
            WorkerRequest::Fill(range) => WorkerReply::Done(worker.fill(&mut *contender, range)),
            WorkerRequest::Verify(range) => {
                WorkerReply::Done(worker.verify(&mut *contender, range))
            }
            WorkerRequest::Save(save) => {
                match oversize::save(&mut *contender, &save, opening.seed, opening.ttl) {
                    Ok(saved) => WorkerReply::Saved(saved),
                    Err(failure) => WorkerReply::Failed(failure),
                }
            }
            WorkerRequest::Destroy(range) => {
                WorkerReply::Done(worker.destroy(&mut *contender, range))
            }
            WorkerRequest::Sweep => WorkerReply::Done(worker.sweep(&mut *contender)),
            WorkerRequest::Fault(task) => {
                let reopen = || needs_reopen(&opening).then(|| open(&opening, open_test));
                let answer = &mut |reply| send_reply(&mut stdout, &reply);
                faults::perform(&mut contender, &worker.payloads, &task, &reopen, answer)?;
                continue;
            }
            WorkerRequest::Stop => WorkerReply::Stopped { open_ns },
        };
        send_reply(&mut stdout, &reply)?;
    }
    Ok(())
}

fn unexpected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a request that belongs to no other")
}

/// What the parent asks for, a line each.
struct Requests(BufReader<File>);

impl Requests {
    fn new() -> io::Result<Requests> {
        let stdin = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Requests(BufReader::new(File::from(stdin))))
    }

    /// `None` when the parent has closed the pipe.
    fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Ok(None),
            _ => Ok(Some(serde_json::from_str(&line)?)),
        }
    }

    /// Does not wait. `None` if the parent has said nothing.
    fn next_if_there(&mut self) -> Option<io::Result<Option<WorkerRequest>>> {
        let is_there = || {
            let mut input = [PollFd::new(self.0.get_ref().as_fd(), PollFlags::POLLIN)];
            poll(&mut input, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
        };
        (!self.0.buffer().is_empty() || is_there()).then(|| self.next())
    }
}

fn send_reply(stdout: &mut impl Write, reply: &WorkerReply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    stdout.write_all(&line)?;
    stdout.flush()
}

fn open(opening: &OpenRequest, open_test: OpenTest<'_>) -> Result<Box<dyn Contender>> {
    match &opening.contender {
        ContenderSpec::Store { url, reconnects } => {
            Ok(Box::new(StoreContender::open(url, *reconnects, opening)?))
        }
        ContenderSpec::Reference { name, place, .. } => {
            reference::open_by_name(name, place, opening)
        }
        ContenderSpec::Test { name, place } => open_test(name, place, opening.ids)
            .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "no such contender of a test")),
    }
}

/// A reference row keeps one connection and cannot reconnect by itself.
fn needs_reopen(opening: &OpenRequest) -> bool {
    match &opening.contender {
        ContenderSpec::Reference { name, .. } => {
            reference::by_name(name).is_some_and(|reference| reference.server.is_some())
        }
        ContenderSpec::Store { .. } | ContenderSpec::Test { .. } => false,
    }
}

/// How often a session is tried, while a contender is filled, before the contender counts as gone.
const FILL_TRIES: usize = 3;

struct TaskRunner {
    payloads: Payloads,
    ttl: Duration,
    buffer: Vec<u8>,
}

impl TaskRunner {
    fn fill(&mut self, contender: &mut dyn Contender, range: SessionRange) -> TaskTotals {
        // Each call waits as long as a server start takes, half an hour for a piece, and one
        // missing session fails the row anyway. But a disk that another program keeps busy lets
        // SQLite's lock outlast a call.
        let mut is_gone = false;
        for_each_session(range, |session, done| {
            if is_gone || range.until_ns.is_some_and(|until| now_ns() >= until) {
                return Ok(()); // not created, so not counted
            }
            self.payloads.compose(session as u64, 0, &mut self.buffer);
            let asked = now_ns();
            let ttl = range.expire_at_ns.map_or(self.ttl, |expire_at_ns| {
                Duration::from_nanos(expire_at_ns.saturating_sub(asked))
                    .max(Duration::from_millis(1))
            });
            let mut created = contender.create(session, &self.buffer, ttl);
            for _ in 1..FILL_TRIES {
                let is_over = range.until_ns.is_some_and(|until| now_ns() >= until);
                if !is_over && created.as_ref().is_err_and(is_unreachable) {
                    created = contender.create(session, &self.buffer, ttl);
                }
            }
            is_gone = created.as_ref().is_err_and(is_unreachable);
            created?;
            done.longest_ns = done.longest_ns.max(now_ns().saturating_sub(asked));
            done.count += 1;
            Ok(())
        })
    }

    fn verify(&mut self, contender: &mut dyn Contender, range: SessionRange) -> TaskTotals {
        for_each_session(range, |session, done| {
            match contender.read(session)? {
                None => done.misses += 1,
                Some(payload) => match self.payloads.check(session as u64, payload) {
                    None => {
                        return Err(Error::new(
                            ErrorKind::Corrupt,
                            "a payload is not what was written",
                        ));
                    }
                    Some(counter) => {
                        done.count += 1;
                        done.counters += counter;
                    }
                },
            }
            Ok(())
        })
    }

    fn destroy(&mut self, contender: &mut dyn Contender, range: SessionRange) -> TaskTotals {
        for_each_session(range, |session, done| {
            contender.destroy(session)?;
            done.count += 1;
            Ok(())
        })
    }

    /// Two passes, as in `sessile gc`: the first may begin in the middle of the store.
    fn sweep(&mut self, contender: &mut dyn Contender) -> TaskTotals {
        let mut done = TaskTotals::default();
        let (start, cpu_before) = (now_ns(), cpu_us());
        let mut complete_passes = 0;
        while complete_passes < 2 {
            let called = now_ns();
            match contender.sweep(Budget::default()) {
                Ok(swept) => {
                    done.count += swept.removed;
                    complete_passes += u32::from(swept.complete);
                    // The rest only shows that nothing is left.
                    if swept.removed > 0 {
                        done.elapsed_ns = now_ns().saturating_sub(start);
                    }
                }
                Err(error) => {
                    done.errors += 1;
                    done.first_error = Some(format!("{error:#}"));
                    break;
                }
            }
            let call_ns = now_ns().saturating_sub(called);
            done.longest_ns = done.longest_ns.max(call_ns);
            std::thread::sleep(Budget::rest_after(
                Duration::from_nanos(call_ns),
                Budget::REST_TIMES,
            ));
        }
        done.started_ns = start;
        done.cpu_us = cpu_us().saturating_sub(cpu_before);
        done
    }
}

fn is_unreachable(error: &Error) -> bool {
    *error.kind() == ErrorKind::Unreachable
}

fn for_each_session(
    range: SessionRange,
    mut each: impl FnMut(usize, &mut TaskTotals) -> Result<()>,
) -> TaskTotals {
    let mut done = TaskTotals::default();
    let (start, cpu_before) = (now_ns(), cpu_us());
    for session in (range.from..range.to).step_by(range.step.max(1)) {
        let called = now_ns();
        if let Err(error) = each(session, &mut done) {
            done.errors += 1;
            done.first_error.get_or_insert_with(|| format!("{error:#}"));
        }
        done.longest_ns = done.longest_ns.max(now_ns().saturating_sub(called));
    }
    (done.started_ns, done.elapsed_ns) = (start, now_ns().saturating_sub(start));
    done.cpu_us = cpu_us().saturating_sub(cpu_before);
    done
}
