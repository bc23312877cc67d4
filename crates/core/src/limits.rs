//! All limits.
//!
//! The constants are the outer bounds for all stores. [`Limits`] are the bounds in force for one
//! opened store, which may be narrower (an item limit of a server, a URL option).

use std::time::Duration;

/// The bounds in force for one opened store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest payload in bytes. A larger save is refused with `TooLarge`, and the old payload
    /// stays.
    pub payload_bytes_max: u64,
    /// Longest id in bytes.
    pub id_bytes_max: usize,
}

impl Limits {
    /// Longest session id in bytes; PHP's limit is the same.
    pub const ID_BYTES_MAX: usize = 256;
    /// Longest bin name in bytes.
    pub const BIN_BYTES_MAX: usize = 32;
    /// Longest name of an owner in bytes.
    pub const OWNER_BYTES_MAX: usize = 255;
    /// Largest payload in bytes without the URL option `payload_bytes_max`.
    pub const PAYLOAD_BYTES_MAX_DEFAULT: u64 = 64 << 20;
    /// Longest time to live: ten years. A longer one is a mistake of unit.
    pub const TTL_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);
    /// Longest wait for a session lock. A request that waits longer has lost its visitor.
    pub const WAIT_MAX: Duration = Duration::from_secs(3_600);
    /// Longest grace after a regeneration: parallel requests of one page end within minutes.
    pub const GRACE_MAX: Duration = Duration::from_secs(600);
    /// Shortest memory of a destroyed or spent id, so that its use is refused and reported.
    pub const TOMBSTONE_TTL: Duration = Duration::from_secs(3_600);
    /// Most steps from a regenerated id to the id that has the session.
    pub const ALIAS_STEPS_MAX: usize = 16;
    /// Most entries of one page of a listing.
    pub const PAGE_ENTRIES_MAX: usize = 10_000;
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            payload_bytes_max: Limits::PAYLOAD_BYTES_MAX_DEFAULT,
            id_bytes_max: Limits::ID_BYTES_MAX,
        }
    }
}
