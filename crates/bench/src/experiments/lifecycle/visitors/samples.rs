//! The samples of visitors to one site, and their row.
//!
//! Invariant: a value that was not measured is absent, not zero.

use sessile_results::histogram::Latencies;
use sessile_results::{CpuUs, LatencyUs, RoundSample, Row, ServerWork, Visitors, WebFigures};

use super::records_expected;

/// One sample a round.
#[derive(Default)]
pub(super) struct VisitorSamples {
    pub samples: Vec<VisitorSample>,
    /// The round and the reason.
    pub failed: Option<(usize, String)>,
}

pub(super) struct VisitorSample {
    pub elapsed_ns: u64,
    pub latencies: Latencies,
    /// CPU time of this process, which makes requests; of nginx and PHP; and of the server.
    pub client_us: f64,
    pub web_us: f64,
    pub server_us: f64,
    pub cookies: u64,
    pub records: Option<u64>,
    /// Sessions afterwards.
    pub kept: Option<u64>,
    pub grown_bytes: Option<i64>,
    pub server: Option<ServerWork>,
}

impl VisitorSamples {
    pub(super) fn keep_rounds(&mut self, rounds: usize) {
        self.samples.truncate(rounds);
        self.failed = self.failed.take().filter(|(round, _)| *round < rounds);
    }

    pub(super) fn into_row(self, row: Row, lazy: Option<bool>) -> Row {
        let samples = &self.samples;
        let mut latencies = Latencies::new();
        samples.iter().for_each(|sample| latencies.add(&sample.latencies));
        let rounds: Vec<RoundSample> = samples.iter().map(VisitorSample::round).collect();
        let all = row.sessions * samples.len();
        let each = |part: fn(&VisitorSample) -> f64| {
            samples.iter().map(part).sum::<f64>() / all.max(1) as f64
        };
        Row {
            rounds: samples.len(),
            ops_per_second: RoundSample::spread(&rounds),
            samples: rounds,
            latency_us: LatencyUs::new(&latencies),
            operations: all as u64,
            cpu_us_per_op: CpuUs {
                client: each(|it| it.client_us),
                server: each(|it| it.server_us),
            },
            web: self.totals(row.sessions, lazy).map(|visitors| WebFigures {
                sessions_kept: samples.last().and_then(|sample| sample.kept),
                cpu_us_per_op: each(|it| it.web_us),
                visitors: Some(visitors),
                ..WebFigures::default()
            }),
            failed: self.failed.map(|(_, why)| why),
            ..row
        }
    }

    /// The sum over all samples; `None` without a sample.
    fn totals(&self, visitors: usize, lazy: Option<bool>) -> Option<Visitors> {
        let samples = &self.samples;
        let has_server = samples.first()?.server.is_some();
        let of_server = || samples.iter().filter_map(|sample| sample.server.as_ref());
        Some(Visitors {
            visitors: (visitors * samples.len()) as u64,
            storing: records_expected(visitors, Some(true)) * samples.len() as u64,
            lazy_start: lazy,
            records: samples.iter().map(|sample| sample.records).sum(),
            cookies: samples.iter().map(|sample| sample.cookies).sum(),
            grown_bytes: samples.iter().map(|sample| sample.grown_bytes).sum(),
            server: has_server.then(|| ServerWork {
                changes: of_server().map(|work| work.changes).sum(),
                received_bytes: of_server().map(|work| work.received_bytes).sum(),
                grown_bytes: of_server().map(|work| work.grown_bytes).sum(),
            }),
        })
    }
}

impl VisitorSample {
    fn round(&self) -> RoundSample {
        RoundSample::new(self.latencies.count(), self.elapsed_ns, &self.latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(bytes: i64) -> VisitorSample {
        let server = Some(ServerWork { changes: 7, received_bytes: 900, grown_bytes: bytes });
        let mut latencies = Latencies::new();
        (1..=1_000).for_each(|us| latencies.record(us * 1_000));
        VisitorSample {
            elapsed_ns: 500_000_000,
            latencies,
            client_us: 100.0,
            web_us: 4_000.0,
            server_us: 40.0,
            cookies: 10,
            records: Some(10),
            kept: Some(210),
            grown_bytes: Some(bytes),
            server,
        }
    }

    /// A row without a sample said of its visitors that they had left 0 records and 0 bytes, and a
    /// sound one that they had cost nothing.
    #[test]
    fn what_was_measured_is_in_the_row_and_what_was_not_is_no_nought() {
        let bare = || Row { sessions: 10, ..Row::default() };
        let taken = VisitorSamples { samples: vec![sample(4_096), sample(-12_288)], failed: None };
        let row = taken.into_row(bare(), None);
        let web = row.web.unwrap();
        assert_eq!((row.rounds, row.operations, web.sessions_kept), (2, 20, Some(210)));
        assert_eq!(
            (row.cpu_us_per_op.client, row.cpu_us_per_op.server, web.cpu_us_per_op),
            (10.0, 4.0, 400.0)
        );
        assert!(row.latency_us.p999 > row.latency_us.p99, "{:?}", row.latency_us);
        let left = web.visitors.unwrap();
        assert_eq!((left.visitors, left.records, left.cookies), (20, Some(20), 20));
        let server = left.server.unwrap();
        assert_eq!(
            (left.grown_bytes, server.grown_bytes, server.changes),
            (Some(-8_192), -8_192, 14),
            "it has shrunk"
        );

        let taken =
            VisitorSamples { samples: Vec::new(), failed: Some((0, "no answer".to_owned())) };
        let row = taken.into_row(bare(), None);
        assert!(row.web.is_none() && row.rounds == 0 && row.failed.is_some(), "{row:#?}");
    }

    /// A signal in the second round threw the first one away.
    #[test]
    fn whole_rounds_are_kept_and_what_a_signal_spoilt_is_no_failure() {
        let spoilt =
            || Some((1, "10 visitors should have left 10 records, 3 are there".to_owned()));
        let mut taken = VisitorSamples { samples: vec![sample(0)], failed: spoilt() };
        taken.keep_rounds(1);
        assert!(taken.samples.len() == 1 && taken.failed.is_none());
        let mut taken = VisitorSamples { samples: vec![sample(0), sample(0)], failed: None };
        taken.keep_rounds(1);
        assert_eq!(taken.samples.len(), 1);
        let mut taken = VisitorSamples { samples: vec![sample(0)], failed: spoilt() };
        taken.keep_rounds(2);
        assert!(taken.failed.is_some(), "it failed in a whole round");
    }
}
