//! Sessions pile up in the published 85 MB of shared memory until some are missing.
//!
//! The overflow is the finding and no fault of the row, so these losses are counted apart.

use sessile_results::{Figures, Overflow, Row, WebFigures};

use crate::experiments::lifecycle::site::{LifecycleSite, SiteOptions};
use crate::experiments::web::{WebPrograms, of_page, processes};
use crate::experiments::{Bench, check_interrupted};
use crate::run::RunError;
use crate::selection::{Choice, ContenderSource};
use crate::worker::protocol::WorkerResult;

const OP: &str = "overflow";
/// The store whose memory has a fixed size.
const STORE: &str = "apcu";
const MEGABYTES: u64 = 85;
/// Between two counts.
const STEP: usize = 200;
const PARALLEL: usize = 8;
/// With none missing after these, a session takes less than a kilobyte: this cannot be that memory.
const REQUESTS_MAX: u64 = MEGABYTES << 10;

pub(super) fn run(bench: &mut Bench, programs: &WebPrograms) -> Result<(), RunError> {
    for choice in bench.choices.clone().iter().filter(|choice| choice.store == STORE) {
        check_interrupted()?;
        bench.progress.set_message(&format!("{} until it is full", choice.title()));
        let mut row = bench.row(choice, OP, PARALLEL, 0);
        row.subject.variant = format!("{MEGABYTES}M");
        let row = match fill(bench, programs, choice)? {
            Ok(overflow) => {
                row.question.sessions = usize::try_from(overflow.held).unwrap_or(usize::MAX);
                row.figures = Figures { operations: overflow.made, rounds: 1, ..row.figures };
                let web = WebFigures { overflow: Some(overflow), ..WebFigures::default() };
                Row { web: Some(web), ..row }
            }
            Err(failure) if failure.is_of_store() => row.into_failed(failure.message),
            Err(failure) => {
                bench.left_out.push(choice.left_out(failure.message));
                continue;
            }
        };
        bench.rows.push(row);
    }
    Ok(())
}

fn fill(
    bench: &Bench,
    programs: &WebPrograms,
    choice: &Choice,
) -> Result<WorkerResult<Overflow>, RunError> {
    let ContenderSource::Handler(handler) = choice.target else {
        return Ok(Err(of_page("it is no handler of PHP".to_owned())));
    };
    let purpose = SiteOptions {
        durability: bench.settings.durability,
        sessions: REQUESTS_MAX / 4, // roughly as many as fit
        memory_megabytes: MEGABYTES,
        ttl: bench.settings.ttl,
        processes: processes(&[PARALLEL]),
        drupal: None,
    };
    let site = match LifecycleSite::open(handler, &programs.php, &purpose) {
        Ok(site) => site,
        Err(failure) => return Ok(Err(failure)),
    };
    let mut overflow = Overflow { megabytes: MEGABYTES, ..Overflow::default() };
    for _ in 0..REQUESTS_MAX / STEP as u64 {
        check_interrupted()?;
        // Errors at the moment of the overflow belong to it.
        let made = match site.load(&programs.ab, STEP, PARALLEL) {
            Ok(load) => load,
            Err(why) => return Ok(Err(of_page(why))),
        };
        // A request without a correct answer has made no session.
        let failed = made.failed.max(made.not_2xx);
        overflow.made += made.complete.saturating_sub(failed);
        overflow.failed_requests += failed;
        let there = match site.count_sessions() {
            Ok(there) => there.unwrap_or(0),
            Err(why) => return Ok(Err(of_page(why))),
        };
        if there < overflow.made {
            overflow.lost = overflow.made - there;
            return Ok(Ok(overflow));
        }
        overflow.held = there;
        if made.complete <= failed && there > 0 {
            return Ok(Ok(overflow)); // it refuses more and has lost none
        }
    }
    Ok(Err(of_page(format!(
        "no session is missing after {REQUESTS_MAX} requests, of which {} failed: that is no \
         memory of {MEGABYTES} MB",
        overflow.failed_requests
    ))))
}
