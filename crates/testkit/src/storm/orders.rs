//! How the storm program starts itself as a worker: one word, and what the worker is told as JSON.

use std::io::PipeWriter;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use sessile_core::Clock;

use super::client::ReportingClient;
use super::run_sessions::RunSessions;
use super::stop_one;
use super::storm_worker::StormWorker;
use crate::broken;
use crate::check::Failure;
use crate::child::ChildProcess;

const WORKER_WORD: &str = "storm-worker";

#[derive(Serialize, Deserialize)]
pub struct WorkerOrders {
    pub url: String,
    pub nonce: u64,
    pub worker: u64,
    pub work: WorkKind,
}

#[derive(Serialize, Deserialize)]
pub enum WorkKind {
    Storm {
        seed: u64,
    },
    /// Cycles at a pace; without one as fast as it can, and unreported.
    Cycles {
        pace_us: Option<u64>,
    },
}

impl WorkerOrders {
    pub fn spawn(&self, program: &Path, reports: &PipeWriter) -> Result<ChildProcess, Failure> {
        let orders = serde_json::to_string(self).map_err(|error| Failure(error.to_string()))?;
        let mut command = Command::new(program);
        command.args([WORKER_WORD, &orders]).stdin(Stdio::null()).stdout(reports.try_clone()?);
        ChildProcess::spawn(&mut command)
    }

    fn work(&self) -> sessile_core::Result<()> {
        let store = broken::open(&self.url, Clock::system())?;
        let sessions = RunSessions::new(self.nonce);
        match self.work {
            WorkKind::Storm { seed } => {
                let worker = usize::try_from(self.worker).unwrap_or(usize::MAX);
                let reports = Box::new(std::io::stdout());
                let client = ReportingClient::new(store, sessions, worker, reports);
                let mut worker = StormWorker::new(client, self.worker, seed);
                loop {
                    worker.step();
                }
            }
            WorkKind::Cycles { pace_us } => {
                stop_one::cycle(&store, &sessions, self.worker, pace_us.map(Duration::from_micros))
            }
        }
    }
}

/// Whether this process is a worker; if so, works until it is killed and gives the exit code.
pub fn run_as_worker(arguments: &[String]) -> Option<u8> {
    let [word, orders] = arguments else { return None };
    if word != WORKER_WORD {
        return None;
    }
    // A worker never outlives the storm, however that ends.
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    let Ok(orders) = serde_json::from_str::<WorkerOrders>(orders) else {
        eprintln!("the orders of a worker are malformed");
        return Some(2);
    };
    let Err(error) = orders.work() else { return Some(0) };
    eprintln!("a worker cannot work: {error:#}");
    Some(3)
}
