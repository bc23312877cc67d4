//! The last look at contenders that took turns: what each of them acknowledged is there.
//!
//! Invariant: no row leaves here whose sessions were not looked at. After a signal there is little time for that: those that
//! were filled fastest are looked at first, and what could not be looked at is left out, with the reason.

use crate::experiments::throughput::CREATE;
use crate::experiments::{Bench, Member, go_on};
use crate::interruption::{VERIFY_WITHIN, interrupted};
use crate::report::Row;
use crate::run::RunError;
use crate::selection::LeftOut;

/// Verifies members, removes what they made in foreign stores, and keeps the rows, each of which goes with the number of its
/// member. `rounds` are complete; a member has no row when there are none.
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
        if rounds > 0 && !verify(member, number, &mut rows, sessions) {
            rows.retain(|(of, row)| *of != number || row.failed.is_some());
            let within = VERIFY_WITHIN.as_secs();
            bench.left_out.push(LeftOut {
                store: member.choice.store.to_owned(),
                variant: member.choice.variant.clone(),
                workers: None,
                reason: format!(
                    "a signal came after {rounds} rounds, and its sessions were not verified within {within} s: no figure \
                     without that"
                ),
            });
        }
        member.clean_up(sessions);
    }
    if rounds > 0 {
        bench.rows.extend(rows.into_iter().map(|(_, row)| row));
        bench.keep_rows();
    }
    go_on()
}

/// Puts what was found on the rows of a member; false when a signal left no time to look.
fn verify(member: &mut Member, number: usize, rows: &mut [(usize, Row)], sessions: usize) -> bool {
    let (changed, created) = (member.verify(sessions), member.verify_created());
    if interrupted() && (changed.is_err() || created.is_err()) {
        return false;
    }
    // Races show at the highest number of workers; of those rows the last one is the one that changes.
    for (found, created) in [(changed, false), (created, true)] {
        let own = rows.iter_mut().filter(|(of, row)| *of == number && (!created || row.op == CREATE));
        let Some((_, row)) = own.max_by_key(|(_, row)| row.workers) else { continue };
        match found {
            Ok(found) => found.put_on(row),
            Err(failure) => row.failed = row.failed.take().or(Some(failure.message)),
        }
    }
    true
}
