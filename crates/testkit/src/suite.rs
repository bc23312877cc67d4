//! Runs cases on stores.
//!
//! Each case runs on a thread of its own under a watchdog: one that hangs is a failure with its name, not a
//! hanging suite. Cases of one store run one after the other, so that the bounds on time that they assert
//! are about the store and not about the suite's own load; several stores run side by side.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use sessile_core::{Capabilities, Clock, Durability};
use sessile_fixtures::{Instance, ServerOptions, StartError};
use sessile_stores::{Fixture, StoreEntry, registry};

use crate::broken::Fault;
use crate::case::{Case, Isolation};
use crate::check::Failure;
use crate::eavesdropper;
use crate::ground::{Ground, storm};
use crate::opener;
use crate::pairs;

/// A store on which cases run.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its name in the matrix: `files`, `files/shm`, `broken-...`.
    pub name: String,
    entry: &'static StoreEntry,
    fixture: &'static Fixture,
    fault: Option<Fault>,
}

/// How one case ended on one store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The sentence holds.
    Passed(Duration),
    /// It does not.
    Failed(String),
    /// It is not about this store, for this reason.
    NotApplicable(&'static str),
    /// It could not be tried: the server is missing.
    Skipped(String),
}

/// How all cases ended on one store.
#[derive(Clone, Debug)]
pub struct Column {
    /// The store.
    pub subject: String,
    /// One verdict for each case, in their order.
    pub verdicts: Vec<Verdict>,
}

/// What is run, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The worker program.
    pub worker: PathBuf,
    /// The cases.
    pub cases: Vec<Case>,
    /// How many stores run side by side.
    pub side_by_side: usize,
    /// Called after each case.
    pub progress: fn(&str, &Case, &Verdict),
}

impl Subject {
    /// Every store of the registry on each of its fixtures, and those made of others on more than their own.
    pub fn all() -> Vec<Subject> {
        let entries = registry::STORES.iter().chain(pairs::entries());
        let fixtures = |entry: &'static StoreEntry| entry.fixtures.iter().map(move |fixture| (entry, fixture));
        entries.flat_map(fixtures).map(|(entry, fixture)| Subject::new(entry, fixture)).collect()
    }

    fn new(entry: &'static StoreEntry, fixture: &'static Fixture) -> Subject {
        let variant = Some(fixture.variant).filter(|variant| *variant != "default");
        let name = variant.map_or_else(|| entry.name.to_owned(), |variant| format!("{}/{variant}", entry.name));
        Subject { name, entry, fixture, fault: None }
    }

    /// A broken store; `None` when this build does not contain the good store behind it.
    pub fn broken(fault: Fault) -> Option<Subject> {
        let entry = registry::by_name(fault.base())?;
        let fixture = entry.fixtures.first()?;
        Some(Subject { name: format!("broken-{}", fault.name()), entry, fixture, fault: Some(fault) })
    }

    fn start(&self, isolation: Isolation, worker: &Path) -> Result<Ground, StartError> {
        let tiers = self.entry.capabilities.durability;
        let wanted = if isolation == Isolation::Durable { tiers.iter().max() } else { tiers.iter().min() };
        let durability = wanted.copied().unwrap_or(Durability::None);
        let instance =
            Instance::start(self.entry, self.fixture, &ServerOptions { durability, ..ServerOptions::default() })?;
        let url = match self.fault {
            Some(fault) => opener::broken_url(fault, instance.url()),
            None => instance.url().to_owned(),
        };
        let opened = opener::open(&url, Clock::system());
        let opened = opened.map_err(|error| StartError::Failed(format!("cannot open its fixture: {error:?}")))?;
        Ok(Ground {
            instance: Arc::new(Mutex::new(instance)),
            url,
            label: opened.label().to_owned(),
            capabilities: opened.capabilities(),
            worker: worker.to_owned(),
            keys: AtomicU64::new(0),
        })
    }

    fn declared(&self) -> Capabilities {
        self.entry.capabilities
    }
}

