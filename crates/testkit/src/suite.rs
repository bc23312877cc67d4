//! Runs cases on stores.
//!
//! Each case runs on a thread of its own under a watchdog: a case that hangs is a failure with its
//! name. Cases of one store run one after the other, so that their bounds on time are about the
//! store and not about the suite's own load; several stores run side by side.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use sessile_core::Capabilities;
use sessile_fixtures::StartError;
use sessile_stores::{Fixture, StoreEntry, registry};

use crate::broken::StoreFault;
use crate::case::{Case, Isolation};
use crate::check::Failure;
use crate::leak_logger;
use crate::pairs;
use crate::testbed::{Testbed, fixture_name, storm_factor};

#[derive(Clone)]
pub struct StoreUnderTest {
    /// Its name in the matrix: `files`, `files/shm`, `broken-...`.
    pub name: String,
    entry: &'static StoreEntry,
    fixture: &'static Fixture,
    fault: Option<StoreFault>,
}

#[derive(Clone, Debug)]
pub enum CaseVerdict {
    Passed(Duration),
    Failed(String),
    /// It is not about this store, for this reason.
    NotApplicable(&'static str),
    /// It could not be tried: the server is missing.
    Skipped(String),
}

use CaseVerdict::*;

pub struct MatrixColumn {
    pub store: String,
    /// One verdict for each case, in their order.
    pub verdicts: Vec<CaseVerdict>,
}

pub struct SuiteOptions {
    pub worker: PathBuf,
    pub cases: Vec<Case>,
    /// How many stores run side by side.
    pub side_by_side: usize,
    /// Called after each case.
    pub progress: fn(&str, &Case, &CaseVerdict),
}

impl CaseVerdict {
    pub fn word(&self) -> &'static str {
        match self {
            Passed(_) => "ok",
            Failed(_) => "FAIL",
            NotApplicable(_) => "-",
            Skipped(_) => "skip",
        }
    }
}

impl StoreUnderTest {
    /// Every store of the registry on each of its fixtures, and some on more than their own.
    pub fn all() -> Vec<StoreUnderTest> {
        let entries = registry::STORES.iter().chain(pairs::entries());
        let on_fixtures = |entry: &'static StoreEntry| {
            let on_fixture = move |fixture| {
                let name = fixture_name(entry, fixture, '/');
                StoreUnderTest { name, entry, fixture, fault: None }
            };
            entry.fixtures.iter().map(on_fixture)
        };
        entries.flat_map(on_fixtures).collect()
    }

    /// A broken store; `None` when this build does not contain the good store behind it.
    pub fn broken(fault: StoreFault) -> Option<StoreUnderTest> {
        let entry = registry::by_name(fault.base())?;
        let name = format!("broken-{}", fault.name());
        Some(StoreUnderTest { name, entry, fixture: entry.fixtures.first()?, fault: Some(fault) })
    }
}

pub fn run(options: &SuiteOptions, stores: &[StoreUnderTest]) -> Vec<MatrixColumn> {
    leak_logger::install();
    let (next, columns) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..options.side_by_side.clamp(1, stores.len().max(1)) {
            scope.spawn(|| {
                while let Some((index, store)) = {
                    // Relaxed: only its own value counts.
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    stores.get(index).map(|store| (index, store))
                } {
                    let column = run_on(options, store);
                    columns.lock().unwrap_or_else(PoisonError::into_inner).push((index, column));
                }
            });
        }
    });
    let mut columns = columns.into_inner().unwrap_or_else(PoisonError::into_inner);
    columns.sort_by_key(|(index, _)| *index);
    columns.into_iter().map(|(_, column)| column).collect()
}

fn run_on(options: &SuiteOptions, store: &StoreUnderTest) -> MatrixColumn {
    // `None` after a failure, so that one fault does not fail the cases after it.
    let mut shared: Option<Arc<Testbed>> = None;
    let mut verdicts = Vec::new();
    for case in &options.cases {
        let verdict = run_case(options, store, case, &mut shared);
        if matches!(verdict, Failed(_)) {
            shared = None;
        }
        (options.progress)(&store.name, case, &verdict);
        verdicts.push(verdict);
    }
    MatrixColumn { store: store.name.clone(), verdicts }
}

