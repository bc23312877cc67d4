//! Mutations: mistakes on purpose. A test that misses one of them proves nothing.
//!
//! Invariant: outside unit tests and the model build (`--cfg sessile_model`) [`mutated`] is the
//! constant `false`.

/// Declares them: those that a model finds, and those that only a power cut shows. Of the latter
/// there is a list, so that none is left out.
macro_rules! mutations {
    (
        models { $($(#[$model_doc:meta])* $model:ident,)* }
        power_cuts { $($(#[$doc:meta])* $name:ident,)* }
    ) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(dead_code, reason = "only tests choose one")]
        pub enum Mutation {
            $($(#[$model_doc])* $model,)*
            $($(#[$doc])* $name,)*
        }

        #[cfg(all(test, not(sessile_model)))]
        impl Mutation {
            pub const OF_POWER_CUTS: &[Mutation] = &[$(Mutation::$name),*];
        }
    };
}

mutations! {
    models {
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
        /// A holder trusts a lock that a log-out before it may still void.
        TrustsVoidLock,
        /// The owner of a session changes without a doubt beforehand.
        DoubtsNoOwner,
        /// A holder that has lost its lock settles the owner of a later session.
        SettlesOwnerBlindly,
        /// A replaced record that came back to its place under another stamp stays there.
        ForgetsReturned,
        /// Recovery does not check that the lanes it has read are those of the dead process.
        RecoversUnseen,
    }
    power_cuts {
        /// A rebuild does not compare the checksum of a record.
        ChecksumUnseen,
        /// A rebuild takes any words for a line, without its check.
        CheckUnseen,
        /// The torn rest of a write counts as a damaged record.
        TornCounts,
        /// Of the notes of a touch the one with the lowest fence counts.
        FirstTouchWins,
        /// A sync that was under way before the write is enough.
        JoinsSyncUnderWay,
        /// A sync that fails counts as done.
        FailedSyncCounts,
        /// After a failed sync nothing is written again.
        WritesNothingAgain,
        /// A segment is used again after a sync that was begun before it was emptied.
        ReusesUnsynced,
        /// The state is swapped before the sync.
        SwapsBeforeSync,
        /// A logged touch is acknowledged before the sync.
        TouchUnsynced,
        /// The tombstone is written after the state was swapped.
        TombstoneAfterSwap,
        /// A record whose sync has failed is only freed: it keeps its check, and the next one gets
        /// its sequence.
        ForgetsRefused,
        /// A seal is content with a sync that was begun before the last write.
        SealsUnsynced,
        /// A bin is used before its name is synced.
        BinUnsynced,
        /// The names of the files of a new store are not synced.
        NamesUnsynced,
        /// The interval of a sync is not looked at.
        NeverDue,
        /// Nobody waits for a sync that a dead process has begun.
        TrustsStarter,
    }
}

#[cfg(not(any(test, sessile_model)))]
#[inline(always)]
pub const fn mutated(_: Mutation) -> bool {
    false
}

#[cfg(any(test, sessile_model))]
pub use chosen::mutated;
#[cfg(test)]
pub use chosen::with_mutation;

#[cfg(any(test, sessile_model))]
mod chosen {
    use std::cell::Cell;

    use super::Mutation;

    thread_local! {
        // All threads of a model, and all processes of a history, run on one thread of the system.
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
