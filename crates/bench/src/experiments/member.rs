//! A contender that takes part: made real, opened by its workers, filled, and in the end verified.
//!
//! Owns the account of its sessions: what was acknowledged, and what must therefore be there at the end.

use crate::capacity::{Filling, fit};
use crate::experiments::Bench;
use crate::footprint::Footprint;
use crate::interruption::interrupted;
use crate::monotonic::now_ns;
use crate::options::{Experiment, Settings};
use crate::redact;
use crate::report::Row;
use crate::selection::Choice;
use crate::setup::Stage;
use crate::worker::WorkerMemory;
use crate::worker::crew::Crew;
use crate::worker::leftovers::Leftovers;
use crate::worker::protocol::{Churn, Done, Failure, Opening, Range, Request};

/// The code of a failure that is no fault: filling takes longer than it may.
pub(super) const TOO_SLOW: &str = "too-slow";

/// A contender that is ready to be measured. The crew goes before the stage, and leaves what it made in a store of the user's to
/// the run; private ones go as a whole.
pub(super) struct Member {
    pub choice: Choice,
    pub crew: Crew,
    pub stage: Stage,
    /// How its workers open it.
    pub opening: Opening,
    pub workers: usize,
    footprint: Footprint,
    /// Resident memory of the first worker, of the first two, and so on, before anything was stored.
    prepared: Vec<u64>,
    pub bytes_per_session: u64,
    /// How long filling took.
    pub fill_ns: u64,
    /// Commits that the store has acknowledged so far.
    pub commits: u64,
    /// How many times it was set up anew.
    pub setup: usize,
    /// What went wrong before the first sample, and in the setups before.
    early: Verified,
    /// The same of sessions that samples have created.
    early_created: Verified,
    /// Samples have created sessions that may be gone already.
    short_lived: bool,
    /// Sessions that samples have created, beside those that were filled in.
    pub created: Vec<std::ops::Range<usize>>,
}

impl Bench {
    /// Asks for room right before a contender is filled, beside what was filled until then. Where there is too little it is left
    /// out, with the reason.
    pub(super) fn has_room(&mut self, choice: &Choice, filling: Filling) -> bool {
        self.remove_remains();
        let Err(why) = fit(choice, &self.settings, filling, None) else { return true };
        let advice = match self.settings.experiment {
            Experiment::Cycle | Experiment::Ops => "; fewer --sessions need less, and so do fewer --stores at once",
            Experiment::Faults => "; fewer --rounds and fewer --workers need less",
            _ => "; fewer --sessions need less",
        };
        self.left_out.push(choice.left_out(why + advice));
        false
    }

    /// Nobody is measured, and nobody's room reckoned, beside what others have left in the same place.
    pub(super) fn remove_remains(&self) {
        self.progress.aside(|| self.remains.clear());
    }

