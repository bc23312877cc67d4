//! Page load with `ab` of the Apache project, started as for the published measurement.
//!
//! Invariant: requests that failed or have a status other than 2xx are reported with every figure.
//! `ab` compares only the length of answers; their content is checked elsewhere.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use sessile_results::statistics::Spread;
use sessile_results::{LatencyUs, RoundSample};

use crate::program_output::output_within;

/// Longer than any load takes; `ab` itself gives up after 30 s without an answer.
const REQUESTS_WITHIN: Duration = Duration::from_secs(3_600);

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AbReport {
    pub per_second: f64,
    pub complete: u64,
    /// Not connected, broken off, or of another length than the first answer.
    pub failed: u64,
    pub not_2xx: u64,
    pub body_bytes: u64,
    pub elapsed_s: f64,
    /// With headers.
    pub transferred_bytes: u64,
    /// Mean of a request.
    pub mean_us: f64,
    /// `ab` reports nothing finer than p99.
    pub latency: LatencyUs,
    pub cpu_us: f64,
}

impl AbReport {
    pub(super) fn sample(&self) -> RoundSample {
        RoundSample {
            ops_per_second: self.per_second,
            p50_us: self.latency.p50,
            p99_us: self.latency.p99,
            setup: 0,
        }
    }
}

/// Extremes, and the median of each percentile: `ab` reports no counts.
pub(super) fn latency(loads: &[&AbReport]) -> LatencyUs {
    let spread = |part: fn(&LatencyUs) -> f64| {
        Spread::of(&loads.iter().map(|load| part(&load.latency)).collect::<Vec<f64>>())
    };
    LatencyUs {
        min: spread(|latency| latency.min).low,
        p50: spread(|latency| latency.p50).median,
        p90: spread(|latency| latency.p90).median,
        p99: spread(|latency| latency.p99).median,
        p999: 0.0,
        max: spread(|latency| latency.max).high,
    }
}

/// Debian package `apache2-utils`.
pub(super) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join("ab")).find(|file| file.is_file())
}

/// `one_length`: an answer of another length than the first one failed.
pub(super) fn send_requests(
    ab: &Path,
    url: &str,
    one_length: bool,
    requests: usize,
    parallel: usize,
    scratch: &Path,
) -> Result<AbReport, String> {
    let before = children_us();
    let mut command = Command::new(ab);
    command
        .args(["-q", "-n", &requests.to_string(), "-c", &parallel.to_string(), "-e"])
        .arg(scratch)
        .args((!one_length).then_some("-l"))
        .arg(url);
    let output = output_within(&mut command, REQUESTS_WITHIN)
        .map_err(|error| format!("ab was not run to its end: {error}"))?;
    let cpu_us = children_us() - before;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("ab failed: {}", said.trim().lines().next_back().unwrap_or_default()));
    }
    let percentiles = std::fs::read_to_string(scratch).unwrap_or_default();
    let load = parse(&String::from_utf8_lossy(&output.stdout), &percentiles);
    load.map(|load| AbReport { cpu_us, ..load })
        .ok_or_else(|| "the report of ab cannot be read".to_owned())
}

/// Of children that have ended.
fn children_us() -> f64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0.0, |usage| {
        let (user, system) = (usage.user_time(), usage.system_time());
        (user.tv_sec() + system.tv_sec()) as f64 * 1e6 + (user.tv_usec() + system.tv_usec()) as f64
    })
}

