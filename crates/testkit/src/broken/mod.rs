//! Stores with one deliberate fault each. The suite must reject every one of them.
//!
//! A broken store is a good store behind a decorator, [`BrokenStore`], that breaks one promise.
//! With [`StoreFault::Unbroken`] it must pass: then a rejection is due to the fault.
//! `broken-FAULT:URL` is the store of `URL` behind that fault; no production registry knows such
//! URLs.

mod decorator;

pub use decorator::BrokenStore;

use sessile_core::{Clock, Error, ErrorKind, Result, Sessions};
use sessile_stores::Context;

const PREFIX: &str = "broken-";

pub fn open(url: &str, clock: Clock) -> Result<Sessions> {
    let Some((fault, inner)) = url.strip_prefix(PREFIX).and_then(|rest| rest.split_once(':'))
    else {
        return sessile_stores::open(url, &Context { clock });
    };
    let fault = StoreFault::by_name(fault)
        .ok_or_else(|| Error::new(ErrorKind::InvalidUrl, "unknown fault"))?;
    let inner = sessile_stores::open(inner, &Context { clock: clock.clone() })?;
    Ok(BrokenStore::wrap(fault, inner, clock))
}

/// The URL of a store behind a fault; without one the URL itself.
pub fn url(fault: Option<StoreFault>, url: &str) -> String {
    fault.map_or_else(|| url.to_owned(), |fault| format!("{PREFIX}{}:{url}", fault.name()))
}

macro_rules! faults {
    ($($variant:ident = $sentence:literal;)+) => {
        /// The promise that a broken store breaks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum StoreFault {
            $(#[doc = $sentence] $variant,)+
        }

        impl StoreFault {
            /// All of them, the unbroken one first.
            pub const ALL: &'static [StoreFault] = &[$(StoreFault::$variant,)+];

            pub const fn sentence(self) -> &'static str {
                match self { $(StoreFault::$variant => $sentence,)+ }
            }
        }
    };
}

faults! {
    Unbroken = "Nothing is broken.";
    ResurrectedByCommit = "A late commit brings a destroyed session back.";
    UnlockWithoutOwnerCheck = "A release frees a lock that another holds.";
    TtlIgnored = "Records live for years whatever their ttl.";
    LockNeverTaken = "Begin reads without excluding anyone.";
    LostWrite = "Commit says yes and stores nothing.";
    TornWrite = "A commit is written in two steps.";
    TouchRecreates = "Touching a record that is gone makes an empty one.";
    OversizeTruncates = "A payload over the limit is cut and stored.";
    ExpiredForOneMs = "A record is returned in the millisecond in which it expires.";
    CreateOverwrites = "Create replaces a live record.";
    TimeoutLooksEmpty = "A lock time-out looks like an empty session.";
    StaleAccepted = "A commit with a lost lease overwrites the successor's record.";
    OldIdStaysAlive = "A regenerated id leads on long after its grace.";
    ErrorLeaksId = "The text of errors contains the id.";
    SweepRemovesLive = "Sweep removes live records.";
    SweepCountsLie = "Sweep claims more than it removed.";
    FenceFromRecord = "The fence is the record's version, which starts anew.";
    UnfairLock = "Waiters poll with growing pauses: the last holder wins again.";
    ListSkips = "A listing drops the last record of each page.";
    OwnerForgotten = "A commit that sets no owner takes it away.";
    OwnerDropped = "A commit sets no owner.";
    RevokesBlindly = "A revocation ends what it has listed, whoever owns it by then.";
    OwnerStays = "An owner is not replaced.";
    OwnersMix = "The sessions of one owner are those of all.";
    OwnedSkips = "The last session of an owner is not listed.";
    UndeclaredListing = "Listing works although it is not declared.";
    DestroyWaits = "Destroy waits for the lock.";
    PeekWaits = "Peek waits for the lock.";
    DroppedLeaseStays = "A release does not free the lock.";
    EmptyIsMissing = "An empty payload reads as no record.";
    IdsFoldCase = "Ids that differ in case are the same.";
    BinsMix = "The bin is ignored.";
    BeginLeavesRecord = "Begin and release leave an empty record behind.";
    GlobalLock = "One lock for all sessions.";
    CutAtNul = "A payload ends at its first NUL byte.";
    SweepRemovesLeased = "Sweep removes an expired record that someone holds.";
    SpentIdsUntold = "The use of a spent id is not told.";
    EndIgnored = "The absolute lifetime is ignored.";
    TouchDoesNothing = "Touch says yes and moves nothing.";
    TouchRewrites = "Touch reads the payload and writes it again.";
    HolderUnnamed = "A lock time-out names nobody.";
    LockOutlivesHolder = "The lock of a killed holder stays for ever.";
    LostUpdates = "Processes do not exclude each other.";
    StealsFromLiving = "A wait of 2 ms takes the lock of a living holder.";
    TornByCrash = "A process killed while it commits leaves a mix.";
}

impl StoreFault {
    /// The word in the URL of the broken store: `lost-write` for `LostWrite`.
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    fn by_name(name: &str) -> Option<StoreFault> {
        StoreFault::ALL.iter().copied().find(|fault| fault.name() == name)
    }

    /// The registry name of the good store behind it: one that processes share for what only a
    /// second process can see.
    pub const fn base(self) -> &'static str {
        use StoreFault::*;
        match self {
            LockOutlivesHolder | LostUpdates | StealsFromLiving | TornByCrash => "files",
            _ => "memory",
        }
    }
}
