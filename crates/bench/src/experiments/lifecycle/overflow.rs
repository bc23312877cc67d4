//! What a shared memory of a fixed size does when one session too many comes: the size of the published measurement, 85 MB,
//! in which sessions pile up until some are missing.
//!
//! That it overflows is the finding and no fault of a row, so what was lost here is counted apart.

use std::path::Path;

use crate::experiments::lifecycle::load;
use crate::experiments::lifecycle::site::{Purpose, Site};
use crate::experiments::{Bench, go_on};
use crate::php::Installation;
use crate::report::{Overflow, Row, WebFigures};
use crate::run::RunError;
use crate::selection::{Choice, Target};

const OP: &str = "overflow";
/// The one whose memory has a fixed size.
const OF: &str = "apcu";
const MEGABYTES: u64 = 85;
/// Sessions that are made between two counts.
const STEP: usize = 200;
const PARALLEL: usize = 8;
/// When a session is missing by then, a session takes less than a kilobyte: that is not APCu.
const SESSIONS_MAX: u64 = MEGABYTES << 10;

pub(super) fn run(bench: &mut Bench, php: &Installation, ab: &Path) -> Result<(), RunError> {
    for choice in bench.choices.clone().iter().filter(|choice| choice.store == OF) {
        go_on()?;
        bench.progress.say(&format!("{} until it is full", choice.title()));
        let variant = format!("{MEGABYTES}M");
        let row = Row { variant, ..bench.row(choice, OP, PARALLEL, 0) };
        let row = match fill(bench, php, ab, choice)? {
            Ok(overflow) => Row {
                sessions: usize::try_from(overflow.held).unwrap_or(usize::MAX),
                operations: overflow.made,
                rounds: 1,
                web: Some(WebFigures { overflow: Some(overflow), ..WebFigures::default() }),
                ..row
            },
            Err(why) => Row { failed: Some(why), ..row },
        };
        bench.rows.push(row);
    }
    Ok(())
}

fn fill(bench: &Bench, php: &Installation, ab: &Path, choice: &Choice) -> Result<Result<Overflow, String>, RunError> {
    let Target::Handler(handler) = choice.target else { return Ok(Err("it is no handler of PHP".to_owned())) };
    let purpose = Purpose {
        durability: bench.settings.durability,
        sessions: SESSIONS_MAX / 4, // which is about what it will be
        memory_megabytes: MEGABYTES,
        ttl: bench.settings.ttl,
        processes: super::processes(),
    };
    let site = match Site::open(handler, php, &purpose) {
        Ok(site) => site,
        Err(why) => return Ok(Err(why)),
    };
    let mut overflow = Overflow { megabytes: MEGABYTES, ..Overflow::default() };
    while overflow.made < SESSIONS_MAX {
        go_on()?;
        // What goes wrong in the moment of the overflow belongs to it.
        let made = match load::make(ab, &site.url(), STEP, PARALLEL, &site.scratch()) {
            Ok(load) => load,
            Err(why) => return Ok(Err(why)),
        };
        overflow.made += STEP as u64;
        overflow.failed_requests += made.failed.max(made.not_2xx);
        let there = match site.kept() {
            Ok(there) => there.unwrap_or(0),
            Err(why) => return Ok(Err(why)),
        };
        if there < overflow.made {
            overflow.lost = overflow.made - there;
            return Ok(Ok(overflow));
        }
        overflow.held = there;
    }
    Ok(Ok(overflow))
}
