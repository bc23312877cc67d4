//! `perl`: Perl sessions as published: open, ten alternating reads and writes, close. Each is
//! opened once as a new session (`make`) and once more (`reopen`). Perl times its own modules (the
//! keepers).
//!
//! Each round takes one sample of every keeper in an order drawn from the seed. Then all sessions
//! are read once more, untimed, and every value is verified. Where the cost depends on the number
//! of sessions, each number is a sample of its own. In the end two processes use each keeper at
//! once, which shows whether it locks.

mod race;
mod running_keeper;
mod series;
mod values;

use sessile_core::Durability;

use crate::experiments::{Bench, check_interrupted, choice_position};
use crate::interruption::interrupted;
use crate::perl::{Keeper, PerlInstallation, VALUES, named};
use crate::run::RunError;
use crate::selection::{Choice, ContenderSource, Selection, missing_tier};
use running_keeper::RunningKeeper;
use series::KeeperSeries;
use sessile_results::UsageError;
use sessile_results::{KeeperFigures, Row};
use values::SessionValues;

pub(crate) use values::PAYLOAD_BYTES_MIN;

pub(super) const OPS: [&str; 2] = ["make", "reopen"];

struct KeeperContender {
    choice: Choice,
    keeper: &'static Keeper,
    keeper_process: RunningKeeper,
}

pub(crate) fn select(stores: &[String], durability: Durability) -> Result<Selection, UsageError> {
    let keepers = named(stores)?;
    let perl = PerlInstallation::detect().map_err(UsageError)?;
    let mut selection = Selection::default();
    for keeper in keepers {
        let obstacle =
            missing_tier(keeper.durability, durability).or_else(|| perl.obstacle(keeper));
        selection.add(keeper.choice(durability), obstacle);
    }
    selection.require_any()
}

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    let perl = PerlInstallation::detect().map_err(RunError::Broken)?;
    let choices: Vec<(Choice, &'static Keeper)> = bench
        .choices
        .iter()
        .filter_map(|choice| Some((choice.clone(), keeper_of(choice)?)))
        .collect();
    let keepers: Vec<&Keeper> = choices.iter().map(|(_, keeper)| *keeper).collect();
    bench.programs.extend(perl.versions(&keepers));
    bench.settings.payload_bytes -= bench.settings.payload_bytes % VALUES;
    let (mut contenders, mut all_series) = (Vec::new(), Vec::new());
    bench.progress.expect_more(choices.len());
    for (choice, keeper) in choices {
        check_interrupted()?;
        bench.progress.set_message(&format!("{}: start", choice.title()));
        let sizes = sizes(bench, keeper);
        match RunningKeeper::open(keeper, &perl, &bench.settings) {
            Ok(keeper_process) => {
                all_series.extend(
                    sizes.iter().map(|sessions| KeeperSeries::new(contenders.len(), *sessions)),
                );
                contenders.push(KeeperContender { choice, keeper, keeper_process });
            }
            Err(why) => bench.rows.extend(failed_rows(bench, &choice, keeper, &sizes, &why)),
        }
        bench.progress.advance();
    }
    if measure(bench, &mut contenders, &mut all_series) == 0 {
        return Err(RunError::Interrupted);
    }
    bench.progress.expect_more(contenders.len());
    let mut races = Vec::new();
    for (number, contender) in contenders.iter_mut().enumerate() {
        bench.progress.set_message(&format!("{} with two processes", contender.choice.title()));
        let sound = all_series
            .iter()
            .filter(|series| series.contender == number)
            .all(|series| !series.has_failed());
        let race = (sound && !interrupted()).then(|| race::run(&mut contender.keeper_process));
        // A signal kills Perl in the middle, which is no fault of the keeper.
        races.push(race.filter(|_| !interrupted()));
        bench.progress.advance();
    }
    for series in all_series {
        if let Some(contender) = contenders.get(series.contender) {
            let rows = series.into_rows(|op, sessions| {
                row(bench, &contender.choice, contender.keeper, op, sessions)
            });
            bench.rows.extend(rows);
        }
    }
    for (contender, race) in contenders.iter().zip(races) {
        let last = bench.rows.iter_mut().rfind(|row| row.title() == contender.choice.title());
        if let (Some(race), Some(row)) = (race, last) {
            race::add_to_row(race, contender.keeper.locking, row);
        }
    }
    bench.rows.sort_by_key(|row| choice_position(&bench.choices, row));
    drop(contenders);
    // Each sample was verified at once.
    bench.mark_rows_verified();
    check_interrupted()
}

fn keeper_of(choice: &Choice) -> Option<&'static Keeper> {
    if let ContenderSource::Keeper(keeper) = choice.target { Some(keeper) } else { None }
}

/// The largest number of sessions, and the others where the number matters.
fn sizes(bench: &Bench, keeper: &Keeper) -> Vec<usize> {
    let all = &bench.settings.sizes;
    if keeper.depends_on_number { all.clone() } else { all.last().copied().into_iter().collect() }
}

fn row(bench: &Bench, choice: &Choice, keeper: &Keeper, op: &str, sessions: usize) -> Row {
    let figures = KeeperFigures {
        locking: keeper.locking.name().to_owned(),
        stands_for: keeper.stands_for.map(str::to_owned),
        ..KeeperFigures::default()
    };
    Row { keeper: Some(figures), ..bench.row(choice, op, 1, sessions) }
}

fn failed_rows(
    bench: &Bench,
    choice: &Choice,
    keeper: &Keeper,
    sizes: &[usize],
    why: &str,
) -> Vec<Row> {
    let combinations = sizes.iter().flat_map(|sessions| OPS.map(|op| (op, *sessions)));
    let failed = |(op, sessions)| Row {
        failed: Some(why.to_owned()),
        ..row(bench, choice, keeper, op, sessions)
    };
    combinations.map(failed).collect()
}

fn measure(
    bench: &Bench,
    contenders: &mut [KeeperContender],
    all_series: &mut [KeeperSeries],
) -> usize {
    let values = SessionValues::new(bench.settings.seed, bench.settings.payload_bytes);
    let sample = |series: &mut KeeperSeries, pass| {
        let Some(contender) = contenders.get_mut(series.contender) else { return };
        let (title, sessions) = (contender.choice.title(), series.sessions);
        bench.progress.set_message(&format!("{title} with {sessions} sessions"));
        // Pass 0 loads modules, prepares statements, creates files and pages.
        if pass == 0 {
            series.warm_up(&mut contender.keeper_process, &values)
        } else {
            series.sample(&mut contender.keeper_process, &values, pass)
        }
    };
    let passes = bench.settings.rounds + 1;
    bench.in_rounds(passes, all_series, sample, KeeperSeries::keep_round).saturating_sub(1)
}
