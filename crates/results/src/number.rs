//! Numbers for readers: as many digits as a measurement is worth, readable by spreadsheets.

/// A whole number with commas between groups of three digits.
pub fn count(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position) % 3 == 0 && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three significant digits, or all digits before the point.
pub fn figure(value: f64) -> String {
    match value {
        v if v >= 99.95 => count(v),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A round number of an axis: 20k, 1M, 0.5.
pub fn tick(value: f64) -> String {
    let (value, suffix) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let text = format!("{value:.2}");
    format!("{}{suffix}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A chosen number: short if that is exact, otherwise with all digits.
pub fn exact(value: f64) -> String {
    let units = [1e9, 1e6, 1e3];
    let unit = units.into_iter().find(|unit| value >= *unit).unwrap_or(1.0);
    if (value * 100.0) % unit == 0.0 { tick(value) } else { count(value) }
}

/// A number in a narrow label: 12.3k.
pub fn short(value: f64) -> String {
    match value {
        v if v >= 999_500.0 => format!("{}M", figure(v / 1e6)),
        v if v >= 9_999.5 => format!("{}k", figure(v / 1e3)),
        v => figure_or_whole(v),
    }
}

fn figure_or_whole(value: f64) -> String {
    if value.fract() == 0.0 { count(value) } else { figure(value) }
}

/// Microseconds, in the unit with the shortest text.
pub fn time(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{} \u{b5}s", tick(us)),
        us if us < 1e6 => format!("{} ms", tick(us / 1e3)),
        us => format!("{} s", tick(us / 1e6)),
    }
}

/// Bytes in binary units.
pub fn bytes(value: f64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, unit)| value >= *unit as f64) {
        Some((name, unit)) => format!("{} {name}", tick(value / *unit as f64)),
        None => format!("{value:.0} bytes"),
    }
}

/// A number with its noun in singular or plural.
pub fn with_noun(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", count(number as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_short() {
        assert_eq!(
            [count(999.0), count(1_234_567.4), count(-1_000.0)],
            ["999", "1,234,567", "-1,000"]
        );
        assert_eq!([figure(0.123), figure(12.34), figure(1_234.5)], ["0.12", "12.3", "1,234"]);
        assert_eq!([tick(20_000.0), tick(1e6), tick(0.5), tick(0.0)], ["20k", "1M", "0.5", "0"]);
        assert_eq!(
            [exact(550_000.0), exact(1_250_000.0), exact(12_345.0), exact(8.0)],
            ["550k", "1.25M", "12,345", "8"]
        );
        assert_eq!([short(12_345.0), short(2_500_000.0), short(950.0)], ["12.3k", "2.50M", "950"]);
        assert_eq!([time(5.0), time(20_000.0), time(2e6)], ["5 \u{b5}s", "20 ms", "2 s"]);
        assert_eq!(
            [bytes(1_500.0), bytes((8 << 20) as f64), bytes(100.0)],
            ["1.46 KiB", "8 MiB", "100 bytes"]
        );
        assert_eq!([with_noun(1, "worker"), with_noun(8, "worker")], ["1 worker", "8 workers"]);
    }
}
