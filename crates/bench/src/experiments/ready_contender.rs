//! A contender that was set up: started, opened by its workers, filled, and verified in the end.
//!
//! Owns the account of its sessions: which changes were acknowledged and must be there in the end.

use std::mem::take;
use std::time::Duration;

use sessile_results::WorkerMemory;

use crate::deployment::Deployment;
use crate::experiments::Bench;
use crate::experiments::sample_totals::Findings;
use crate::footprint::Footprint;
use crate::interruption::GiveUpCheck;
use crate::monotonic::now_ns;
use crate::options::{Experiment, Settings};
use crate::redact;
use crate::room;
use crate::selection::Choice;
use crate::worker::cleanup::CreatedSessions;
use crate::worker::group::WorkerGroup;
use crate::worker::protocol::{
    ContenderFailure, OpenRequest, SamplePlan, SampleResult, SessionRange, TOO_SLOW, TaskTotals,
    WorkerRequest, WorkerResult,
};

/// The workers are dropped before the deployment, and hand sessions in a store of the user over to
/// the run.
pub(super) struct ReadyContender {
    pub choice: Choice,
    pub group: WorkerGroup,
    pub deployment: Deployment,
    pub opening: OpenRequest,
    pub workers: usize,
    footprint: Footprint,
    /// Resident memory of the first n+1 workers with an empty store.
    prepared: Vec<u64>,
    pub bytes_per_session: u64,
    pub fill_ns: u64,
    /// Acknowledged by the store.
    pub commits: u64,
    /// Number of setups before this one.
    pub setup: usize,
    /// Errors before the first sample and in earlier setups.
    pub earlier: Findings,
    /// Errors in sessions that samples have created.
    pub earlier_created: Findings,
    /// Created sessions may have expired.
    short_lived: bool,
    /// Sessions that samples have created.
    pub created: Vec<std::ops::Range<usize>>,
}

impl Bench {
    /// Leaves the contender out where there is no room beside what is filled already. `prepared`:
    /// ids of all workers; `seen`: bytes of a session at another size.
    pub(super) fn has_room(
        &mut self,
        choice: &Choice,
        sessions: usize,
        prepared: usize,
        seen: Option<u64>,
    ) -> bool {
        self.clean_up_stores();
        match room::check(choice, &self.settings, sessions, prepared, seen) {
            Ok(()) => true,
            Err(why) => {
                let fewer = match self.settings.experiment {
                    Experiment::Faults => "--rounds or --workers",
                    _ => "--sessions, or fewer --stores at once,",
                };
                self.left_out.push(choice.left_out(format!("{why}; fewer {fewer} need less")));
                false
            }
        }
    }

    /// What earlier contenders left affects the next measurement and the room.
    pub(super) fn clean_up_stores(&self) {
        self.progress.suspend(|| self.cleanup.clear());
    }

    /// `ids` counts the ids to prepare.
    pub(super) fn set_up(
        &self,
        choice: &Choice,
        workers: usize,
        sessions: usize,
        ids: usize,
    ) -> WorkerResult<ReadyContender> {
        let settings = &self.settings;
        let title = choice.title();
        self.clean_up_stores();
        self.progress.set_message(&format!("{title}: start"));
        // Hidden paths are unknown without a deployment, and a server's log is full of paths.
        let failed = |message: String| ContenderFailure::not_started(redact::paths(&message));
        let mut deployment = Deployment::start(choice, settings.round_trip).map_err(failed)?;
        if let Some(lock_ttl) = settings.lock_ttl {
            deployment.set_lock_ttl(choice, lock_ttl);
        }
        let hide = |failure: ContenderFailure| ContenderFailure {
            message: deployment.redact(&failure.message),
            ..failure
        };
        let opening = OpenRequest {
            contender: deployment.what.clone(),
            worker: 0,
            seed: deployment.seed(settings.seed),
            ids,
            payload_bytes: settings.payload_bytes,
            spread: settings.spread.clone(),
            ttl: settings.ttl,
            lock_ttl: settings.lock_ttl,
        };
        let launch = self.launch_of(choice);
        let created_sessions = deployment.outlives_its_workers(choice).then(|| {
            CreatedSessions::new(
                launch,
                &opening,
                workers,
                title.clone(),
                deployment.hidden.clone(),
                &self.cleanup,
            )
        });
        let server = deployment.server_pid();
        let mut group = WorkerGroup::start(launch, &opening, workers, server, created_sessions)
            .map_err(hide)?;
        let prepared = (1..=workers).map(|count| group.memory(count).resident).collect();
        let footprint = Footprint::of_empty(deployment.place(choice), group.first_pid());
        self.progress.set_message(&format!("{title}: fill in {sessions} sessions"));
        let filled = fill(&mut group, settings, workers, sessions).map_err(hide)?;
        let mut contender = ReadyContender {
            choice: choice.clone(),
            group,
            deployment,
            opening,
            workers,
            footprint,
            prepared,
            bytes_per_session: 0,
            fill_ns: filled.elapsed_ns,
            commits: 0,
            setup: 0,
            earlier: Findings::default(),
            earlier_created: Findings::default(),
            short_lived: false,
            created: Vec::new(),
        };
        contender.measure_space(sessions);
        Ok(contender)
    }
}

