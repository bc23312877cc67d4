//! Whether the owner of a process slot is dead.

#[derive(Clone, Copy)]
pub enum SlotFact {
    OutOfRange,
    Own,
    /// The owner was recovered from, or the slot has another owner by now.
    Past,
    Current,
}

/// What /proc says about a pid.
#[derive(Clone, Copy)]
pub enum RunFact {
    /// Hidden (hidepid=, ProtectProc=), or not readable.
    Unknown,
    /// A zombie without other threads: they outlive the first one.
    Ended,
    /// Another start time: the pid was given to another process.
    Other,
    /// The start time is the recorded one, or none was recorded.
    Runs,
}

/// Whether the owner is dead; false while there is doubt. docs/engine.md, "Processes". Each fact is
/// asked for only when those before leave it open: they are system calls.
pub fn is_owner_dead(
    slot: SlotFact,
    beacon_is_free: impl FnOnce() -> bool,
    shares_pid_namespace: impl FnOnce() -> bool,
    pid_is_gone: impl FnOnce() -> bool,
    run: impl FnOnce() -> RunFact,
) -> bool {
    match slot {
        SlotFact::OutOfRange | SlotFact::Past => true,
        SlotFact::Own => false,
        SlotFact::Current => {
            beacon_is_free()
                || shares_pid_namespace()
                    && (pid_is_gone() || matches!(run(), RunFact::Ended | RunFact::Other))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::{RunFact, SlotFact};

    /// One row of the table; a fact that the row leaves open must not be asked for.
    #[derive(Clone, Copy)]
    struct OwnerRow {
        slot: SlotFact,
        beacon_is_free: Option<bool>,
        shares_pid_namespace: Option<bool>,
        pid_is_gone: Option<bool>,
        run: Option<RunFact>,
    }

    const OPEN: OwnerRow = OwnerRow {
        slot: SlotFact::Current,
        beacon_is_free: None,
        shares_pid_namespace: None,
        pid_is_gone: None,
        run: None,
    };
    const HELD: OwnerRow = OwnerRow { beacon_is_free: Some(false), ..OPEN };
    const NEAR: OwnerRow = OwnerRow { shares_pid_namespace: Some(true), ..HELD };
    const EXISTS: OwnerRow = OwnerRow { pid_is_gone: Some(false), ..NEAR };

    fn is_owner_dead(row: &OwnerRow) -> bool {
        super::is_owner_dead(
            row.slot,
            || row.beacon_is_free.unwrap(),
            || row.shares_pid_namespace.unwrap(),
            || row.pid_is_gone.unwrap(),
            || row.run.unwrap(),
        )
    }

    #[test]
    fn a_slot_that_does_not_exist_has_no_living_owner() {
        assert!(is_owner_dead(&OwnerRow { slot: SlotFact::OutOfRange, ..OPEN }));
    }

    #[test]
    fn a_process_never_takes_itself_for_dead() {
        assert!(!is_owner_dead(&OwnerRow { slot: SlotFact::Own, ..OPEN }));
    }

    #[test]
    fn an_owner_of_an_earlier_generation_is_dead() {
        assert!(is_owner_dead(&OwnerRow { slot: SlotFact::Past, ..OPEN }));
    }

    #[test]
    fn an_owner_whose_beacon_is_free_is_dead() {
        assert!(is_owner_dead(&OwnerRow { beacon_is_free: Some(true), ..OPEN }));
    }

    #[test]
    fn an_owner_in_another_pid_namespace_lives_while_its_beacon_is_held() {
        assert!(!is_owner_dead(&OwnerRow { shares_pid_namespace: Some(false), ..HELD }));
    }

    #[test]
    fn an_owner_whose_pid_is_gone_is_dead_though_a_child_holds_its_beacon() {
        assert!(is_owner_dead(&OwnerRow { pid_is_gone: Some(true), ..NEAR }));
    }

    #[test]
    fn an_owner_that_proc_hides_lives() {
        assert!(!is_owner_dead(&OwnerRow { run: Some(RunFact::Unknown), ..EXISTS }));
    }

    #[test]
    fn an_owner_that_has_ended_and_was_not_reaped_is_dead() {
        assert!(is_owner_dead(&OwnerRow { run: Some(RunFact::Ended), ..EXISTS }));
    }

    #[test]
    fn an_owner_whose_pid_was_given_to_another_process_is_dead() {
        assert!(is_owner_dead(&OwnerRow { run: Some(RunFact::Other), ..EXISTS }));
    }

    #[test]
    fn an_owner_that_runs_lives() {
        assert!(!is_owner_dead(&OwnerRow { run: Some(RunFact::Runs), ..EXISTS }));
    }
}
