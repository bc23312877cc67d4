//! The final check that every acknowledged session is there.
//!
//! Invariant: no row is reported whose sessions were not verified. After a signal there is little
//! time: contenders that filled fastest are verified first, the others are left out.

use sessile_results::{LeftOut, Row};

use crate::experiments::throughput::CREATE;
use crate::experiments::{Bench, ReadyContender, check_interrupted};
use crate::interruption::{VERIFY_WITHIN, interrupted};
use crate::run::RunError;
use crate::worker::process::INTERRUPTED;
use crate::worker::protocol::ContenderFailure;

pub(super) struct UnverifiedRow {
    /// Number of its contender.
    pub contender: usize,
    pub row: Row,
    /// Why its samples ended, if that is no fault of the store. The row is left out then, unless
    /// faults were found before.
    pub obstacle: Option<String>,
}

/// Sessions in a store of the user stay until all are verified and the result is written.
pub(super) fn verify_and_keep_rows(
    bench: &mut Bench,
    mut contenders: Vec<ReadyContender>,
    mut rows: Vec<UnverifiedRow>,
    sessions: usize,
    rounds: usize,
) -> Result<(), RunError> {
    let mut order: Vec<usize> = (0..contenders.len()).collect();
    if interrupted() {
        order.sort_by_key(|number| contenders.get(*number).map(|contender| contender.fill_ns));
    }
    for number in order {
        let Some(contender) = contenders.get_mut(number) else { continue };
        let title = contender.choice.title();
        bench.progress.set_message(&format!("{title}: verify"));
        if rounds > 0
            && let Err(why) = verify(contender, number, &mut rows, sessions)
        {
            rows.retain(|it| it.contender != number || it.row.outcome.failed.is_some());
            let reason =
                format!("a signal came after {rounds} rounds, and {why}: no figure without that");
            bench.left_out.push(contender.choice.left_out(reason));
        }
    }
    if rounds > 0 {
        for row in rows {
            row.keep(bench, &contenders);
        }
        bench.mark_rows_verified();
    }
    check_interrupted()
}

impl UnverifiedRow {
    fn keep(self, bench: &mut Bench, contenders: &[ReadyContender]) {
        let UnverifiedRow { contender, mut row, obstacle } = self;
        if let Some(why) = &obstacle
            && !row.is_bad()
            && let Some(contender) = contenders.get(contender)
        {
            let reason = format!("{}: {why}", row.question.op);
            let workers = Some(row.question.workers);
            bench.left_out.push(LeftOut { workers, ..contender.choice.left_out(reason) });
            return;
        }
        row.outcome.failed = row.outcome.failed.or(obstacle);
        bench.rows.push(row);
    }
}

/// After a signal the error says why the sessions could not be verified.
fn verify(
    contender: &mut ReadyContender,
    number: usize,
    rows: &mut [UnverifiedRow],
    sessions: usize,
) -> Result<(), String> {
    let (changed, created) = (contender.verify(sessions), contender.verify_created());
    if interrupted()
        && let Some(failure) =
            [&changed, &created].into_iter().find_map(|found| found.as_ref().err())
    {
        return Err(unverified_reason(failure, |message| contender.deployment.redact(message)));
    }
    // Races show at the highest number of workers; the last of those rows changes sessions.
    for (found, created) in [(changed, false), (created, true)] {
        let makes = |row: &Row| row.question.op == CREATE || row.question.workload.is_some();
        let own = rows.iter_mut().filter(|it| it.contender == number).map(|it| &mut it.row);
        let own = own.filter(|row| !created || makes(row));
        let Some(row) = own.max_by_key(|row| row.question.workers) else { continue };
        match found {
            Ok(found) => found.add_to_row(row),
            Err(failure) => {
                row.outcome.failed = row.outcome.failed.take().or(Some(failure.message));
                let earlier =
                    if created { &mut contender.earlier_created } else { &mut contender.earlier };
                std::mem::take(earlier).add_to_row(row);
            }
        }
    }
    Ok(())
}

/// A verification that failed may be the fault of the contender, a lack of time is not.
fn unverified_reason(failure: &ContenderFailure, redact: impl Fn(&str) -> String) -> String {
    if failure.code == INTERRUPTED {
        let within = VERIFY_WITHIN.as_secs();
        return format!(
            "its sessions were not verified within {within} s, or before a second signal came"
        );
    }
    format!("to verify its sessions failed, because {}", redact(&failure.message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::process::failure;

    /// A dead server was once reported as a lack of time.
    #[test]
    fn a_look_that_fails_after_a_signal_is_told_from_one_that_is_not_in_time() {
        let redact = |message: &str| message.replace("/secret", "<disk>");
        let late = unverified_reason(&failure(INTERRUPTED, "a signal ended the run"), redact);
        assert!(late.contains("within 20 s") && !late.contains("failed"), "{late}");
        let broken = unverified_reason(&failure("server", "its server in /secret ended"), redact);
        assert!(
            broken.contains("failed") && broken.contains("its server in <disk> ended"),
            "{broken}"
        );
        assert!(!broken.contains("within"), "{broken}");
    }
}
