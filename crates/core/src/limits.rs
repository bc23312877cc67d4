//! A limit on everything, in one place.
//!
//! The constants are the outer bounds that no store may exceed; [`Limits`] are the bounds in force for
//! one opened store, which may be narrower (an item limit read from a server, an option in the URL).

use std::time::Duration;

/// The bounds in force for one opened store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest payload in bytes; above it a save is refused with `TooLarge` and the old payload stays.
    pub payload_bytes_max: u64,
    /// Longest id in bytes.
    pub id_bytes_max: usize,
}

impl Limits {
    /// Longest session id in bytes that any store takes; PHP's own limit is the same.
    pub const ID_BYTES_MAX: usize = 256;
    /// Longest bin name in bytes.
    pub const BIN_BYTES_MAX: usize = 32;
    /// Largest payload in bytes unless the URL says otherwise (`payload_bytes_max=`).
    pub const PAYLOAD_BYTES_MAX_DEFAULT: u64 = 64 << 20;
    /// Longest time to live: ten years. Longer ones are mistakes of unit.
    pub const TTL_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);
    /// Longest wait for a session lock. A request that waits longer has lost its visitor.
    pub const WAIT_MAX: Duration = Duration::from_secs(3_600);
    /// Longest grace after a regeneration: parallel requests of one page end within minutes.
    pub const GRACE_MAX: Duration = Duration::from_secs(600);
    /// How long a destroyed or spent id is remembered at least, so that its use can be refused and told.
    pub const TOMBSTONE_TTL: Duration = Duration::from_secs(3_600);
    /// Most entries of one page of a listing.
    pub const PAGE_ENTRIES_MAX: usize = 10_000;
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { payload_bytes_max: Limits::PAYLOAD_BYTES_MAX_DEFAULT, id_bytes_max: Limits::ID_BYTES_MAX }
    }
}
