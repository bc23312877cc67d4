//! Mistakes on purpose, one at a time: a model that does not notice one of them proves nothing.
//!
//! Invariant: outside the model build (`--cfg sessile_model`) [`is`] is the constant `false`, so nothing of this is in
//! any program. Where the code asks, the mistake stands beside the right way, and `models` says which model sees it.

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(dead_code, reason = "only models choose one")]
pub enum Twin {
    /// A lock is given back and nobody who sleeps is woken.
    UnlocksSilently,
    /// The mark of those who starve stays on a lock that nobody wants.
    LeavesStarving,
    /// A lock is taken over without asking whether its owner is dead.
    StealsFromTheLiving,
    /// Two sequences take turns in a bucket, so an announcement comes round while a helper sleeps.
    SequenceComesRound,
    /// A helper does not look whether the announcement still stands.
    HelperTrusts,
    /// A change is announced over whatever was announced since the cells were read.
    AnnouncesUnseen,
    /// A bucket is split while changes of it can be announced.
    SplitsUnfrozen,
    /// The segment is not looked at again after a claim.
    ClaimsUnseen,
    /// A slot is freed whoever has it.
    FreesUnseen,
    /// A segment is closed although a stamp is left.
    ClosesOverStamps,
    /// The old slot is freed before the entry leads to the new one.
    FreesBeforeState,
    /// The entry leads to a record before its payload is written.
    StateBeforeRecord,
    /// A reader does not look at the state again.
    ReadsOnce,
    /// A commit goes over whatever was made of the session since it was read.
    CommitsUnseen,
    /// A replaced record that came back to its place under another stamp is left there.
    ForgetsReturned,
    /// Recovery does not look whether the lanes it has read are those of the dead.
    RecoversUnseen,
    /// Who has read from a stage does not look whether it still belongs to the segment.
    ReadsStageOnce,
    /// A segment loses its stage before the bytes are in the file.
    GivesUpUnwritten,
}

/// Whether this mistake is to be made.
#[cfg(not(sessile_model))]
#[inline(always)]
pub const fn is(_: Twin) -> bool {
    false
}

#[cfg(sessile_model)]
pub use chosen::is;
#[cfg(all(test, sessile_model))]
pub use chosen::with;

#[cfg(sessile_model)]
mod chosen {
    use std::cell::Cell;

    use super::Twin;

    thread_local! {
        // All threads of a model run on one thread of the system.
        static CHOSEN: Cell<Option<Twin>> = const { Cell::new(None) };
    }

    /// Whether this mistake is to be made.
    pub fn is(twin: Twin) -> bool {
        CHOSEN.get() == Some(twin)
    }

    /// Runs with a mistake.
    #[cfg(test)]
    pub fn with<T>(twin: Twin, run: impl FnOnce() -> T) -> T {
        CHOSEN.set(Some(twin));
        let result = run();
        CHOSEN.set(None);
        result
    }
}
