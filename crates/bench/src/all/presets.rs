//! What `all` measures of each experiment: the order, and where its settings differ from those of the experiment alone.
//!
//! The budget is ten minutes with `--quick` and eighty without, on two processors with everything installed; a test holds the
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
    /// `ops` with what the published one timed besides the stores.
    AsPublished,
    /// `cycle` as visitors come: at a rate that the stores keep up with in tier `none`. One that commits to a disk may fall behind.
    Paced,
}

/// Requests a second of each of the eight workers: 2,000 together, which four round trips to a server on one of two processors allow.
const RATE: f64 = 250.0;

impl Entry {
    const fn plain(experiment: Experiment) -> Entry {
        Entry { experiment, form: Form::Plain }
    }

    /// The flags that give it alone.
    pub(super) const fn flags(&self) -> &'static str {
        match self.form {
            Form::Plain => "",
            Form::AsPublished => "--as-published",
            Form::Paced => "--rate 250 --workers 8",
        }
    }

    /// Requests a second of each worker, if that is what tells it from the plain form.
    pub(super) fn rate(&self) -> Option<f64> {
        (self.form == Form::Paced).then_some(RATE)
    }

    pub(super) fn as_published(&self) -> bool {
        self.form == Form::AsPublished
    }
}

/// Cheap ones first: whoever stops early has most of the answers.
pub(super) const ORDER: &[Entry] = &[
    Entry::plain(Experiment::Cycle),
    Entry::plain(Experiment::Oversize),
    Entry::plain(Experiment::Perl),
    Entry { experiment: Experiment::Cycle, form: Form::Paced },
    Entry::plain(Experiment::Contention),
    Entry::plain(Experiment::Ops),
    Entry { experiment: Experiment::Ops, form: Form::AsPublished },
    Entry::plain(Experiment::Expiry),
    Entry::plain(Experiment::Scale),
    Entry::plain(Experiment::Rebuild),
    Entry::plain(Experiment::Lifecycle),
    Entry::plain(Experiment::Faults),
    Entry::plain(Experiment::Gc),
];

/// What differs; `None` is the preset of the experiment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    pub workers: Option<&'static [usize]>,
    pub sessions: Option<&'static [usize]>,
    pub seconds: Option<f64>,
    pub rounds: Option<usize>,
    pub fill_max: Option<f64>,
}

pub(super) fn of(entry: &Entry, quick: bool) -> Own {
    match entry.form {
        Form::Plain => plain(entry.experiment, quick),
        // It stands beside the corrected form: the same operations, of fewer sessions and in shorter samples, because what it
        // times besides the stores is larger than any of these differences.
        Form::AsPublished => {
            let (sessions, seconds): (&[usize], f64) = if quick { (&[1_000], 0.05) } else { (&[10_000], 0.5) };
            Own {
                sessions: Some(sessions),
                seconds: Some(seconds),
                rounds: Some(if quick { 2 } else { 3 }),
                ..Own::default()
            }
        }
        // How long a visitor waits at a rate does not come from the number of sessions, which `cycle` and `scale` vary.
        Form::Paced => {
            let (sessions, seconds): (&[usize], f64) = if quick { (&[1_000], 0.3) } else { (&[10_000], 2.0) };
            let rounds = Some(if quick { 2 } else { 3 });
            Own { workers: Some(&[8]), sessions: Some(sessions), seconds: Some(seconds), rounds, fill_max: None }
        }
    }
}

fn plain(experiment: Experiment, quick: bool) -> Own {
    let own = |sessions, seconds, rounds| Own { sessions, seconds, rounds, ..Own::default() };
    match (experiment, quick) {
        // Shorter samples: a wider spread, which stands beside each figure. How speed follows the number of sessions shows `scale`.
        (Experiment::Cycle, true) => own(Some(&[5_000]), Some(0.3), None),
        (Experiment::Cycle, false) => own(Some(&[50_000]), Some(2.0), None),
        // Three operations and the variants that reconnect make four times as many rows as `cycle` has.
        (Experiment::Ops, true) => own(Some(&[2_500]), Some(0.1), Some(2)),
        (Experiment::Ops, false) => own(Some(&[50_000]), Some(1.0), Some(3)),
        // A store that loses updates under contention does so in each second.
        (Experiment::Contention, true) => own(None, Some(0.3), Some(2)),
        (Experiment::Contention, false) => own(None, Some(2.0), Some(3)),
        // Filling is most of it; the rate, and so how many expire in a second, is the same.
        (Experiment::Expiry, true) => own(Some(&[2_500]), None, Some(2)),
        (Experiment::Expiry, false) => own(Some(&[55_000]), Some(2.0), Some(5)),
        (Experiment::Scale, true) => own(None, None, None),
        // All stores take part, each in two spreads and in as many sizes as the time for filling allows. How long a cycle takes
        // is known from `cycle`; here it is compared with itself at other sizes, for which shorter samples do. The last size
        // costs more than all before it, and many machines have no room for it.
        (Experiment::Scale, false) => {
            Own { fill_max: Some(25.0), ..own(Some(&[10_000, 100_000, 1_000_000]), Some(0.3), None) }
        }
        // What becomes of a payload does not change from round to round.
        (Experiment::Oversize, true) => own(None, None, None),
        (Experiment::Oversize, false) => own(None, None, Some(3)),
        // The cost of a session in the whole cache grows with their number: in a hurry two sizes show it. The thousand of the
        // full one cost the stand-in a minute a round.
        (Experiment::Perl, true) => own(Some(&[10, 100]), None, Some(2)),
        (Experiment::Perl, false) => own(Some(&[10, 100, 1_000]), None, Some(3)),
        // Three kills of each server; what is lost in a race of microseconds needs the five of the full one, or the twelve alone.
        (Experiment::Faults, true) => own(None, Some(0.3), Some(3)),
        (Experiment::Faults, false) => own(None, Some(1.0), Some(20)),
        // Whether a view rebuilds does not change from round to round.
        (Experiment::Rebuild, true) => own(None, None, None),
        (Experiment::Rebuild, false) => own(Some(&[100]), None, Some(2)),
        // Fewer sessions pile up.
        (Experiment::Lifecycle, true) => own(Some(&[150]), None, None),
        (Experiment::Lifecycle, false) => own(Some(&[2_000]), None, Some(3)),
        // On a server it takes minutes to fill in half a million and to delete them again. A sweep of a tenth is as long as a tenth.
        (Experiment::Gc, true) => own(Some(&[2_200]), Some(0.4), None),
        (Experiment::Gc, false) => own(Some(&[55_000]), Some(5.0), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::faults::kills_of_all;

    #[test]
    fn the_flags_of_a_form_say_what_it_is() {
        for entry in ORDER {
            let paced =
                entry.rate().map(|rate| format!("--rate {rate} --workers {:?}", of(entry, true).workers.unwrap()));
            let words = paced.unwrap_or_default().replace(['[', ']'], "");
            let words = if entry.as_published() { "--as-published" } else { words.as_str() };
            assert_eq!(entry.flags(), words);
        }
    }

    /// One kill of a server says nothing about what is lost now and then.
    #[test]
    fn each_server_is_killed_five_times_and_three_times_in_a_hurry() {
        let kills = |quick| kills_of_all(plain(Experiment::Faults, quick).rounds.unwrap());
        assert!(kills(false) >= 5 && kills(true) >= 3);
    }
}
