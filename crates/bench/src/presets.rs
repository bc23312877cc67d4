//! What an experiment uses unless it is told otherwise: the quick presets take less than a minute.

use crate::options::Experiment;

/// The figures of a preset.
pub(crate) struct Preset {
    pub workers: &'static [usize],
    pub sessions: usize,
    pub seconds: f64,
    pub rounds: usize,
    pub rate: Option<f64>,
}

pub(crate) fn preset(experiment: Experiment, quick: bool) -> Preset {
    let preset = |workers, sessions, seconds, rounds, rate| Preset { workers, sessions, seconds, rounds, rate };
    match (experiment, quick) {
        (Experiment::Ops, true) => preset(&[1, 8], 5_000, 0.25, 3, None),
        (Experiment::Ops, false) => preset(&[1, 8], 100_000, 3.0, 5, None),
        (Experiment::Cycle, true) => preset(&[1, 8], 10_000, 0.6, 3, None),
        (Experiment::Cycle, false) => preset(&[1, 8], 100_000, 3.0, 5, None),
        (Experiment::Contention, true) => preset(&[8], 1, 1.0, 3, Some(50.0)),
        (Experiment::Contention, false) => preset(&[8], 1, 5.0, 5, Some(50.0)),
        (Experiment::Gc, true) => preset(&[1], 22_000, 1.0, 1, Some(500.0)),
        (Experiment::Gc, false) => preset(&[1], 550_000, 10.0, 1, Some(500.0)),
    }
}
