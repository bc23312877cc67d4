//! The parts of `all`, their order, and settings that differ from those of the experiment alone.
//!
//! Budget: seven minutes with `--quick`, sixty without, on two processors with everything
//! installed.
//! Workers, rates and payloads stay, because they are the question. Fewer rounds, shorter samples
//! and fewer sessions only widen the spread.

use sessile_core::Durability;
use sessile_results::Experiment;

use crate::options::Options;

/// An experiment in one form.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeriesEntry {
    pub experiment: Experiment,
    form: ExperimentForm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExperimentForm {
    Plain,
    AsPublished,
    /// `cycle` at a rate of each of eight workers: what stores sustain, and what saturates them.
    Paced(u32),
    /// `cycle` in a stronger tier, which sites need that must not lose sessions.
    InTier(Durability),
}

impl SeriesEntry {
    const fn plain(experiment: Experiment) -> SeriesEntry {
        SeriesEntry { experiment, form: ExperimentForm::Plain }
    }

    pub(super) const fn flags(&self) -> &'static str {
        match self.form {
            ExperimentForm::Plain => "",
            ExperimentForm::AsPublished => "--as-published",
            ExperimentForm::Paced(250) => "--rate 250 --workers 8",
            ExperimentForm::Paced(1_000) => "--rate 1000 --workers 8",
            ExperimentForm::Paced(_) => "--rate 4000 --workers 8",
            ExperimentForm::InTier(Durability::Commit) => "--durability commit --workers 8",
            ExperimentForm::InTier(_) => "--durability 1s --workers 8",
        }
    }

    /// The tier that it is measured in when `asked` is; `None` if another part has it already, or
    /// if it takes too long for `quick`. What kills cost is judged for sites that must lose little.
    pub(super) fn tier(&self, asked: Durability, quick: bool) -> Option<Durability> {
        match self.form {
            ExperimentForm::InTier(Durability::Commit)
            | ExperimentForm::Paced(1_000 | 4_000)
            | ExperimentForm::AsPublished
                if quick =>
            {
                None
            }
            ExperimentForm::InTier(tier) => (tier > asked).then_some(tier),
            _ if self.takes_nearest_tier() => Some(asked.max(Durability::Second)),
            _ => Some(asked),
        }
    }

    /// A contender without the tier takes part in the nearest one that it has: nothing else says
    /// which rates it sustains, and what kills cost it.
    pub(super) fn takes_nearest_tier(&self) -> bool {
        matches!(self.form, ExperimentForm::Paced(_)) || self.experiment == Experiment::Faults
    }
}

/// Cheap experiments first, so that an early stop loses little.
pub(super) const ORDER: &[SeriesEntry] = &[
    SeriesEntry::plain(Experiment::Cycle),
    SeriesEntry { experiment: Experiment::Cycle, form: ExperimentForm::InTier(Durability::Second) },
    SeriesEntry { experiment: Experiment::Cycle, form: ExperimentForm::InTier(Durability::Commit) },
    SeriesEntry::plain(Experiment::Oversize),
    SeriesEntry::plain(Experiment::Languages),
    SeriesEntry { experiment: Experiment::Cycle, form: ExperimentForm::Paced(250) },
    SeriesEntry { experiment: Experiment::Cycle, form: ExperimentForm::Paced(1_000) },
    SeriesEntry { experiment: Experiment::Cycle, form: ExperimentForm::Paced(4_000) },
    SeriesEntry::plain(Experiment::Contention),
    SeriesEntry::plain(Experiment::Ops),
    SeriesEntry { experiment: Experiment::Ops, form: ExperimentForm::AsPublished },
    SeriesEntry::plain(Experiment::Scale),
    SeriesEntry::plain(Experiment::Rebuild),
    SeriesEntry::plain(Experiment::Lifecycle),
    SeriesEntry::plain(Experiment::Faults),
    SeriesEntry::plain(Experiment::Gc),
];

/// Two syncs of the tier `1s`, which come once a second.
const SYNCED_SECONDS: f64 = 2.0;

