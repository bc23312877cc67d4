//! Made-up runs: rows whose rounds are disturbed as those of a real machine are assumed to be.
//! Nothing is tested here.

use serde_json::{Value, json};
use sessile_results::compare::{self, Comparison};
use sessile_results::{Figures, Report, UsageError};
use sessile_results::{RoundSample, Row};

const ROUNDS: usize = 200;
const SETUPS: usize = 10;

/// What disturbs a made-up run, as standard deviations.
#[derive(Clone, Copy)]
pub(crate) struct Noise {
    /// Of a round of one store.
    pub round: f64,
    /// Of the machine from round to round.
    pub machine: f64,
    /// Of a store from setup to setup.
    pub setup: f64,
    /// Part of the rounds in which something else was going on.
    pub outliers: f64,
}

pub(crate) const NOISE: Noise = Noise { round: 0.025, machine: 0.15, setup: 0.03, outliers: 0.05 };

pub(crate) struct Machine {
    random: fastrand::Rng,
    noise: Noise,
}

impl Machine {
    pub(crate) fn new(seed: u64, noise: Noise) -> Machine {
        Machine { random: fastrand::Rng::with_seed(seed), noise }
    }

    fn normal(&mut self, deviation: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.random.f64()).ln()).sqrt();
        deviation * radius * (std::f64::consts::TAU * self.random.f64()).cos()
    }

    /// A run of these stores.
    pub(crate) fn run(&mut self, stores: &[String], speed: f64) -> Report {
        let drifts = vec![0.0; ROUNDS];
        self.in_rounds(stores, speed, &drifts)
    }

    /// Two programs in the same rounds: the machine is another one from round to round, by the same
    /// for both, and each store has another speed in each setup.
    pub(crate) fn run_with_baseline(&mut self, stores: &[String], speeds: [f64; 2]) -> [Report; 2] {
        let drifts: Vec<f64> = (0..ROUNDS).map(|_| self.normal(self.noise.machine)).collect();
        speeds.map(|speed| {
            let mut report = self.in_rounds(stores, speed, &drifts);
            report.settings.baseline = Some("the same".to_owned());
            report
        })
    }

    fn in_rounds(&mut self, stores: &[String], speed: f64, drifts: &[f64]) -> Report {
        thread_local!(static EMPTY: Report = empty());
        let mut report = EMPTY.with(Clone::clone);
        let empty = report.results.remove(0);
        for store in stores {
            let setups: Vec<f64> = (0..SETUPS).map(|_| self.normal(self.noise.setup)).collect();
            let sample = |(round, drift): (usize, &f64)| {
                let setup = round * SETUPS / ROUNDS;
                RoundSample { setup, ..self.sample(speed, drift + setups[setup]) }
            };
            let samples: Vec<RoundSample> = drifts.iter().enumerate().map(sample).collect();
            let mut row = empty.clone();
            row.subject.store = store.clone();
            row.figures.ops_per_second.median = samples[0].ops_per_second;
            report.results.push(Row { figures: Figures { samples, ..row.figures }, ..row });
        }
        report
    }

    fn sample(&mut self, speed: f64, drift: f64) -> RoundSample {
        let disturbed = self.random.f64() < self.noise.outliers;
        let slow = if disturbed { 0.1 + 0.3 * self.random.f64() } else { 0.0 };
        let speed = speed * (drift + self.normal(self.noise.round) - slow).exp();
        RoundSample { ops_per_second: speed, p50_us: 1e6 / speed, p99_us: 3e6 / speed, setup: 0 }
    }
}

fn row() -> Value {
    json!({
        "experiment": "cycle", "store": "", "url": "", "variant": "default", "op": "cycle",
        "workers": 1,
        "sessions": 1000, "payload_bytes": 1500, "payload_spread": "fixed", "durability": "none",
        "kind": "embedded", "rounds": ROUNDS,
        "ops_per_second": { "median": 1.0, "low": 1.0, "high": 1.0 },
        "latency_us": { "min": 1.0, "p50": 1.0, "p90": 1.0, "p99": 1.0, "p999": 1.0, "max": 1.0 },
        "operations": 1000, "errors": 0, "first_error": null, "misses": 0, "lost": 0,
        "failed": null,
        "cpu_us_per_op": { "client": 1.0, "server": 0.0 }, "bytes_per_session": 0,
    })
}

fn empty() -> Report {
    let whole = json!({
        "schema": 1, "command": "sessile bench cycle", "seed": 1, "results": [row()],
        "left_out": [], "warnings": [],
        "environment": { "cpu": "x", "cores": 2, "memory_bytes": 1, "kernel": "Linux",
            "system": "x",
            "disk_file_system": "ext4", "sessile": "0.1.0", "build": "release", "versions": {} },
        "settings": { "seconds": 0.5, "warm_up_seconds": 0.1, "ttl_seconds": 1440,
            "confidence": 0.9 },
    });
    Report::from_json(&whole.to_string()).unwrap()
}

pub(crate) fn compare(old: &Report, new: &Report) -> Result<Comparison, UsageError> {
    compare::compare(&old.clone().into(), &new.clone().into())
}
