//! Constants of the workload that are the same for every contender and experiment.

use std::time::Duration;

/// Time to live of the sessions: PHP's default.
pub(crate) const SESSION_TTL: Duration = Duration::from_secs(1_440);
/// Time to live where a run is long: a day. Nothing may expire that nobody asked to expire.
pub(crate) const LONG_TTL: Duration = Duration::from_secs(86_400);
/// How long a lock of a killed holder lasts in `faults`, where it ends with time: the usual minute would take hours.
pub(crate) const FAULTS_LOCK_TTL: Duration = Duration::from_secs(2);
/// Longest wait for a lock. A begin that waits longer is an error of the row.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(10);
/// Random characters in a session, as in the hoster's benchmark that `ops` repeats.
pub(crate) const PAYLOAD_BYTES: usize = 1_500;
/// What the cache entry of `rebuild` takes: twice memcached's limit.
pub(crate) const REGISTRY_BYTES: usize = 2 << 20;
/// Largest payload that is offered for measurement: the default limit of every store.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 64 << 20;