/// The options of a part that are not those of the series.
pub(super) fn options(entry: &SeriesEntry, quick: bool) -> Options {
    let own = match entry.form {
        ExperimentForm::Plain => plain(entry.experiment, quick),
        // As many sessions as `cycle` has: a site that may lose some is judged by the rows of both,
        // databases by those of `1s`. In `commit` each that is filled in is synced by itself.
        ExperimentForm::InTier(tier) => Options {
            workers: Some(vec![8]),
            sessions: match tier {
                Durability::Commit => Some(vec![5_000]),
                _ => plain(Experiment::Cycle, quick).sessions,
            },
            seconds: Some(SYNCED_SECONDS),
            rounds: quick.then_some(2),
            ..Options::default()
        },
        // What the published form times besides the stores exceeds the loss of precision.
        ExperimentForm::AsPublished => Options {
            as_published: true,
            sessions: Some(vec![10_000]),
            seconds: Some(0.5),
            rounds: Some(3),
            ..Options::default()
        },
        // A rate that was kept up with speaks for sites with no more sessions. What saturates a
        // store does so in each round.
        ExperimentForm::Paced(rate) => Options {
            workers: Some(vec![8]),
            rate: Some(f64::from(rate)),
            sessions: Some(vec![if quick { 2_500 } else { 20_000 }]),
            seconds: Some(SYNCED_SECONDS),
            rounds: Some(match (quick, rate) {
                (true, _) => 1,
                (false, 250) => 3,
                (false, _) => 2,
            }),
            ..Options::default()
        },
    };
    Options { nearest_tier: entry.takes_nearest_tier(), ..own }
}

