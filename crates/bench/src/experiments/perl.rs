//! Sessions in Perl, as published: each is opened, ten values are read and ten written in turn, and it is closed; first as a
//! new one (`make`), then once more (`reopen`). The keepers are modules of Perl, timed inside Perl.
//!
//! In each round every keeper gets one sample of both, in an order drawn anew from the seed: all sessions are made, all are
//! opened again, and then all are read once more, untimed. Every value that was read is compared with what must be there. Where
//! the cost of a session depends on how many there are, each number of sessions is a sample of its own. In the end two processes
//! use each keeper at once, which shows what it locks.

mod cell;
mod home;
mod race;
mod values;

use sessile_core::Durability;

use crate::experiments::{Bench, go_on, place};
use crate::interruption::interrupted;
use crate::options::UsageError;
use crate::perl::{Installation, Keeper, SESSILE, VALUES, named};
use crate::report::{KeeperFigures, Row};
use crate::run::RunError;
use crate::selection::{Choice, LeftOut, Selection, Target, lacks};
use cell::Cell;
use home::Home;
use values::Values;

pub(crate) use values::PAYLOAD_BYTES_MIN;

/// The words in the result.
pub(super) const OPS: [&str; 2] = ["make", "reopen"];

/// One contender and its process.
struct Member {
    choice: Choice,
    keeper: &'static Keeper,
    home: Home,
}

/// What this machine can measure of what the user named.
pub(crate) fn select(stores: &[String], durability: Durability) -> Result<Selection, UsageError> {
    let (keepers, ours) = named(stores)?;
    let perl = Installation::look().map_err(UsageError)?;
    let mut selection = Selection::default();
    for keeper in keepers {
        let obstacle = lacks(keeper.durability, durability).or_else(|| perl.obstacle(keeper));
        selection.add(keeper.choice(durability), obstacle);
    }
    if ours {
        let (store, variant) = (SESSILE.to_owned(), "default".to_owned());
        let reason = "the Perl handler is not built yet".to_owned();
        selection.left_out.push(LeftOut { store, variant, workers: None, reason });
    }
    selection.or_nothing()
}

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    let perl = Installation::look().map_err(RunError::Broken)?;
    let choices: Vec<(Choice, &'static Keeper)> =
        bench.choices.iter().filter_map(|choice| Some((choice.clone(), keeper_of(choice)?))).collect();
    let keepers: Vec<&Keeper> = choices.iter().map(|(_, keeper)| *keeper).collect();
    bench.programs.extend(perl.versions(&keepers));
    bench.settings.payload_bytes -= bench.settings.payload_bytes % VALUES;
    let (mut members, mut cells) = (Vec::new(), Vec::new());
    bench.progress.expect_more(choices.len());
    for (choice, keeper) in choices {
        go_on()?;
        bench.progress.say(&format!("{}: start", choice.title()));
        let sizes = sizes(bench, keeper);
        match Home::open(keeper, &perl, &bench.settings) {
            Ok(home) => {
                cells.extend(sizes.iter().map(|sessions| Cell::new(members.len(), *sessions)));
                members.push(Member { choice, keeper, home });
            }
            Err(why) => bench.rows.extend(never_measured(bench, &choice, keeper, &sizes, &why)),
        }
        bench.progress.step();
    }
    if measure(bench, &mut members, &mut cells) == 0 {
        return Err(RunError::Interrupted);
    }
    bench.progress.expect_more(members.len());
    let mut races = Vec::new();
    for (number, member) in members.iter_mut().enumerate() {
        bench.progress.say(&format!("{} with two processes", member.choice.title()));
        let sound = cells.iter().filter(|cell| cell.member == number).all(|cell| !cell.has_failed());
        let race = (sound && !interrupted()).then(|| race::run(&mut member.home));
        // A signal ends it in the middle, which is no fault of the keeper.
        races.push(race.filter(|_| !interrupted()));
        bench.progress.step();
    }
    for cell in cells {
        if let Some(member) = members.get(cell.member) {
            let rows = cell.into_rows(|op, sessions| row(bench, &member.choice, member.keeper, op, sessions));
            bench.rows.extend(rows);
        }
    }
    for (member, race) in members.iter().zip(races) {
        let last = bench.rows.iter_mut().rfind(|row| row.title() == member.choice.title());
        if let (Some(race), Some(row)) = (race, last) {
            race::put_on(race, member.keeper.locking, row);
        }
    }
    bench.rows.sort_by_key(|row| place(&bench.choices, row));
    drop(members);
    // Each sample was verified on the spot.
    bench.keep_rows();
    go_on()
}

fn keeper_of(choice: &Choice) -> Option<&'static Keeper> {
    if let Target::Keeper(keeper) = choice.target { Some(keeper) } else { None }
}

/// Numbers of sessions for this keeper: the largest, and the others where the number matters.
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

fn never_measured(bench: &Bench, choice: &Choice, keeper: &Keeper, sizes: &[usize], why: &str) -> Vec<Row> {
    let combinations = sizes.iter().flat_map(|sessions| OPS.map(|op| (op, *sessions)));
    let failed = |(op, sessions)| Row { failed: Some(why.to_owned()), ..row(bench, choice, keeper, op, sessions) };
    combinations.map(failed).collect()
}

/// Takes the samples, and says how many rounds are whole.
fn measure(bench: &Bench, members: &mut [Member], cells: &mut [Cell]) -> usize {
    let values = Values::new(bench.settings.seed, bench.settings.payload_bytes);
    let mut random = fastrand::Rng::with_seed(bench.settings.seed);
    let turns = bench.settings.rounds + 1;
    bench.progress.expect_more(turns * cells.len());
    for turn in 0..turns {
        // The first turn is none of the rounds.
        let whole = turn.saturating_sub(1);
        if interrupted() {
            return whole;
        }
        let mut order: Vec<usize> = (0..cells.len()).collect();
        random.shuffle(&mut order);
        for number in order {
            bench.progress.step();
            let Some(cell) = cells.get_mut(number) else { continue };
            let Some(member) = members.get_mut(cell.member) else { continue };
            bench.progress.say(&format!("{} with {} sessions", member.choice.title(), cell.sessions));
            // The first turn warms up: modules are loaded, statements prepared, files and pages there.
            if turn == 0 {
                cell.warm_up(&mut member.home, &values)
            } else {
                cell.sample(&mut member.home, &values, turn)
            }
            if interrupted() {
                return whole;
            }
        }
        cells.iter_mut().for_each(Cell::keep_round);
    }
    bench.settings.rounds
}
