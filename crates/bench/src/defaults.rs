//! Constants that are the same for every contender and experiment.

use std::time::Duration;

/// PHP's default ttl.
pub(crate) const SESSION_TTL: Duration = Duration::from_secs(1_440);
/// Ttl for long runs, in which nothing may expire unasked.
pub(crate) const LONG_TTL: Duration = Duration::from_secs(86_400);
/// Lock ttl in `faults`: with the usual minute it would take hours.
pub(crate) const FAULTS_LOCK_TTL: Duration = Duration::from_secs(2);
/// A begin that waits longer is an error.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(10);
/// Random characters in a session, as in the published `ops`.
pub(crate) const PAYLOAD_BYTES: usize = 1_500;
/// The cache entry of `rebuild`: twice memcached's limit.
pub(crate) const REGISTRY_BYTES: usize = 2 << 20;
/// Largest payload offered: the default limit of every store.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 64 << 20;