    /// Makes a contender real, starts its workers, fills it, and rewrites it as often as the settings ask for;
    /// `ids` is for sessions to come.
    pub(super) fn enlist(
        &self,
        choice: &Choice,
        workers: usize,
        sessions: usize,
        ids: usize,
    ) -> Result<Member, Failure> {
        let settings = &self.settings;
        let title = choice.title();
        self.remove_remains();
        self.progress.say(&format!("{title}: start"));
        // There is no stage yet that knows what must be hidden, and a server's log is full of places.
        let failed = |message: String| Failure { code: "start".to_owned(), message: redact::paths(&message) };
        let mut stage = Stage::set(choice, settings.durability, settings.round_trip).map_err(failed)?;
        if let Some(lock_ttl) = settings.lock_ttl {
            stage.let_locks_lapse(choice, lock_ttl);
        }
        let hide = |failure: Failure| Failure { message: stage.redact(&failure.message), ..failure };
        let opening = Opening {
            what: stage.what.clone(),
            worker: 0,
            seed: stage.seed(settings.seed),
            ids,
            payload_bytes: settings.payload_bytes,
            spread: settings.spread.clone(),
            ttl: settings.ttl,
            lock_ttl: settings.lock_ttl,
        };
        let launch = self.launch_of(choice);
        let leftovers = stage
            .outlives_its_workers(choice)
            .then(|| Leftovers::new(launch, &opening, workers, title.clone(), stage.hidden.clone(), &self.remains));
        let mut crew = Crew::start(launch, &opening, workers, stage.server_pid(), leftovers).map_err(hide)?;
        let prepared = (1..=workers).map(|count| crew.memory(count).resident).collect();
        let footprint = Footprint::of_empty(stage.place(choice), crew.first_pid());
        self.progress.say(&format!("{title}: fill in {sessions} sessions"));
        let filled = fill(&mut crew, settings, workers, sessions).map_err(hide)?;
        let mut member = Member {
            choice: choice.clone(),
            crew,
            stage,
            opening,
            workers,
            footprint,
            prepared,
            bytes_per_session: 0,
            fill_ns: filled.elapsed_ns,
            commits: 0,
            setup: 0,
            early: Verified::default(),
            early_created: Verified::default(),
            short_lived: false,
            created: Vec::new(),
        };
        for time in 1..=settings.churn {
            if interrupted() {
                break;
            }
            self.progress.say(&format!("{title}: rewrite {sessions} sessions, {time} of {}", settings.churn));
            let churned = member.churn(sessions, settings.seed.rotate_left(32) ^ time as u64);
            churned.map_err(|failure| Failure { message: member.stage.redact(&failure.message), ..failure })?;
        }
        member.weigh(sessions);
        Ok(member)
    }
}

/// Creates the sessions, unless that takes longer than it may.
fn fill(crew: &mut Crew, settings: &Settings, workers: usize, sessions: usize) -> Result<Done, Failure> {
    let until_ns = settings.fill_max.map(|most| now_ns().saturating_add(most.as_nanos() as u64));
    let all = Range { until_ns, ..Range::whole(&(0..sessions)) };
    let filled = crew.share(workers, all, Request::Fill)?;
    if let Some(message) = filled.first_error {
        let (made, errors) = (filled.count, filled.errors);
        let message = if made + errors < sessions as u64 {
            format!("filling it was given up after {made} of {sessions} sessions: {message}")
        } else {
            format!("{errors} of {sessions} sessions cannot be created: {message}")
        };
        return Err(Failure { code: "fill".to_owned(), message });
    }
    if filled.count < sessions as u64 {
        let message = too_slow(settings, filled.elapsed_ns as f64 / filled.count.max(1) as f64);
        return Err(Failure { code: TOO_SLOW.to_owned(), message });
    }
    Ok(filled)
}

/// Why nobody waits until so many sessions are filled in, at so many nanoseconds each.
pub(super) fn too_slow(settings: &Settings, session_ns: f64) -> String {
    let (sessions, bytes, spread) = (settings.sessions, settings.payload_bytes, settings.spread.name());
    let (rate, seconds) = (1e9 / session_ns.max(1.0), sessions as f64 * session_ns / 1e9);
    let allowed = settings.fill_max.unwrap_or_default().as_secs_f64();
    format!(
        "not with {sessions} sessions of {bytes} bytes ({spread}) or more: to fill them in takes about {seconds:.0} s, at {rate:.0} \
         a second, and it may take {allowed} s (`scale --fill-max`)"
    )
}

impl Member {
    /// Rewrites as many sessions as there are, chosen uniformly: some are met twice, others not at all. Nothing is
    /// swept meanwhile.
    fn churn(&mut self, sessions: usize, seed: u64) -> Result<(), Failure> {
        let whole = Range::whole(&(0..sessions));
        let done = self.crew.share(self.workers, whole, |part| {
            // The part says which worker this is and how many there are; each chooses among all sessions.
            let cycles = (part.from..part.to).step_by(part.step.max(1)).count();
            Request::Churn(Churn { sessions: 0..sessions, cycles, seed: seed.wrapping_mul(31) ^ part.from as u64 })
        })?;
        self.commits += done.count;
        let found = self.found_by(done);
        self.early.add(found);
        Ok(())
    }

