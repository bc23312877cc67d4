//! What `all` measures of each experiment: the order, and where its settings differ from those of the experiment alone.
//!
//! The budget is ten minutes with `--quick` and ninety without, on two processors with everything installed; a test holds the
//! settings to it. Workers, rates and payloads are those of the experiment: they are the question. Fewer rounds, shorter
//! samples and fewer sessions only make an answer less sharp, and each line says what that costs.

use crate::experiment::Experiment;

/// One part: an experiment, or a form of it that is another question.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub experiment: Experiment,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// As it is alone, without flags.
    Plain,
}

impl Entry {
    const fn plain(experiment: Experiment) -> Entry {
        Entry { experiment, form: Form::Plain }
    }

    /// The flags that give it alone.
    pub(super) const fn flags(&self) -> &'static str {
        match self.form {
            Form::Plain => "",
        }
    }

    /// Requests a second of each worker, if that is what tells it from the plain form.
    pub(super) const fn rate(&self) -> Option<f64> {
        match self.form {
            Form::Plain => None,
        }
    }

    pub(super) const fn as_published(&self) -> bool {
        match self.form {
            Form::Plain => false,
        }
    }
}

/// Cheap ones first: whoever stops early has most of the answers.
pub(super) const ORDER: &[Entry] = &[
    Entry::plain(Experiment::Cycle),
    Entry::plain(Experiment::Oversize),
    Entry::plain(Experiment::Perl),
    Entry::plain(Experiment::Faults),
    Entry::plain(Experiment::Contention),
    Entry::plain(Experiment::Ops),
    Entry::plain(Experiment::Expiry),
    Entry::plain(Experiment::Scale),
    Entry::plain(Experiment::Rebuild),
    Entry::plain(Experiment::Lifecycle),
    Entry::plain(Experiment::Gc),
];

/// What differs; `None` is the preset of the experiment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    pub workers: Option<&'static [usize]>,
    pub sessions: Option<&'static [usize]>,
    pub seconds: Option<f64>,
    pub rounds: Option<usize>,
}

pub(super) fn of(entry: &Entry, quick: bool) -> Own {
    let own = |sessions, seconds, rounds| Own { workers: None, sessions, seconds, rounds };
    match (entry.experiment, quick) {
        // Shorter samples: a wider spread, which stands beside each figure.
        (Experiment::Cycle, true) => own(None, Some(0.3), None),
        (Experiment::Cycle, false) => own(None, Some(2.0), None),
        // Three operations and the variants that reconnect make four times as many rows as `cycle` has.
        (Experiment::Ops, true) => own(None, Some(0.1), Some(2)),
        (Experiment::Ops, false) => own(Some(&[50_000]), Some(1.0), Some(3)),
        // A store that loses updates under contention does so in each second.
        (Experiment::Contention, true) => own(None, Some(0.4), Some(2)),
        (Experiment::Contention, false) => own(None, Some(2.0), None),
        // Filling is most of it; the rate, and so how many expire in a second, is the same.
        (Experiment::Expiry, true) => own(None, None, Some(2)),
        (Experiment::Expiry, false) => own(Some(&[110_000]), Some(2.0), Some(5)),
        // The last size costs more than all before it, and many machines have no room for it.
        (Experiment::Scale, true) => own(Some(&[10_000, 50_000]), None, None),
        (Experiment::Scale, false) => own(Some(&[10_000, 100_000, 1_000_000]), Some(1.0), None),
        // What becomes of a payload does not change from round to round.
        (Experiment::Oversize, true) => own(None, None, None),
        (Experiment::Oversize, false) => own(None, None, Some(3)),
        // The cost of a session in the whole cache grows with their number, which two sizes show as three do.
        (Experiment::Perl, true) => own(Some(&[10, 100]), None, Some(2)),
        (Experiment::Perl, false) => own(Some(&[10, 100, 300]), None, Some(3)),
        // A lock that is stuck is so each time; what is lost in a race of microseconds needs the many kills of the full one.
        (Experiment::Faults, true) => own(None, Some(0.3), Some(3)),
        (Experiment::Faults, false) => own(None, Some(1.0), Some(10)),
        // Whether a view rebuilds does not change from round to round.
        (Experiment::Rebuild, true) => own(None, None, None),
        (Experiment::Rebuild, false) => own(Some(&[100]), None, Some(2)),
        // Fewer sessions pile up.
        (Experiment::Lifecycle, true) => own(Some(&[150]), None, None),
        (Experiment::Lifecycle, false) => own(Some(&[2_000]), None, Some(3)),
        // On a server it takes minutes to fill in half a million and to delete them again.
        (Experiment::Gc, true) => own(Some(&[5_500]), Some(0.4), None),
        (Experiment::Gc, false) => own(Some(&[110_000]), Some(5.0), None),
    }
}
