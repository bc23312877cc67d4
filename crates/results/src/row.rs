//! A row of a result: one contender, operation and number of workers.

use serde::{Deserialize, Serialize};

use crate::histogram::Latencies;
use crate::statistics::Spread;
use crate::{
    Faults, Oversize, Rebuild, Removal, RoundSample, WebFigures, WorkerMemory, naming, reference,
};

/// The tier of the user's own server.
pub const AS_CONFIGURED: &str = "as configured";
/// Stands for the host of a URL. Only servers over TCP have one.
pub const SHOWN_HOST: &str = "://<host>";
/// Stores whose sessions lie on the disk of a server, and these servers.
pub const ON_SERVER_DISK: [(&str, &str); 2] = [("mysql", "mariadbd"), ("postgres", "postgres")];

/// A measured combination of contender, operation and number of workers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    pub experiment: String,
    /// Registry name or reference row.
    pub store: String,
    /// URL without places, hosts and secrets.
    pub url: String,
    /// Distinguishes contenders of one name.
    pub variant: String,
    pub op: String,
    pub workers: usize,
    pub sessions: usize,
    /// Payload size, or the mean size.
    pub payload_bytes: usize,
    /// `fixed`, or the spread of sizes.
    pub payload_spread: String,
    /// The workload, unless each request is a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    pub durability: String,
    /// `embedded` or `socket`; compare figures only within one.
    pub kind: String,
    pub rounds: usize,
    /// Operations a second of all workers.
    pub ops_per_second: Spread,
    /// The rounds, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<RoundSample>,
    /// Latency over all rounds and workers.
    pub latency_us: LatencyUs,
    pub operations: u64,
    /// Failed operations and damaged payloads.
    pub errors: u64,
    pub first_error: Option<String>,
    /// Sessions that were not there.
    pub misses: u64,
    /// Acknowledged updates missing in the store. Counted after the last round, on the contender's
    /// row with the most workers.
    pub lost: u64,
    /// Why there are no figures.
    pub failed: Option<String>,
    /// CPU time of an operation.
    pub cpu_us_per_op: CpuUs,
    /// Space of a session: files and shared memory, or growth of a server's or worker's memory. In
    /// `cycle` and `ops` at the end of the run; 0 if unknown.
    pub bytes_per_session: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oversize: Option<Oversize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<Rebuild>,
    /// Memory of the row's workers after the last sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<WorkerMemory>,
    /// The lowest cycle count of a worker over the mean: 1 is fair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waits>,
    /// Latency counts, with the same bounds in all rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Buckets>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removal: Option<Removal>,
    /// Whether sweeping requests are a second mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<Modes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<WebFigures>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyUs {
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuUs {
    /// Of the workers.
    pub client: f64,
    /// Of the server. 0 if there is none, if its process was not measured (`rebuild`, the user's
    /// store), or if it used less than the kernel counts; see [`CpuUs::of_server`].
    pub server: f64,
}

