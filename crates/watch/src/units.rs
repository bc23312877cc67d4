//! Numbers for people, short enough for a column or an axis.

/// A number with three digits and a letter: `950`, `12.4k`, `3.1M`.
pub fn short(number: f64) -> String {
    let steps = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let step = steps.iter().find(|(step, _)| number.abs() >= *step);
    match step {
        Some((step, letter)) => format!("{:.1}{letter}", number / step),
        None if number.fract().abs() < 0.05 => format!("{number:.0}"),
        None => format!("{number:.1}"),
    }
}

/// A size in binary units.
pub fn bytes(bytes: f64) -> String {
    let steps = [(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1_024.0, "KiB")];
    let step = steps.iter().find(|(step, _)| bytes >= *step);
    step.map_or_else(
        || format!("{bytes:.0} B"),
        |(step, unit)| format!("{:.1} {unit}", bytes / step),
    )
}

/// A time in the unit that fits.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s >= 86_400.0 => format!("{:.1} d", s / 86_400.0),
        s if s >= 3_600.0 => format!("{:.1} h", s / 3_600.0),
        s if s >= 60.0 => format!("{:.1} min", s / 60.0),
        s if s >= 1.0 => format!("{s:.1} s"),
        s if s >= 0.001 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.0} us", s * 1e6),
    }
}