fn parse(report: &str, percentiles: &str) -> Option<AbReport> {
    let figure = |name: &str| {
        let line = report.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    let count = |name: &str| figure(name).map(|value| value as u64);
    let times: Vec<(f64, f64)> = percentiles
        .lines()
        .filter_map(|line| line.split_once(','))
        .filter_map(|(percent, ms)| {
            Some((percent.parse().ok()?, ms.trim().parse::<f64>().ok()? * 1e3))
        })
        .collect();
    let (complete, longest) = (count("Complete requests")?, longest_us(report)?);
    let us = |percent: f64| {
        let told = times.iter().rfind(|(served, _)| *served <= percent).map(|(_, us)| *us)?;
        // `ab` rounds its index up, and reads behind the end when there are few.
        let is_there = (0.5 + complete as f64 * percent / 100.0).floor() < complete as f64;
        Some(if is_there { told } else { longest })
    };
    let p99 = us(99.0)?;
    Some(AbReport {
        per_second: figure("Requests per second")?,
        complete,
        failed: count("Failed requests")?,
        not_2xx: count(
            "Non-2xx \
                        responses",
        )
        .unwrap_or(0), // the line is absent when there are none
        // "Variable" of answers whose length nobody looks at.
        body_bytes: count("Document Length").unwrap_or_default(),
        elapsed_s: figure("Time taken for tests")?,
        transferred_bytes: count("Total transferred")?,
        mean_us: figure("Time per request")? * 1e3,
        latency: LatencyUs {
            min: us(0.0)?,
            p50: us(50.0)?,
            p90: us(90.0)?,
            p99,
            p999: 0.0,
            // In whole milliseconds, so it may lie below a percentile.
            max: longest.max(p99),
        },
        cpu_us: 0.0,
    })
}

/// The last column of `Total:`.
fn longest_us(report: &str) -> Option<f64> {
    let line = report.lines().find_map(|line| line.strip_prefix("Total:"))?;
    Some(line.split_whitespace().last()?.parse::<f64>().ok()? * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "
Document Path:          /page
Document Length:        43 bytes

Concurrency Level:      4
Time taken for tests:   0.092 seconds
Complete requests:      200
Failed requests:        7
   (Connect: 0, Receive: 0, Length: 7, Exceptions: 0)
Non-2xx responses:      3
Total transferred:      73000 bytes
Requests per second:    2171.27 [#/sec] (mean)
Time per request:       1.842 [ms] (mean)

Connection Times (ms)
              min  mean[+/-sd] median   max
Connect:        0    0   0.1      0       1
Total:          1    2   0.6      2       5
";
    const PERCENTILES: &str =
        "Percentage served,Time in ms\n0,0.951\n50,1.700\n90,2.500\n99,4.125\n";

    #[test]
    fn what_ab_reports_is_read() {
        let load = parse(REPORT, PERCENTILES).unwrap();
        let latency = LatencyUs {
            min: 951.0,
            p50: 1_700.0,
            p90: 2_500.0,
            p99: 4_125.0,
            p999: 0.0,
            max: 5_000.0,
        };
        let expected = AbReport {
            per_second: 2_171.27,
            complete: 200,
            failed: 7,
            not_2xx: 3,
            body_bytes: 43,
            elapsed_s: 0.092,
            transferred_bytes: 73_000,
            mean_us: 1_842.0,
            latency,
            cpu_us: 0.0,
        };
        assert_eq!(load, expected);
        assert_eq!(
            parse(&REPORT.replace("Non-2xx responses:      3\n", ""), PERCENTILES).unwrap().not_2xx,
            0
        );
        // The longest of 5.4 ms is told as 5, and was then shorter than the 99th percentile.
        let above = parse(REPORT, &PERCENTILES.replace("4.125", "5.391")).unwrap().latency;
        assert_eq!((above.p99, above.max), (5_391.0, 5_391.0));
        // Of 40 it tells the time of a 41st.
        let few = REPORT.replace("requests:      200", "requests:      40");
        let latency = parse(&few, &PERCENTILES.replace("4.125", "0.257")).unwrap().latency;
        assert_eq!((latency.p90, latency.p99, latency.max), (2_500.0, 5_000.0, 5_000.0));
        let enough = REPORT.replace("requests:      200", "requests:      51");
        assert_eq!(parse(&enough, PERCENTILES).unwrap().latency.p99, 4_125.0);
        assert_eq!(parse("ab: invalid URL", PERCENTILES), None);
        assert_eq!(parse(REPORT, ""), None);
    }
}