/// Runs the cases of a plan on stores.
pub fn run(plan: &Plan, subjects: &[Subject]) -> Vec<Column> {
    eavesdropper::listen();
    let next = AtomicUsize::new(0);
    let columns: Vec<Mutex<Option<Column>>> = subjects.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..plan.side_by_side.clamp(1, subjects.len().max(1)) {
            scope.spawn(|| {
                while let Some((subject, place)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    subjects.get(index).zip(columns.get(index))
                } {
                    let column = run_on(plan, subject);
                    *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(column);
                }
            });
        }
    });
    columns.into_iter().filter_map(|place| place.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

fn run_on(plan: &Plan, subject: &Subject) -> Column {
    // Fresh for each store; `None` after a case broke it, so that one fault does not fail the cases after it.
    let mut shared: Option<Arc<Ground>> = None;
    let mut verdicts = Vec::new();
    for case in &plan.cases {
        let verdict = run_case(plan, subject, case, &mut shared);
        if matches!(verdict, Verdict::Failed(_)) {
            shared = None;
        }
        (plan.progress)(&subject.name, case, &verdict);
        verdicts.push(verdict);
    }
    Column { subject: subject.name.clone(), verdicts }
}

fn run_case(plan: &Plan, subject: &Subject, case: &Case, shared: &mut Option<Arc<Ground>>) -> Verdict {
    if let Some(reason) = case.not_applicable(&subject.declared()) {
        // A fault may undeclare something: then the opened store is asked below.
        if subject.fault.is_none() {
            return Verdict::NotApplicable(reason);
        }
    }
    let ground = match (case.isolation, &*shared) {
        (Isolation::Shared, Some(ground)) => Ok(Arc::clone(ground)),
        _ => subject.start(case.isolation, &plan.worker).map(Arc::new),
    };
    let ground = match ground {
        Ok(ground) => ground,
        Err(error @ StartError::Missing { .. }) => return Verdict::Skipped(error.to_string()),
        Err(error) => return Verdict::Failed(error.to_string()),
    };
    if case.isolation == Isolation::Shared {
        *shared = Some(Arc::clone(&ground));
    }
    match case.not_applicable(&ground.capabilities()) {
        Some(reason) => Verdict::NotApplicable(reason),
        None => watched(case, ground),
    }
}

fn watched(case: &Case, ground: Arc<Ground>) -> Verdict {
    let start = Instant::now();
    let (sender, receiver) = mpsc::channel();
    let body = case.body;
    let limit = case.limit.saturating_mul(u32::try_from(storm()).unwrap_or(u32::MAX));
    let label = ground.label.clone();
    std::thread::spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| body(&ground)));
        // Only fails when the watchdog has already given up.
        let _ = sender.send(outcome);
    });
    let verdict = match receiver.recv_timeout(limit) {
        Ok(Ok(Ok(()))) => Verdict::Passed(start.elapsed()),
        Ok(Ok(Err(Failure(why)))) => Verdict::Failed(why),
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Verdict::Failed(format!("a panic: {text}"))
        }
        Err(_) => Verdict::Failed(format!("it hangs: no end after {limit:?}")),
    };
    match eavesdropper::heard(&label) {
        Some(line) => Verdict::Failed(format!("a log line contains an id or a payload: {line}")),
        None => verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Outcome;

    // Far longer than it takes to write the backtrace of a panic on a busy machine.
    const GENEROUS: Duration = Duration::from_secs(60);

    fn verdict_of(limit: Duration, body: fn(&Ground) -> Outcome) -> Verdict {
        let case = Case { limit, ..Case::new("a case of this test", body) };
        let plan = Plan {
            worker: PathBuf::new(),
            cases: vec![case],
            side_by_side: 1,
            progress: |_: &str, _: &Case, _: &Verdict| {},
        };
        let subject = Subject::all().into_iter().find(|subject| subject.name == "memory").unwrap();
        run(&plan, &[subject])[0].verdicts[0].clone()
    }

    fn failed_with(verdict: &Verdict, word: &str) -> bool {
        matches!(verdict, Verdict::Failed(why) if why.contains(word))
    }

    // One test: the memory stores of two would share a label, and so would their log lines.
    #[test]
    fn a_case_that_hangs_panics_or_logs_an_id_is_a_failure_and_the_suite_goes_on() {
        assert!(matches!(verdict_of(GENEROUS, |_| Ok(())), Verdict::Passed(_)));
        let hanging = verdict_of(Duration::from_millis(500), |_| {
            loop {
                std::thread::park()
            }
        });
        assert!(failed_with(&hanging, "hangs"), "{hanging:?}");
        let panicking = verdict_of(GENEROUS, |_| panic!("oh no"));
        assert!(failed_with(&panicking, "oh no"), "{panicking:?}");
        let talkative = verdict_of(GENEROUS, |ground| {
            log::warn!("{}: session {}", ground.label, ground.key().id());
            Ok(())
        });
        assert!(failed_with(&talkative, "log line"), "{talkative:?}");
        assert!(matches!(verdict_of(GENEROUS, |_| Ok(())), Verdict::Passed(_)));
    }
}