fn plain(experiment: Experiment, quick: bool) -> Options {
    let own = |sessions: Option<&[usize]>, seconds, rounds| Options {
        sessions: sessions.map(<[usize]>::to_vec),
        seconds,
        rounds,
        ..Options::default()
    };
    match (experiment, quick) {
        // Costs a wider spread. `scale` shows the effect of the number of sessions. Fewer rounds
        // than three tell no store from another.
        (Experiment::Cycle, true) => own(Some(&[5_000]), Some(0.3), None),
        (Experiment::Cycle, false) => own(Some(&[50_000]), Some(1.0), None),
        // Three operations: three times the rows of `cycle`.
        (Experiment::Ops, true) => own(Some(&[2_500]), Some(0.1), Some(1)),
        (Experiment::Ops, false) => own(Some(&[10_000]), Some(0.4), Some(3)),
        // Lost updates occur in every second.
        (Experiment::Contention, true) => own(None, Some(0.3), Some(1)),
        (Experiment::Contention, false) => own(None, Some(1.0), Some(3)),
        // One step of ten times at one worker.
        (Experiment::Scale, true) => Options {
            workers: Some(vec![1]),
            fill_max: Some(0.7),
            ..own(Some(&[1_000, 10_000]), None, Some(1))
        },
        // All stores, and as many sizes as the time for filling allows. Rows are
        // compared with the same store at other sizes, so short samples suffice. The largest size
        // would cost more than all others and not fit into many machines.
        (Experiment::Scale, false) => Options {
            fill_max: Some(15.0),
            ..own(Some(&[10_000, 100_000, 1_000_000]), Some(0.3), None)
        },
        // The outcome does not vary between rounds.
        (Experiment::Oversize, true) => own(None, None, None),
        (Experiment::Oversize, false) => own(None, None, Some(3)),
        (Experiment::Languages, true) => own(Some(&[5_000]), None, Some(2)),
        (Experiment::Languages, false) => own(None, None, Some(20)),
        // Three kills of each server. Losses in races of microseconds need the five of the full
        // series, or the twelve of the experiment alone.
        (Experiment::Faults, true) => own(None, Some(0.3), Some(3)),
        (Experiment::Faults, false) => own(None, Some(1.0), Some(20)),
        // The outcome does not vary between rounds.
        (Experiment::Rebuild, true) => own(None, None, None),
        (Experiment::Rebuild, false) => own(Some(&[100]), None, Some(2)),
        // Fewer sessions pile up.
        (Experiment::Lifecycle, true) => own(Some(&[150]), None, Some(1)),
        (Experiment::Lifecycle, false) => own(Some(&[600]), None, Some(3)),
        // Filling and deleting half a million on a server takes minutes. The share that a sweep
        // removes stays.
        (Experiment::Gc, true) => own(Some(&[2_200]), Some(0.4), Some(1)),
        (Experiment::Gc, false) => own(Some(&[55_000]), Some(2.0), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::faults::kills_of_all;

    #[test]
    fn the_flags_of_a_form_say_what_it_is() {
        for entry in ORDER {
            let own = options(entry, true);
            let paced =
                own.rate.map(|rate| format!("--rate {rate} --workers {:?}", own.workers.unwrap()));
            let words = paced.unwrap_or_default().replace(['[', ']'], "");
            let words = match entry.form {
                ExperimentForm::AsPublished => "--as-published".to_owned(),
                ExperimentForm::InTier(tier) => {
                    format!("--durability {} --workers 8", tier.name())
                }
                ExperimentForm::Plain | ExperimentForm::Paced(_) => words,
            };
            assert_eq!(entry.flags(), words);
        }
    }

    /// Everything was measured in tier `none`, and shops were told which store keeps their carts.
    #[test]
    fn requests_and_kills_are_measured_in_the_tier_of_sites_that_must_not_lose_sessions() {
        let tiers = |experiment, asked, quick| -> Vec<Durability> {
            let parts = ORDER
                .iter()
                .filter(|it| it.experiment == experiment && options(it, quick).rate.is_none());
            parts.filter_map(|it| it.tier(asked, quick)).collect()
        };
        let (none, second, commit) = (Durability::None, Durability::Second, Durability::Commit);
        assert_eq!(tiers(Experiment::Cycle, none, true), [none, second]);
        assert_eq!(tiers(Experiment::Cycle, none, false), [none, second, commit]);
        assert_eq!(tiers(Experiment::Cycle, second, false), [second, commit]);
        assert_eq!(tiers(Experiment::Faults, none, true), [second]);
        assert_eq!(tiers(Experiment::Faults, commit, true), [commit]);
    }

    /// Databases had half as many sessions in `1s` as other stores had in `none`: where a site is
    /// judged by both, they were not measured.
    #[test]
    fn stores_are_compared_among_as_many_sessions_in_1s_as_in_none() {
        for quick in [false, true] {
            let cycles = ORDER.iter().filter(|entry| entry.experiment == Experiment::Cycle);
            let sessions = |form| {
                let entry = cycles.clone().find(|entry| entry.form == form).unwrap();
                options(entry, quick).sessions
            };
            let synced = sessions(ExperimentForm::InTier(Durability::Second));
            assert_eq!(sessions(ExperimentForm::Plain), synced);
        }
    }

    /// A sample of 0.2 seconds met a sync in one of five cases.
    #[test]
    fn where_a_sync_comes_once_a_second_a_sample_lasts_for_two() {
        let long = |entry: &SeriesEntry, quick| options(entry, quick).seconds >= Some(2.0);
        let synced =
            |it: &&SeriesEntry| it.tier(Durability::None, true) == Some(Durability::Second);
        let parts: Vec<&SeriesEntry> =
            ORDER.iter().filter(synced).filter(|it| it.experiment == Experiment::Cycle).collect();
        assert_eq!(parts.len(), 2, "closed and paced");
        assert!(parts.iter().all(|entry| long(entry, true) && long(entry, false)));
    }

    /// One kill of a server says nothing about what is lost now and then.
    #[test]
    fn each_server_is_killed_five_times_and_three_times_in_a_hurry() {
        let kills = |quick| kills_of_all(plain(Experiment::Faults, quick).rounds.unwrap());
        assert!(kills(false) >= 5 && kills(true) >= 3);
    }
}