    /// Sets it up anew beside itself, so that nothing gets the memory that it has, and takes over what the last look at it found.
    /// It stays what it was if that fails.
    pub(super) fn set_up_anew(&mut self, bench: &Bench, sessions: usize, ids: usize) -> Result<(), Failure> {
        let told = |failure: Failure| {
            let message = format!("it could not be set up anew: {}", failure.message);
            Failure { message, ..failure }
        };
        let mut anew = bench.enlist(&self.choice, self.workers, sessions, ids).map_err(told)?;
        self.early = self.verify(sessions)?;
        self.early_created = self.verify_created()?;
        anew.early.add(self.found_before(false));
        anew.early_created.add(self.found_before(true));
        anew.setup = self.setup + 1;
        *self = anew;
        Ok(())
    }

    /// What went wrong before the last look, or before one that failed: with what samples have created, or with the others.
    pub(super) fn found_before(&mut self, created: bool) -> Verified {
        std::mem::take(if created { &mut self.early_created } else { &mut self.early })
    }

    /// Looks how much space a session takes now.
    pub(super) fn weigh(&mut self, sessions: usize) {
        if self.short_lived {
            self.bytes_per_session = 0;
            return;
        }
        let created: usize = self.created.iter().map(ExactSizeIterator::len).sum();
        self.bytes_per_session = self.footprint.bytes() / (sessions + created).max(1) as u64;
    }

    /// What the first `count` workers occupy now.
    pub(super) fn memory(&self, count: usize) -> WorkerMemory {
        let prepared = self.prepared.get(count.saturating_sub(1)).copied().unwrap_or(0);
        WorkerMemory { prepared, ..self.crew.memory(count) }
    }

    fn found_by(&self, done: Done) -> Verified {
        let first_error = done.first_error.map(|message| self.stage.redact(&message));
        Verified { lost: 0, misses: done.misses, errors: done.errors, first_error }
    }

    /// Acknowledged commits that are not in the store, and sessions that are no longer what they must be.
    pub(super) fn verify(&mut self, sessions: usize) -> Result<Verified, Failure> {
        let all = Range::whole(&(0..sessions));
        let done = self.crew.share(self.workers, all, Request::Verify)?;
        let lost = self.commits.saturating_sub(done.counters);
        let mut found = Verified { lost, ..self.found_by(done) };
        found.add(self.found_before(false));
        Ok(found)
    }

    /// Looks for the sessions that samples have created. `lost` and the counters are about changes, not these.
    pub(super) fn verify_created(&mut self) -> Result<Verified, Failure> {
        let mut total = Verified::default();
        for created in self.created.clone() {
            let range = Range::whole(&created);
            let done = self.crew.share(self.workers, range, Request::Verify)?;
            let found = self.found_by(done);
            total.add(found);
        }
        total.add(self.found_before(true));
        Ok(total)
    }

    /// Looks at once for sessions that do not live until the end. What they took until then is no space of a session.
    pub(super) fn verify_short_lived(&mut self) -> Result<(), Failure> {
        let found = self.verify_created()?;
        self.early.add(found);
        self.short_lived |= !self.created.is_empty();
        self.created.clear();
        Ok(())
    }
}

/// What was found wrong outside the samples: by the churn, and by the final look at all sessions.
#[derive(Default)]
pub(super) struct Verified {
    lost: u64,
    misses: u64,
    errors: u64,
    first_error: Option<String>,
}

impl Verified {
    fn add(&mut self, other: Verified) {
        self.lost += other.lost;
        self.misses += other.misses;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }

    pub(super) fn put_on(self, row: &mut Row) {
        row.lost += self.lost;
        row.misses += self.misses;
        row.errors += self.errors;
        row.first_error = row.first_error.take().or(self.first_error);
    }
}
