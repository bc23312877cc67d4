//! The last look at contenders that took turns: what each of them acknowledged is there.
//!
//! Invariant: no row leaves here whose sessions were not looked at. After a signal there is little time for that: those that
//! were filled fastest are looked at first, and what could not be looked at is left out, with the reason.

use crate::experiments::throughput::CREATE;
use crate::experiments::{Bench, Member, go_on};
use crate::interruption::{VERIFY_WITHIN, interrupted};
use crate::report::Row;
use crate::run::RunError;
use crate::worker::process::INTERRUPTED;
use crate::worker::protocol::Failure;

/// Verifies members and keeps the rows, each of which goes with the number of its member. `rounds` are complete; a member has
/// no row when there are none. What members made in stores of the user's stays until all were looked at, and the result is written.
pub(super) fn finish(
    bench: &mut Bench,
    mut members: Vec<Member>,
    mut rows: Vec<(usize, Row)>,
    sessions: usize,
    rounds: usize,
) -> Result<(), RunError> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    if interrupted() {
        order.sort_by_key(|number| members.get(*number).map(|member| member.fill_ns));
    }
    for number in order {
        let Some(member) = members.get_mut(number) else { continue };
        let title = member.choice.title();
        bench.progress.say(&format!("{title}: verify"));
        if rounds > 0
            && let Err(why) = verify(member, number, &mut rows, sessions)
        {
            rows.retain(|(of, row)| *of != number || row.failed.is_some());
            let reason = format!("a signal came after {rounds} rounds, and {why}: no figure without that");
            bench.left_out.push(member.choice.left_out(reason));
        }
    }
    if rounds > 0 {
        bench.rows.extend(rows.into_iter().map(|(_, row)| row));
        bench.keep_rows();
    }
    go_on()
}

/// Puts what was found on the rows of a member. After a signal the error says why its sessions could not be looked at.
fn verify(member: &mut Member, number: usize, rows: &mut [(usize, Row)], sessions: usize) -> Result<(), String> {
    let (changed, created) = (member.verify(sessions), member.verify_created());
    if interrupted()
        && let Some(failure) = [&changed, &created].into_iter().find_map(|found| found.as_ref().err())
    {
        return Err(unverified(failure, |message| member.stage.redact(message)));
    }
    // Races show at the highest number of workers; of those rows the last one is the one that changes.
    for (found, created) in [(changed, false), (created, true)] {
        let makes = |row: &Row| row.op == CREATE || row.workload.is_some();
        let own = rows.iter_mut().filter(|(of, row)| *of == number && (!created || makes(row)));
        let Some((_, row)) = own.max_by_key(|(_, row)| row.workers) else { continue };
        match found {
            Ok(found) => found.put_on(row),
            Err(failure) => {
                row.failed = row.failed.take().or(Some(failure.message));
                member.found_before(created).put_on(row);
            }
        }
    }
    Ok(())
}

/// That there was no time is one thing, that the look itself failed another, which may well be the fault of the contender.
fn unverified(failure: &Failure, redact: impl Fn(&str) -> String) -> String {
    if failure.code == INTERRUPTED {
        let within = VERIFY_WITHIN.as_secs();
        return format!("its sessions were not verified within {within} s, or before a second signal came");
    }
    format!("to verify its sessions failed, because {}", redact(&failure.message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::process::failure;

    /// A server that had died was said to have had too little time.
    #[test]
    fn a_look_that_fails_after_a_signal_is_told_from_one_that_is_not_in_time() {
        let redact = |message: &str| message.replace("/secret", "<disk>");
        let late = unverified(&failure(INTERRUPTED, "a signal ended the run"), redact);
        assert!(late.contains("within 20 s") && !late.contains("failed"), "{late}");
        let broken = unverified(&failure("server", "its server in /secret ended"), redact);
        assert!(broken.contains("failed") && broken.contains("its server in <disk> ended"), "{broken}");
        assert!(!broken.contains("within"), "{broken}");
    }
}
