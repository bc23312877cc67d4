//! A private cluster, a private set of sentinels, and stores on them.

#[path = "../support/mod.rs"]
pub mod support;

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sessile_core::{Result, Sessions};
use sessile_fixtures::{RedisCluster, RedisSentinels, StartError};
use sessile_stores::Context;

pub use self::support::patience::until;
pub use self::support::{key, payload_of, ttl};

pub const WAIT: Duration = Duration::from_secs(60);

/// Shorter than in production, so that failovers take seconds.
pub const FAILOVER_MS: u32 = 1_000;
/// Nothing fails over because the machine is busy.
pub const CALM_MS: u32 = 15_000;

/// Six servers at a time are enough.
static MACHINE: Mutex<()> = Mutex::new(());

/// Servers, while no other test of this program runs.
pub struct Alone<T> {
    servers: T,
    _turn: MutexGuard<'static, ()>,
}

impl<T> Deref for Alone<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.servers
    }
}

impl<T> DerefMut for Alone<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.servers
    }
}

/// Starts servers, and holds the turn of this program as long as they live.
pub fn or_skip<T>(start: impl FnOnce() -> std::result::Result<T, StartError>) -> Option<Alone<T>> {
    let turn = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    match start() {
        Ok(servers) => Some(Alone { servers, _turn: turn }),
        Err(error @ StartError::Missing { .. }) if std::env::var_os("CI").is_none() => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Three primaries with a replica each.
pub fn cluster() -> Option<Alone<RedisCluster>> {
    or_skip(|| RedisCluster::start(3, CALM_MS))
}

/// As [`cluster`], whose replicas take over soon.
pub fn failing_cluster() -> Option<Alone<RedisCluster>> {
    or_skip(|| RedisCluster::start(3, FAILOVER_MS))
}

pub fn sentinels() -> Option<Alone<RedisSentinels>> {
    or_skip(|| RedisSentinels::start(FAILOVER_MS))
}

pub fn open(url: &str) -> Sessions {
    sessile_stores::open(url, &Context::default()).unwrap()
}

/// Adds one to the number in a session. `Ok` if that was acknowledged.
pub fn increment(store: &Sessions, id: &str) -> Result<u64> {
    let begun = store.begin(&key(id), WAIT)?;
    let fence = begun.lease.fence();
    let number = number_of(begun.record.map(|record| record.payload));
    begun.lease.commit(&(number + 1).to_le_bytes(), ttl())?;
    Ok(fence)
}

pub fn number_of(payload: Option<Vec<u8>>) -> u64 {
    payload.map_or(0, |payload| u64::from_le_bytes(payload.try_into().unwrap()))
}
