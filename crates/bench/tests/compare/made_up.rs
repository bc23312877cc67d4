//! Made-up runs: rows whose rounds are disturbed as those of a real machine are assumed to be.
//! Nothing is tested here.

use serde_json::{Value, json};
use sessile_bench::compare::{self, ComparedRow, Comparison};
use sessile_bench::report::{RoundSample, Row};
use sessile_bench::{Report, UsageError};

/// What disturbs a made-up run.
#[derive(Clone, Copy)]
pub(crate) struct Noise {
    pub rounds: usize,
    /// Standard deviation of a round.
    pub round: f64,
    /// Of a row from run to run.
    pub fortune: f64,
    /// Of the machine from run to run.
    pub drift: f64,
    /// Part of the rounds in which something else was going on.
    pub outliers: f64,
}

/// A machine that does nothing else, and enough rounds.
pub(crate) const QUIET: Noise =
    Noise { rounds: 25, round: 0.025, fortune: 0.01, drift: 0.05, outliers: 0.05 };
/// The preset of three rounds beside other programs.
pub(crate) const NOISY: Noise = Noise { rounds: 3, round: 0.08, fortune: 0.03, ..QUIET };

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

    /// A run with these rows: name, and how fast it is.
    pub(crate) fn run(&mut self, rows: &[(&str, f64)]) -> Report {
        thread_local!(static EMPTY: Report = report(vec![row("", Vec::new())]));
        let mut report = EMPTY.with(Clone::clone);
        let empty = report.results.remove(0);
        let drift = self.normal(self.noise.drift);
        for (store, speed) in rows {
            let fortune = self.normal(self.noise.fortune);
            let samples =
                (0..self.noise.rounds).map(|_| self.sample(*speed, drift + fortune)).collect();
            let kind = if store.starts_with("redis") { "socket" } else { "embedded" }.to_owned();
            report.results.push(Row { store: (*store).to_owned(), kind, samples, ..empty.clone() });
        }
        report
    }

    /// Two runs in the same rounds: the machine is another one from round to round, by the same for
    /// both, and each store has another fortune in each of so many setups.
    pub(crate) fn run_against(
        &mut self,
        store: &str,
        [old, new]: [f64; 2],
        of_round: f64,
        setups: usize,
    ) -> [Report; 2] {
        let rounds = self.noise.rounds;
        let drifts: Vec<f64> = (0..rounds).map(|_| self.normal(of_round)).collect();
        [old, new].map(|speed| {
            let mut report = self.run(&[(store, speed)]);
            report.settings.against = Some("the same".to_owned());
            let fortunes: Vec<f64> = (0..setups).map(|_| self.normal(self.noise.fortune)).collect();
            let sample = |(round, drift): (usize, &f64)| {
                let setup = round * setups / rounds;
                RoundSample { setup, ..self.sample(speed, drift + fortunes[setup]) }
            };
            report.results[0].samples = drifts.iter().enumerate().map(sample).collect();
            report
        })
    }

    fn sample(&mut self, speed: f64, of_run: f64) -> RoundSample {
        let disturbed = self.random.f64() < self.noise.outliers;
        let slow = if disturbed { 0.1 + 0.3 * self.random.f64() } else { 0.0 };
        let speed = speed * (of_run + self.normal(self.noise.round) - slow).exp();
        RoundSample { ops_per_second: speed, p50_us: 1e6 / speed, p99_us: 3e6 / speed, setup: 0 }
    }
}

pub(crate) fn row(store: &str, samples: Vec<Value>) -> Value {
    json!({
        "experiment": "cycle", "store": store, "url": "", "variant": "default", "op": "cycle",
        "workers": 1,
        "sessions": 1000, "payload_bytes": 1500, "payload_spread": "fixed", "durability": "none",
        "kind": if store.starts_with("redis") { "socket" } else { "embedded" },
        "rounds": samples.len(),
        "ops_per_second": { "median": 1.0, "low": 1.0, "high": 1.0 }, "samples": samples,
        "latency_us": { "min": 1.0, "p50": 1.0, "p90": 1.0, "p99": 1.0, "p999": 1.0, "max": 1.0 },
        "operations": 1000, "errors": 0, "first_error": null, "misses": 0, "lost": 0,
        "failed": null,
        "cpu_us_per_op": { "client": 1.0, "server": 0.0 }, "bytes_per_session": 0,
    })
}

pub(crate) fn report(rows: Vec<Value>) -> Report {
    Report::from_json(&whole(rows).to_string()).unwrap()
}

pub(crate) fn whole(rows: Vec<Value>) -> Value {
    json!({
        "schema": 1, "command": "sessile bench \
                                 cycle", "seed": 1, "results": rows, "left_out": [], "warnings": [],
        "environment": { "cpu": "x", "cores": 2, "memory_bytes": 1, "kernel": "Linux",
            "system": "x",
            "disk_file_system": "ext4", "sessile": "0.1.0", "build": "release", "versions": {} },
        "settings": { "seconds": 0.5, "warm_up_seconds": 0.1, "ttl_seconds": 1440, "churn": 0,
            "confidence": 0.9 },
    })
}

pub(crate) const REFERENCES: [(&str, f64); 3] = [("limit", 5e6), ("lmdb", 4e5), ("null", 2e7)];

pub(crate) fn with_references<'a>(stores: &[(&'a str, f64)]) -> Vec<(&'a str, f64)> {
    stores.iter().copied().chain(REFERENCES).collect()
}

pub(crate) fn compare(
    old: &Report,
    new: &Report,
    threshold: f64,
) -> Result<Comparison, UsageError> {
    compare::compare(&old.clone().into(), &new.clone().into(), threshold)
}

pub(crate) fn judged(comparison: &Comparison, store: &str) -> ComparedRow {
    comparison.rows.iter().find(|row| row.row.store == store).unwrap().clone()
}
