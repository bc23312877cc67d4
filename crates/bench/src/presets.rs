//! The default settings of each experiment. A quick preset takes at most four minutes with all
//! servers installed.

use sessile_results::Experiment;
pub(crate) struct Preset {
    /// Empty: the powers of two up to the number of processors, and that number.
    pub workers: &'static [usize],
    pub sessions: &'static [usize],
    pub seconds: f64,
    pub rounds: usize,
    pub rate: Option<f64>,
    /// Seconds that filling one contender may take at each size; `None`: no limit.
    pub fill_max: Option<f64>,
}

const SIZES: &[usize] = &[10_000, 100_000, 550_000, 1_000_000, 5_000_000];

pub(crate) fn preset(experiment: Experiment, quick: bool) -> Preset {
    let preset = |workers, sessions, seconds, rounds, rate| Preset {
        workers,
        sessions,
        seconds,
        rounds,
        rate,
        fill_max: None,
    };
    match (experiment, quick) {
        (Experiment::Ops, true) => preset(&[1, 8], &[5_000], 0.25, 3, None),
        (Experiment::Ops, false) => preset(&[1, 8], &[100_000], 3.0, 5, None),
        (Experiment::Cycle, true) => preset(&[1, 8], &[10_000], 0.6, 3, None),
        (Experiment::Cycle, false) => preset(&[1, 8], &[100_000], 3.0, 5, None),
        (Experiment::Contention, true) => preset(&[8], &[1], 1.0, 3, Some(50.0)),
        (Experiment::Contention, false) => preset(&[8], &[1], 5.0, 5, Some(50.0)),
        (Experiment::Gc, true) => preset(&[1], &[22_000], 1.0, 2, Some(500.0)),
        (Experiment::Gc, false) => preset(&[1], &[550_000], 10.0, 3, Some(500.0)),
        (Experiment::Scale, true) => {
            Preset { fill_max: Some(1.5), ..preset(&[], &[1_000, 50_000], 0.1, 2, None) }
        }
        // At 120 us a session a store just reaches a million.
        (Experiment::Scale, false) => {
            Preset { fill_max: Some(120.0), ..preset(&[], SIZES, 2.0, 3, None) }
        }
        (Experiment::Oversize, true) => preset(&[1], &[1], 1.0, 1, None),
        (Experiment::Oversize, false) => preset(&[1], &[1], 1.0, 5, None),
        // Rounds are kills.
        (Experiment::Faults, true) => preset(&[4], &[8], 0.4, 5, None),
        (Experiment::Faults, false) => preset(&[4], &[8], 2.0, 50, None),
        (Experiment::Rebuild, true) => preset(&[4], &[40], 0.0, 1, None),
        (Experiment::Rebuild, false) => preset(&[4], &[200], 0.0, 3, None),
        // `ab` counts requests, not seconds.
        (Experiment::Lifecycle, true) => preset(&[4, 32], &[400], 0.0, 2, None),
        (Experiment::Lifecycle, false) => preset(&[4, 8, 16, 32], &[5_000], 0.0, 5, None),
        // The sessions of PHP's collector; the other programs have their own.
        (Experiment::Languages, true) => preset(&[1], &[20_000], 0.0, 5, None),
        (Experiment::Languages, false) => preset(&[1], &[20_000], 0.0, 60, None),
    }
}

/// 1, 2, 4 ... and the number of processors.
pub(crate) fn up_to_processors() -> Vec<usize> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let doubled = std::iter::successors(Some(1), |count| Some(count * 2))
        .take_while(|count| *count < processors);
    doubled.chain([processors]).collect()
}

/// The default of a flag in words: `550000; with --quick 22000`, durations with their unit.
/// `None` if the experiment does not have it.
pub fn describe_default(experiment: Experiment, flag: &str) -> Option<String> {
    let [full, quick] =
        [preset(experiment, false), preset(experiment, true)].map(|preset| match flag {
            "workers" if preset.workers.is_empty() => Some("1, 2, 4 ... processors".to_owned()),
            "workers" => Some(listed(preset.workers)),
            "sessions" => Some(listed(preset.sessions)),
            "seconds" => (preset.seconds > 0.0).then(|| with_unit(preset.seconds)),
            "rounds" => Some(preset.rounds.to_string()),
            "rate" => preset.rate.map(|rate| rate.to_string()),
            "fill_max" => preset.fill_max.map(with_unit),
            _ => None,
        });
    let (full, quick) = (full?, quick?);
    Some(if full == quick { full } else { format!("{full}; with --quick {quick}") })
}

fn with_unit(seconds: f64) -> String {
    if seconds < 1.0 { format!("{}ms", seconds * 1_000.0) } else { format!("{seconds}s") }
}

fn listed(numbers: &[usize]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<String>>().join(",")
}
