//! Two programs in the same rounds, whose stores are set up several times: what the first ones lost
//! is not forgotten with them.

use sessile_bench::{Choice, Options, run_choices_with_baseline};
use sessile_results::Row;
use sessile_results::{Experiment, Report};

use crate::{chosen, launch, options};

/// Five setups of five rounds.
const ROUNDS: usize = 25;

pub fn what_the_first_of_several_setups_lost_is_told() {
    let new = measured(Experiment::Cycle, "lazy-once");
    let row = &new.results[0];
    assert!(
        row.outcome.lost > 0 && row.outcome.errors == 0 && row.figures.rounds == ROUNDS,
        "{row:#?}"
    );
    let sound = &measured(Experiment::Cycle, "locked-once").results[0];
    assert!(!sound.is_bad(), "{sound:#?}");
    assert_eq!(
        sound.figures.samples.iter().map(|sample| sample.setup).collect::<Vec<usize>>(),
        setups()
    );
}

/// It is the row that creates, and no other.
pub fn what_the_first_of_several_setups_did_not_create_is_told() {
    let new = measured(Experiment::Ops, "vain-once");
    let bad: Vec<&Row> = new.results.iter().filter(|row| row.outcome.misses > 0).collect();
    assert_eq!(
        bad.iter().map(|row| row.question.op.as_str()).collect::<Vec<&str>>(),
        ["create"],
        "{bad:#?}"
    );
    assert!(
        new.results.iter().all(|row| row.outcome.lost == 0 && row.outcome.failed.is_none()),
        "{new:#?}"
    );
}

/// What does not come up once more fails, and keeps nobody else.
pub fn a_setup_that_fails_fails_its_row() {
    let new = measured(Experiment::Cycle, "fading-once");
    let why = new.results[0].outcome.failed.as_deref().unwrap_or_default();
    assert!(why.contains("set up anew") && why.contains("no to 5"), "{why}");
}

fn setups() -> Vec<usize> {
    (0..ROUNDS).map(|round| round / 5).collect()
}

fn measured(experiment: Experiment, name: &'static str) -> Report {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let choices: Vec<Choice> =
        vec![chosen("locked-once", &dirs[0]).into_counterpart(), chosen(name, &dirs[1])];
    // The two are one store to whoever pairs them.
    let choices =
        choices.into_iter().map(|choice| Choice { store: "locked-once", ..choice }).collect();
    let options = Options { seconds: Some(0.02), rounds: Some(ROUNDS), ..options() };
    let (_, new) = run_choices_with_baseline(experiment, &options, &launch(), choices).unwrap();
    new
}
