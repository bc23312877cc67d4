//! Histograms as text, with the same bounds for all.

use crate::histogram::Latencies;
use crate::report::Buckets;

/// 1-2-5 steps from 1 us to 10 s.
const BOUNDS_US: [u64; 22] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000,
    200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000,
];
const WIDTH: usize = 26;

impl Buckets {
    pub(crate) fn from_latencies(latencies: &Latencies) -> Buckets {
        Buckets { bounds_us: BOUNDS_US.to_vec(), counts: latencies.between(&BOUNDS_US) }
    }
}

/// Bars are logarithmic, so that one request in ten thousand is visible.
pub(crate) fn histograms_text(histograms: &[(String, &Buckets)]) -> String {
    let used = |bucket: usize| histograms.iter().any(|(_, buckets)| count(buckets, bucket) > 0);
    let (Some(first), Some(last)) =
        ((0..=BOUNDS_US.len()).find(|b| used(*b)), (0..=BOUNDS_US.len()).rfind(|b| used(*b)))
    else {
        return String::new();
    };
    let mut text = format!("{:>10}", "latency");
    for (title, _) in histograms {
        text.push_str(&format!("  {:<width$}", title, width = WIDTH + 9));
    }
    for bucket in first..=last {
        let label = match BOUNDS_US.get(bucket) {
            Some(bound) => format!("< {}", duration(*bound)),
            None => "more".to_owned(),
        };
        text = format!("{}\n{label:>10}", text.trim_end());
        for (_, buckets) in histograms {
            let (value, most) =
                (count(buckets, bucket), buckets.counts.iter().copied().max().unwrap_or(1));
            let length =
                if value == 0 { 0.0 } else { ((value + 1) as f64).ln() / ((most + 1) as f64).ln() };
            let bar = "#".repeat((length * WIDTH as f64).ceil() as usize);
            let shown = if value == 0 { String::new() } else { value.to_string() };
            text.push_str(&format!("  {shown:>8} {bar:<WIDTH$}"));
        }
    }
    format!("{}\n", text.trim_end())
}

fn count(buckets: &Buckets, bucket: usize) -> u64 {
    buckets.counts.get(bucket).copied().unwrap_or(0)
}

fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} us"),
        1_000..1_000_000 => format!("{} ms", us / 1_000),
        _ => format!("{} s", us / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rare_slow_mode_is_visible() {
        let mut latencies = Latencies::new();
        (0..10_000).for_each(|_| latencies.record(15_000));
        latencies.record(27_000_000);
        let buckets = Buckets::from_latencies(&latencies);
        let text = histograms_text(&[("with sweep".into(), &buckets)]);
        let slow = text.lines().find(|line| line.contains("< 50 ms")).unwrap();
        assert!(slow.contains("1 ##"), "{text}");
        assert_eq!(buckets.counts.iter().sum::<u64>(), 10_001);
    }
}