/// Waits of begins, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// Begins that were recorded.
    pub begins: u64,
    /// Begins that found the session locked.
    pub taken: u64,
    pub taken_p50: f64,
    pub taken_p99: f64,
    pub all_p50: f64,
    pub all_p99: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Buckets {
    /// Upper bounds in microseconds.
    pub bounds_us: Vec<u64>,
    /// Counts; the last one is above all bounds.
    pub counts: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Modes {
    /// Median without, in microseconds.
    pub plain_p50: f64,
    /// Median with.
    pub sweeping_p50: f64,
    pub sweeping: u64,
    /// 90th percentile with.
    pub sweeping_p90: f64,
    /// 2 if a tenth of the sweeping requests took more than four times the others' 99th percentile.
    pub modes: u32,
}

impl Modes {
    /// With fewer sessions a sweep may not stand out, so one mode proves nothing.
    pub const SESSIONS_MIN: usize = 50_000;

    pub fn new(plain: &Latencies, sweeping: &Latencies) -> Modes {
        let (plain_p50, sweeping_p50) = (plain.us(0.5), sweeping.us(0.5));
        let sweeping_p90 = sweeping.us(0.9);
        let modes = if sweeping_p90 > 4.0 * plain.us(0.99) { 2 } else { 1 };
        Modes { plain_p50, sweeping_p50, sweeping_p90, sweeping: sweeping.count(), modes }
    }
}

impl CpuUs {
    /// The server's time, if known.
    pub fn of_server(&self) -> Option<f64> {
        Some(self.server).filter(|us| *us > 0.0)
    }
}

impl Buckets {
    /// 1-2-5 steps from 1 us to 10 s.
    const BOUNDS_US: [u64; 22] = [
        1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000,
        200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000,
    ];

    pub fn from_latencies(latencies: &Latencies) -> Buckets {
        let bounds_us = Buckets::BOUNDS_US;
        Buckets { bounds_us: bounds_us.to_vec(), counts: latencies.between(&bounds_us) }
    }
}

impl LatencyUs {
    pub fn new(latencies: &Latencies) -> LatencyUs {
        LatencyUs {
            min: latencies.min_us(),
            p50: latencies.us(0.5),
            p90: latencies.us(0.9),
            p99: latencies.us(0.99),
            p999: latencies.us(0.999),
            max: latencies.max_us(),
        }
    }
}

impl Row {
    pub fn title(&self) -> String {
        naming::title(&self.store, &self.variant)
    }

    /// The title in tables and charts, which tells TCP from the shorter way over a unix socket.
    pub fn shown_title(&self) -> String {
        let over_tcp = self.kind == "socket" && self.url.contains(SHOWN_HOST);
        if over_tcp { format!("{} (tcp)", self.title()) } else { self.title() }
    }

    /// Lost updates are a fault only of a contender that takes locks.
    pub fn is_bad(&self) -> bool {
        let unlocked = || reference::by_name(&self.store).is_some_and(|it| it.unlocked);
        self.failed.is_some() || self.errors + self.misses > 0 || self.lost > 0 && !unlocked()
    }

    /// Bytes of a session as a multiple of its payload. `None` where they are no space of sessions:
    /// not weighed, or of a server with a disk, of which only the growth of its memory is known.
    pub fn times_payload(&self) -> Option<f64> {
        let server = reference::by_name(&self.store).and_then(|it| it.server);
        let keeps_on_disk = ON_SERVER_DISK
            .iter()
            .any(|(store, of)| *store == self.store || server.is_some_and(|it| it == *of));
        (self.bytes_per_session > 0 && !keeps_on_disk)
            .then(|| self.bytes_per_session as f64 / self.payload_bytes.max(1) as f64)
    }

    /// The title with a star if it is no store but a yardstick.
    pub fn marked_title(&self) -> String {
        let title = self.shown_title();
        if self.is_reference() { format!("{title} *") } else { title }
    }

    /// The faults of a row that has figures all the same, briefly. Updates that a row without a
    /// lock lost are none.
    pub fn fault_counts(&self) -> Option<String> {
        if !self.is_bad() {
            return None;
        }
        let counts = [("errors", self.errors), ("misses", self.misses), ("lost", self.lost)];
        let found = counts.iter().filter(|(_, count)| *count > 0);
        let said: Vec<String> = found.map(|(what, count)| format!("{count} {what}")).collect();
        (!said.is_empty()).then(|| said.join(", "))
    }

    /// What went wrong with the reason; `None` if the row is sound.
    pub fn complaint(&self) -> Option<String> {
        if let Some(why) = &self.failed {
            return Some(format!("failed: {why}"));
        }
        let fault = self.fault_counts()?;
        let first = self.first_error.as_ref();
        Some(first.map_or(fault.clone(), |first| format!("{fault}; the first: {first}")))
    }

    pub fn is_reference(&self) -> bool {
        reference::by_name(&self.store).is_some()
    }

    pub fn fault(&self) -> String {
        let counts = || {
            format!("{} errors, {} misses, {} lost updates", self.errors, self.misses, self.lost)
        };
        let of_kills = self.faults.as_ref().map(Faults::in_words).filter(|words| !words.is_empty());
        self.failed.clone().or(of_kills).unwrap_or_else(counts)
    }
}
