//! The child: opens one contender and does what the lines on standard input say.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use sessile_core::{Budget, Error, ErrorKind, Rest, Result};

use crate::contender::Contender;
use crate::monotonic::{cpu_us, now_ns};
use crate::payload::Payloads;
use crate::reference;
use crate::store_contender::StoreContender;
use crate::worker::protocol::{Done, Failure, Opening, Range, Reply, Request, What};
use crate::worker::sample::Sample;
use crate::worker::{faults, oversize};

/// Opens contenders that only a test knows.
pub type OpenTest<'a> = &'a dyn Fn(&str, &std::path::Path, usize) -> Option<Box<dyn Contender>>;

/// Runs a worker until its parent closes the pipe.
///
/// # Errors
///
/// When the pipe breaks or the parent does not speak the protocol.
pub fn serve(open_test: OpenTest<'_>) -> io::Result<()> {
    // A worker never outlives its parent, and sleeps end when they should (the default slack is 50 us).
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    let _ = prctl::set_timerslack(1);
    let (stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    let mut lines = stdin.lines();
    let Some(first) = lines.next() else { return Ok(()) };
    let opening: Opening = serde_json::from_str(&first?)?;
    let before = now_ns();
    let mut contender = match open(&opening, open_test) {
        Ok(contender) => contender,
        Err(error) => return answer(&mut stdout, &Reply::Failed(Failure::of(&error))),
    };
    let open_ns = now_ns() - before;
    answer(&mut stdout, &Reply::Ready)?;
    let payloads = Payloads::new(&opening);
    let mut worker = Worker { payloads, ttl: opening.ttl, buffer: Vec::new() };
    while let Some(line) = lines.next() {
        let reply = match serde_json::from_str(&line?)? {
            Request::Sample(plan) => {
                let sample = Sample::new(&mut *contender, &worker.payloads, worker.ttl, plan);
                answer(&mut stdout, &Reply::Ready)?;
                let Some(go) = lines.next() else { return Ok(()) };
                let Request::Go { start_ns } = serde_json::from_str(&go?)? else {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "expected Go"));
                };
                Reply::Sampled(Box::new(sample.run(start_ns)))
            }
            Request::Go { .. } => return Err(io::Error::new(io::ErrorKind::InvalidData, "Go without Sample")),
            Request::Fill(range) => Reply::Done(worker.fill(&mut *contender, range)),
            Request::Churn(churn) => Reply::Done(Sample::churn(&mut *contender, &worker.payloads, worker.ttl, churn)),
            Request::Verify(range) => Reply::Done(worker.verify(&mut *contender, range)),
            Request::Save(save) => match oversize::save(&mut *contender, &save, opening.seed, opening.ttl) {
                Ok(saved) => Reply::Saved(saved),
                Err(failure) => Reply::Failed(failure),
            },
            Request::Destroy(range) => Reply::Done(worker.destroy(&mut *contender, range)),
            Request::Sweep => Reply::Done(worker.sweep(&mut *contender)),
            Request::Fault(task) => {
                let reopen = || has_no_way_back(&opening).then(|| open(&opening, open_test));
                let answer = &mut |reply| answer(&mut stdout, &reply);
                faults::perform(&mut contender, &worker.payloads, &task, &reopen, answer)?;
                continue;
            }
            Request::Stop => Reply::Stopped { open_ns },
        };
        answer(&mut stdout, &reply)?;
    }
    Ok(())
}

fn answer(stdout: &mut impl Write, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    stdout.write_all(&line)?;
    stdout.flush()
}

fn open(opening: &Opening, open_test: OpenTest<'_>) -> Result<Box<dyn Contender>> {
    match &opening.what {
        What::Store { url, reconnects } => Ok(Box::new(StoreContender::open(url, *reconnects, opening)?)),
        What::Reference { name, place } => match reference::by_name(name) {
            Some(reference) => (reference.open)(place, opening),
            None => Err(Error::new(ErrorKind::InvalidArgument, "no such reference row")),
        },
        What::Test { name, place } => open_test(name, place, opening.ids)
            .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "no such contender of a test")),
    }
}

