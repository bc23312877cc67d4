//! Numbers with units, for people. JSON has plain numbers.

use std::time::Duration;

use sessile_core::Detail;
use sessile_scan::Pause;

/// A whole number with a space between groups of three digits.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun in singular or plural.
pub fn with_noun(number: u64, noun: &str) -> String {
    let noun = match noun.strip_suffix('y') {
        _ if number == 1 => noun.to_owned(),
        Some(stem) => format!("{stem}ies"),
        None => format!("{noun}s"),
    };
    format!("{} {noun}", count(number))
}

/// A size: exact below 1 KiB, else in the largest binary unit with one decimal.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] =
        [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => {
            format!("{}.{} {name}", bytes / unit, u128::from(bytes % unit) * 10 / u128::from(*unit))
        }
        None => with_noun(bytes, "byte"),
    }
}

/// Parses a size: bytes, or a number with `K`, `M`, `G`, also as `KiB` or `KB`; all are binary.
/// The error has examples.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default().to_ascii_lowercase();
    let factor = match unit.as_str() {
        "" | "b" => Some(1),
        "k" | "kb" | "kib" => Some(1 << 10),
        "m" | "mb" | "mib" => Some(1 << 20),
        "g" | "gb" | "gib" => Some(1 << 30),
        _ => None,
    };
    let bytes = factor
        .zip(digits.parse::<u64>().ok())
        .and_then(|(factor, number)| number.checked_mul(factor));
    bytes.ok_or_else(|| "it must be a size such as 1500, 64K or 1M".to_owned())
}

/// Parses a duration with its unit: `300us`, `20ms`, `1.5s`, `10min`, `1h`. At most a day, and at
/// least a microsecond.
/// The error has examples.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let number = text.strip_suffix(unit).and_then(|digits| digits.parse::<f64>().ok());
    let seconds = match unit {
        "us" => Some(0.000_001),
        "ms" => Some(0.001),
        "s" => Some(1.0),
        "min" => Some(60.0),
        "h" => Some(3_600.0),
        _ => None,
    };
    let seconds = seconds.zip(number).map(|(unit, number)| unit * number);
    let seconds = seconds.filter(|seconds| (0.000_001..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| {
        "it must be a duration from 1us to 24h with its unit, such as 20ms, 30s, 10min or 1h"
            .to_owned()
    })
}

/// As [`parse_duration`], in seconds.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    // By way of a whole number, which keeps 0.3ms from being 0.30000000000000004.
    parse_duration(text).map(|duration| duration.as_nanos() as f64 / 1e9)
}

/// As [`parse_duration`], in milliseconds.
pub fn parse_milliseconds(text: &str) -> Result<f64, String> {
    parse_duration(text).map(|duration| duration.as_nanos() as f64 / 1e6)
}

/// Parses a pause between batches: `4x`, `10ms`, or `0` for none. The error has examples.
pub fn parse_pause(text: &str) -> Result<Pause, String> {
    let times = text.strip_suffix('x').and_then(|times| times.parse::<u32>().ok());
    match times.filter(|times| *times <= 1_000) {
        _ if text == "0" => Ok(Pause::NONE),
        Some(times) => Ok(Pause::Times(times)),
        None => parse_duration(text).map(Pause::AtLeast).map_err(|_| {
            "it must be a duration such as 10ms, a multiple of the batch such as 4x, or 0"
                .to_owned()
        }),
    }
}

/// As [`milliseconds`].
pub fn duration(span: Duration) -> String {
    milliseconds(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

/// A span of time in its two largest units.
pub fn milliseconds(milliseconds: u64) -> String {
    let (seconds, minutes, hours) =
        (milliseconds / 1_000, milliseconds / 60_000, milliseconds / 3_600_000);
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{seconds}.{} s", milliseconds % 1_000 / 100),
        60_000..3_600_000 => format!("{minutes} min {} s", seconds % 60),
        3_600_000..172_800_000 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} days {} h", hours / 24, hours % 24),
    }
}

pub fn value(value: &Detail) -> String {
    match value {
        Detail::Count(number) => count(*number),
        Detail::Bytes(size) => bytes(*size),
        Detail::Milliseconds(span) => milliseconds(*span),
        Detail::Text(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_read_with_its_unit_and_nonsense_is_refused() {
        let read = ["0", "1500", "64K", "1M", "1MiB", "2gb"].map(|text| parse_bytes(text).unwrap());
        assert_eq!(read, [0, 1_500, 64 << 10, 1 << 20, 1 << 20, 2 << 30]);
        for text in ["", "M", "-1", "1.5M", "1T", "99999999999999999999", "99999999999999999G"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_duration_and_a_pause_have_units_and_nonsense_is_refused() {
        let read = ["20ms", "1.5s", "10min", "24h"].map(|text| parse_duration(text).unwrap());
        assert_eq!(read.map(|it| it.as_millis()), [20, 1_500, 600_000, 86_400_000]);
        for text in ["", "0", "0s", "20", "s", "-1s", "1.1.1s", "25h", "1 s", "nans", "1e9s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        let microseconds = ["1us", "0.3ms"].map(|text| parse_duration(text).unwrap().as_micros());
        assert_eq!((microseconds, parse_milliseconds("0.3ms")), ([1, 300], Ok(0.3)));
        assert_eq!((parse_seconds("600ms"), parse_seconds("2min")), (Ok(0.6), Ok(120.0)));
        assert!(parse_duration("0.1us").is_err());
        let pauses = ["0", "4x", "10ms"].map(|text| parse_pause(text).unwrap());
        let ten = Pause::AtLeast(Duration::from_millis(10));
        assert_eq!(pauses, [Pause::NONE, Pause::Times(4), ten]);
        for text in ["", "x", "4", "-1x", "1001x", "1.5x"] {
            assert!(parse_pause(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_grouped_and_have_their_units() {
        assert_eq!([count(0), count(999), count(1_234_567)], ["0", "999", "1 234 567"]);
        assert_eq!([with_noun(1, "step"), with_noun(0, "step")], ["1 step", "0 steps"]);
        assert_eq!(
            [bytes(1), bytes(1_023), bytes(1_536), bytes(3 << 30)],
            ["1 byte", "1 023 bytes", "1.5 KiB", "3.0 GiB"]
        );
        assert_eq!(bytes(u64::MAX), "16777215.9 TiB");
        let spans = [0, 999, 1_250, 61_000, 3_660_000, 172_800_000 + 3_600_000].map(milliseconds);
        assert_eq!(spans, ["0 ms", "999 ms", "1.2 s", "1 min 1 s", "1 h 1 min", "2 days 1 h"]);
    }
}
