//! Stores with one deliberate fault each. The suite must reject every one of them.
//!
//! A broken store is a good store behind a decorator, [`Broken`], that breaks one promise. With
//! [`Fault::None`] the decorator breaks nothing and must pass: then a rejection is due to the fault.

mod decorator;

pub use decorator::Broken;

macro_rules! faults {
    ($($variant:ident = $name:literal, $base:ident, $sentence:literal;)+) => {
        /// The promise that a broken store breaks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $(#[doc = $sentence] $variant,)+
        }

        impl Fault {
            /// All of them, the unbroken one first.
            pub const ALL: &'static [Fault] = &[$(Fault::$variant,)+];

            /// The word in the URL of the broken store.
            pub const fn name(self) -> &'static str {
                match self { $(Fault::$variant => $name,)+ }
            }

            /// What it does, in a sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(Fault::$variant => $sentence,)+ }
            }

            /// The registry name of the good store behind it.
            pub const fn base(self) -> &'static str {
                match self { $(Fault::$variant => stringify!($base),)+ }
            }
        }
    };
}

faults! {
    None = "nothing", memory, "Nothing is broken.";
    ResurrectedByCommit = "resurrected-by-commit", memory, "A late commit brings a destroyed session back.";
    UnlockWithoutOwnerCheck = "unlock-without-owner-check", memory, "A release frees the lock of whoever holds it.";
    TtlIgnored = "ttl-ignored", memory, "Records live for years whatever their ttl.";
    LockNeverTaken = "lock-never-taken", memory, "Begin reads without excluding anyone.";
    LostWrite = "lost-write", memory, "Commit says yes and stores nothing.";
    TornWrite = "torn-write", memory, "A commit is written in two steps.";
    TouchRecreates = "touch-recreates", memory, "Touching a record that is gone makes an empty one.";
    OversizeTruncates = "oversize-truncates", memory, "A payload over the limit is cut and stored.";
    ExpiredForOneMs = "expired-for-one-ms", memory, "A record is returned in the millisecond in which it expires.";
    CreateOverwrites = "create-overwrites", memory, "Create replaces a live record.";
    TimeoutLooksEmpty = "timeout-looks-empty", memory, "A lock time-out looks like an empty session.";
    StaleAccepted = "stale-accepted", memory, "A commit with a lost lease overwrites the successor's record.";
    OldIdStaysAlive = "old-id-stays-alive", memory, "A regenerated id leads on long after its grace.";
    ErrorLeaksId = "error-leaks-id", memory, "The text of errors contains the id.";
    SweepRemovesLive = "sweep-removes-live", memory, "Sweep removes live records.";
    SweepCountsLie = "sweep-counts-lie", memory, "Sweep claims more than it removed.";
    FenceFromRecord = "fence-from-record", memory, "The fence is the record's version, which starts anew.";
    UnfairLock = "unfair-lock", memory, "Waiters poll with growing pauses: whoever just released wins again.";
    ListSkips = "list-skips", memory, "A listing drops the last record of each page.";
    UndeclaredListing = "undeclared-listing", memory, "Listing works although it is not declared.";
    DestroyWaits = "destroy-waits", memory, "Destroy waits for the lock.";
    PeekWaits = "peek-waits", memory, "Peek waits for the lock.";
    DroppedLeaseStays = "dropped-lease-stays", memory, "A release does not free the lock.";
    EmptyIsMissing = "empty-is-missing", memory, "An empty payload reads as no record.";
    IdsFoldCase = "ids-fold-case", memory, "Ids that differ in case are the same.";
    BinsMix = "bins-mix", memory, "The bin is ignored.";
    BeginLeavesRecord = "begin-leaves-record", memory, "Begin and release leave an empty record behind.";
    GlobalLock = "global-lock", memory, "One lock for all sessions.";
    CutAtNul = "cut-at-nul", memory, "A payload ends at its first NUL byte.";
    SweepRemovesLeased = "sweep-removes-leased", memory, "Sweep removes an expired record that someone holds.";
    SpentIdsUntold = "spent-ids-untold", memory, "The use of a spent id is not told.";
    EndIgnored = "end-ignored", memory, "The absolute lifetime is ignored.";
    TouchDoesNothing = "touch-does-nothing", memory, "Touch says yes and moves nothing.";
    TouchRewrites = "touch-rewrites", memory, "Touch reads the payload and writes it again.";
    HolderUnnamed = "holder-unnamed", memory, "A lock time-out names nobody.";
    LockOutlivesHolder = "lock-outlives-holder", files, "The lock of a killed holder stays for ever.";
    LostUpdates = "lost-updates", files, "Processes do not exclude each other.";
    StealsFromLiving = "steals-from-living", files, "Who waits for 2 ms takes the lock of a living holder.";
    TornByCrash = "torn-by-crash", files, "A process killed while it commits leaves a mix.";
}

impl Fault {
    /// The fault with this name.
    pub fn by_name(name: &str) -> Option<Fault> {
        Fault::ALL.iter().copied().find(|fault| fault.name() == name)
    }
}