/// A reference row keeps one connection. When its server went away, the next request opens another one.
fn has_no_way_back(opening: &Opening) -> bool {
    match &opening.what {
        What::Reference { name, .. } => reference::by_name(name).is_some_and(|reference| reference.server.is_some()),
        What::Store { .. } | What::Test { .. } => false,
    }
}

struct Worker {
    payloads: Payloads,
    ttl: Duration,
    buffer: Vec<u8>,
}

impl Worker {
    fn fill(&mut self, contender: &mut dyn Contender, range: Range) -> Done {
        // Each call waits for as long as a server takes to start again; for all sessions of a piece that is half an hour, and one
        // that is missing fails the row anyway.
        let mut is_gone = false;
        over(range, |session, done| {
            if is_gone || range.until_ns.is_some_and(|until| now_ns() >= until) {
                return Ok(()); // it is not made, and does not count
            }
            self.payloads.compose(session as u64, 0, &mut self.buffer);
            let asked = now_ns();
            let ttl = range.expiring.map_or(self.ttl, |expiring| {
                let left = expiring.moment_of(session).saturating_sub(asked);
                Duration::from_nanos(left).max(Duration::from_millis(1))
            });
            let created = contender.create(session, &self.buffer, ttl);
            is_gone = created.as_ref().is_err_and(|error| *error.kind() == ErrorKind::Unreachable);
            created?;
            done.longest_ns = done.longest_ns.max(now_ns().saturating_sub(asked));
            done.count += 1;
            Ok(())
        })
    }

    fn verify(&mut self, contender: &mut dyn Contender, range: Range) -> Done {
        over(range, |session, done| {
            match contender.read(session)? {
                None => done.misses += 1,
                Some(payload) => match self.payloads.check(session as u64, payload) {
                    None => return Err(Error::new(ErrorKind::Corrupt, "a payload is not what was written")),
                    Some(counter) => {
                        done.count += 1;
                        done.counters += counter;
                    }
                },
            }
            Ok(())
        })
    }

    fn destroy(&mut self, contender: &mut dyn Contender, range: Range) -> Done {
        over(range, |session, done| {
            contender.destroy(session)?;
            done.count += 1;
            Ok(())
        })
    }

    /// Two passes, as `sessile gc` makes them: the first may have begun in the middle of the store.
    fn sweep(&mut self, contender: &mut dyn Contender) -> Done {
        let mut done = Done::default();
        let (start, cpu_before) = (now_ns(), cpu_us());
        let mut complete_passes = 0;
        while complete_passes < 2 {
            let called = now_ns();
            match contender.sweep(Budget::default()) {
                Ok(swept) => {
                    done.count += swept.removed;
                    complete_passes += u32::from(swept.complete);
                }
                Err(error) => {
                    done.errors += 1;
                    done.first_error = Some(format!("{error:#}"));
                    break;
                }
            }
            let call_ns = now_ns().saturating_sub(called);
            done.longest_ns = done.longest_ns.max(call_ns);
            std::thread::sleep(Rest::default().after(Duration::from_nanos(call_ns)));
        }
        done.elapsed_ns = now_ns().saturating_sub(start);
        done.cpu_us = cpu_us().saturating_sub(cpu_before);
        done
    }
}

/// Does something for each session of a range, counting failures.
fn over(range: Range, mut each: impl FnMut(usize, &mut Done) -> Result<()>) -> Done {
    let mut done = Done::default();
    let (start, cpu_before) = (now_ns(), cpu_us());
    for session in (range.from..range.to).step_by(range.step.max(1)) {
        let called = now_ns();
        if let Err(error) = each(session, &mut done) {
            done.errors += 1;
            done.first_error.get_or_insert_with(|| format!("{error:#}"));
        }
        done.longest_ns = done.longest_ns.max(now_ns().saturating_sub(called));
    }
    done.elapsed_ns = now_ns().saturating_sub(start);
    done.cpu_us = cpu_us().saturating_sub(cpu_before);
    done
}