/// Gives up when it takes too long.
fn fill(
    group: &mut WorkerGroup,
    settings: &Settings,
    workers: usize,
    sessions: usize,
) -> WorkerResult<TaskTotals> {
    let until_ns = settings.fill_max.map(|most| now_ns().saturating_add(most.as_nanos() as u64));
    let all = SessionRange { until_ns, ..SessionRange::whole(&(0..sessions)) };
    let filled = group.run_split(workers, all, WorkerRequest::Fill)?;
    if let Some(message) = filled.first_error {
        let (made, errors) = (filled.count, filled.errors);
        let message = if made + errors < sessions as u64 {
            format!("filling it was given up after {made} of {sessions} sessions: {message}")
        } else {
            format!("{errors} of {sessions} sessions cannot be created: {message}")
        };
        return Err(ContenderFailure { code: "fill".to_owned(), message });
    }
    if filled.count < sessions as u64 {
        let message = too_slow(settings, filled.elapsed_ns as f64 / filled.count.max(1) as f64);
        return Err(ContenderFailure { code: TOO_SLOW.to_owned(), message });
    }
    Ok(filled)
}

pub(super) fn too_slow(settings: &Settings, session_ns: f64) -> String {
    let (sessions, bytes, spread) =
        (settings.sessions, settings.payload_bytes, settings.spread.name());
    let (rate, seconds) = (1e9 / session_ns.max(1.0), sessions as f64 * session_ns / 1e9);
    let allowed = settings.fill_max.unwrap_or_default().as_secs_f64();
    format!(
        "not with {sessions} sessions of {bytes} bytes ({spread}) or more: to fill them in takes \
         about {seconds:.0} s, at {rate:.0} \
         a second, and it may take {allowed} s (`scale --fill-max`)"
    )
}

impl ReadyContender {
    /// The old setup still exists meanwhile, so that the new one does not get its memory. It stays
    /// if that fails.
    pub(super) fn set_up_anew(
        &mut self,
        bench: &Bench,
        sessions: usize,
        ids: usize,
    ) -> WorkerResult<()> {
        let told = |failure: ContenderFailure| {
            let message = format!("it could not be set up anew: {}", failure.message);
            ContenderFailure { message, ..failure }
        };
        let mut anew = bench.set_up(&self.choice, self.workers, sessions, ids).map_err(told)?;
        self.earlier = self.verify(sessions)?;
        self.earlier_created = self.verify_created()?;
        anew.earlier.add(take(&mut self.earlier));
        anew.earlier_created.add(take(&mut self.earlier_created));
        anew.setup = self.setup + 1;
        *self = anew;
        Ok(())
    }

    pub(super) fn measure_space(&mut self, sessions: usize) {
        if self.short_lived {
            self.bytes_per_session = 0;
            return;
        }
        let created: usize = self.created.iter().map(ExactSizeIterator::len).sum();
        self.bytes_per_session = self.footprint.bytes() / (sessions + created).max(1) as u64;
    }

    pub(super) fn memory(&self, count: usize) -> WorkerMemory {
        let prepared = self.prepared.get(count.saturating_sub(1)).copied().unwrap_or(0);
        WorkerMemory { prepared, ..self.group.memory(count) }
    }

    /// Samples of the first workers, and the CPU time of the server meanwhile.
    pub(super) fn sample_all(
        &mut self,
        plans: &[SamplePlan],
        gives_up: GiveUpCheck,
    ) -> WorkerResult<(Vec<SampleResult>, Duration)> {
        let deployment = &self.deployment;
        let (samples, before, after) =
            self.group.sample(plans, gives_up, || deployment.server_cpu())?;
        self.commits += samples.iter().map(|sample| sample.commits).sum::<u64>();
        Ok((samples, after.saturating_sub(before)))
    }

    fn findings_of(&self, done: TaskTotals) -> Findings {
        let first_error = done.first_error.map(|message| self.deployment.redact(&message));
        Findings { lost: 0, misses: done.misses, errors: done.errors, first_error }
    }

    /// Counts acknowledged commits that are missing, and sessions with wrong content.
    pub(super) fn verify(&mut self, sessions: usize) -> WorkerResult<Findings> {
        let all = SessionRange::whole(&(0..sessions));
        let done = self.group.run_split(self.workers, all, WorkerRequest::Verify)?;
        let lost = self.commits.saturating_sub(done.counters);
        let mut found = Findings { lost, ..self.findings_of(done) };
        found.add(take(&mut self.earlier));
        Ok(found)
    }

    /// `lost` and the counters do not cover created sessions.
    pub(super) fn verify_created(&mut self) -> WorkerResult<Findings> {
        let mut total = Findings::default();
        for created in self.created.clone() {
            let range = SessionRange::whole(&created);
            let done = self.group.run_split(self.workers, range, WorkerRequest::Verify)?;
            let found = self.findings_of(done);
            total.add(found);
        }
        total.add(take(&mut self.earlier_created));
        Ok(total)
    }

    /// Verifies sessions that do not live until the end. Their space is not counted.
    pub(super) fn verify_short_lived(&mut self) -> WorkerResult<()> {
        let found = self.verify_created()?;
        self.earlier.add(found);
        self.short_lived |= !self.created.is_empty();
        self.created.clear();
        Ok(())
    }
}
