//! What a shared memory of a fixed size does when one session too many comes: the size of the published measurement, 85 MB,
//! in which sessions pile up until some are missing.
//!
//! That it overflows is the finding and no fault of a row, so what was lost here is counted apart.

use std::path::Path;

use crate::experiments::lifecycle::site::{Purpose, Site};
use crate::experiments::load;
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
/// When none is missing after so many requests, a session takes less than a kilobyte: that is not this memory.
const REQUESTS_MAX: u64 = MEGABYTES << 10;

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
        sessions: REQUESTS_MAX / 4, // which is about what it will be
        memory_megabytes: MEGABYTES,
        ttl: bench.settings.ttl,
        processes: super::processes(),
    };
    let site = match Site::open(handler, php, &purpose) {
        Ok(site) => site,
        Err(why) => return Ok(Err(why)),
    };
    let mut overflow = Overflow { megabytes: MEGABYTES, ..Overflow::default() };
    for _ in 0..REQUESTS_MAX / STEP as u64 {
        go_on()?;
        // What goes wrong in the moment of the overflow belongs to it.
        let made = match load::make(ab, &site.url(), STEP, PARALLEL, &site.scratch()) {
            Ok(load) => load,
            Err(why) => return Ok(Err(why)),
        };
        // A request that was not answered as it should has made no session that anybody relies on.
        let failed = made.failed.max(made.not_2xx);
        overflow.made += made.complete.saturating_sub(failed);
        overflow.failed_requests += failed;
        let there = match site.kept() {
            Ok(there) => there.unwrap_or(0),
            Err(why) => return Ok(Err(why)),
        };
        if there < overflow.made {
            overflow.lost = overflow.made - there;
            return Ok(Ok(overflow));
        }
        overflow.held = there;
        if made.complete <= failed && there > 0 {
            return Ok(Ok(overflow)); // it refuses more, and has lost none
        }
    }
    Ok(Err(format!(
        "no session is missing after {REQUESTS_MAX} requests, of which {} failed: that is no memory of {MEGABYTES} MB",
        overflow.failed_requests
    )))
}