fn run_case(
    options: &SuiteOptions,
    store: &StoreUnderTest,
    case: &Case,
    shared: &mut Option<Arc<Testbed>>,
) -> CaseVerdict {
    let StoreUnderTest { entry, fixture, fault, .. } = store;
    // A fault may undeclare something: then only the opened store is asked, below.
    if let (Some(reason), None) = (case.not_applicable(&entry.capabilities), fault) {
        return NotApplicable(reason);
    }
    let reused = shared.clone().filter(|_| case.isolation == Isolation::Shared);
    let start = || Testbed::start(entry, fixture, *fault, case.isolation, &options.worker);
    let testbed = match reused.map_or_else(|| start().map(Arc::new), Ok) {
        Ok(testbed) => testbed,
        Err(error @ StartError::Missing { .. }) => return Skipped(error.to_string()),
        Err(error) => return Failed(error.to_string()),
    };
    if case.isolation == Isolation::Shared {
        *shared = Some(Arc::clone(&testbed));
    }
    let capabilities = testbed.capabilities();
    let without_server = Capabilities { server: None, ..capabilities };
    let about_a_server = case.not_applicable(&capabilities).is_none()
        && case.not_applicable(&without_server).is_some();
    match case.not_applicable(&capabilities) {
        None if about_a_server && !testbed.has_one_server() && capabilities.server.is_some() => {
            NotApplicable("has several servers")
        }
        Some(reason) => NotApplicable(reason),
        None => watched(case, testbed),
    }
}

fn watched(case: &Case, testbed: Arc<Testbed>) -> CaseVerdict {
    let start = Instant::now();
    let (sender, receiver) = mpsc::channel();
    let case = *case;
    let limit = case.limit.saturating_mul(u32::try_from(storm_factor()).unwrap_or(u32::MAX));
    let label = testbed.label().to_owned();
    std::thread::spawn(move || {
        let ended = catch_unwind(AssertUnwindSafe(|| case.run(&testbed)));
        // Only fails when the watchdog has already given up.
        let _ = sender.send(ended);
    });
    let verdict = match receiver.recv_timeout(limit) {
        Ok(Ok(Ok(()))) => Passed(start.elapsed()),
        Ok(Ok(Err(Failure(why)))) => Failed(why),
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text =
                text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Failed(format!("a panic: {text}"))
        }
        Err(_) => Failed(format!("it hangs: no end after {limit:?}")),
    };
    match leak_logger::leaked_line(&label) {
        Some(line) => Failed(format!("a log line contains an id or a payload: {line}")),
        None => verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::CaseResult;
    use crate::testbed::{TestStore, new_key};

    // Far longer than it takes to write the backtrace of a panic on a busy machine.
    const GENEROUS: Duration = Duration::from_secs(60);

    fn verdict_of(limit: Duration, body: fn(&Testbed, &TestStore) -> CaseResult) -> CaseVerdict {
        let case = Case { limit, ..Case::new("a case of this test", body) };
        let options = SuiteOptions {
            worker: PathBuf::new(),
            cases: vec![case],
            side_by_side: 1,
            progress: |_: &str, _: &Case, _: &CaseVerdict| {},
        };
        let store = StoreUnderTest::all().into_iter().find(|store| store.name == "memory").unwrap();
        run(&options, &[store])[0].verdicts[0].clone()
    }

    fn failed_with(verdict: &CaseVerdict, word: &str) -> bool {
        matches!(verdict, Failed(why) if why.contains(word))
    }

    // One test: the memory stores of two would share a label, and so would their log lines.
    #[test]
    fn a_case_that_hangs_panics_or_logs_an_id_is_a_failure_and_the_suite_goes_on() {
        assert!(matches!(verdict_of(GENEROUS, |_, _| Ok(())), Passed(_)));
        let hanging = verdict_of(Duration::from_millis(500), |_, _| {
            loop {
                std::thread::park()
            }
        });
        assert!(failed_with(&hanging, "hangs"), "{hanging:?}");
        let panicking = verdict_of(GENEROUS, |_, _| panic!("oh no"));
        assert!(failed_with(&panicking, "oh no"), "{panicking:?}");
        let talkative = verdict_of(GENEROUS, |testbed, _| {
            log::warn!("{}: session {}", testbed.label(), new_key().id());
            Ok(())
        });
        assert!(failed_with(&talkative, "log line"), "{talkative:?}");
        assert!(matches!(verdict_of(GENEROUS, |_, _| Ok(())), Passed(_)));
    }
}
