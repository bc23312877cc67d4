//! Mutations: mistakes on purpose. A model that misses one of them proves nothing.
//!
//! Invariant: outside the model build (`--cfg sessile_model`) [`mutated`] is the constant `false`.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(dead_code, reason = "only models choose one")]
pub enum Mutation {
    /// An unlock wakes no sleeper.
    UnlocksSilently,
    /// The starving bit stays on a lock that nobody wants.
    LeavesStarving,
    /// A lock is taken over without asking whether its owner is dead.
    StealsFromTheLiving,
    /// Two sequences alternate in a bucket, so an announcement repeats while a helper sleeps.
    SequenceComesRound,
    /// A helper does not check that the announcement still stands.
    HelperTrusts,
    /// A change is announced over announcements made since the cells were read.
    AnnouncesUnseen,
    /// A bucket is split while changes of it can be announced.
    SplitsUnfrozen,
    /// The segment state is not read again after a claim.
    ClaimsUnseen,
    /// A slot is freed whatever stamp it has.
    FreesUnseen,
    /// A segment is closed although a stamp is left.
    ClosesOverStamps,
    /// The old slot is freed before the entry leads to the new one.
    FreesBeforeState,
    /// The entry leads to a record before its payload is written.
    StateBeforeRecord,
    /// A reader does not read the state again.
    ReadsOnce,
    /// A commit ignores changes made to the session since it was read.
    CommitsUnseen,
    /// A replaced record that came back to its place under another stamp stays there.
    ForgetsReturned,
    /// Recovery does not check that the lanes it has read are those of the dead process.
    RecoversUnseen,
}

#[cfg(not(sessile_model))]
#[inline(always)]
pub const fn mutated(_: Mutation) -> bool {
    false
}

#[cfg(sessile_model)]
pub use chosen::mutated;
#[cfg(all(test, sessile_model))]
pub use chosen::with_mutation;

#[cfg(sessile_model)]
mod chosen {
    use std::cell::Cell;

    use super::Mutation;

    thread_local! {
        // All threads of a model run on one thread of the system.
        static CHOSEN: Cell<Option<Mutation>> = const { Cell::new(None) };
    }

    pub fn mutated(mutation: Mutation) -> bool {
        CHOSEN.get() == Some(mutation)
    }

    /// Runs with a mistake.
    #[cfg(test)]
    pub fn with_mutation<T>(mutation: Mutation, run: impl FnOnce() -> T) -> T {
        CHOSEN.set(Some(mutation));
        let result = run();
        CHOSEN.set(None);
        result
    }
}
