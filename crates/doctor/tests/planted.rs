//! Planted faults: the doctor finds each, and nothing else, on stores that are sound but for it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "planted/started.rs"]
mod started;

#[path = "planted/host.rs"]
mod host;
#[path = "planted/memcached.rs"]
mod memcached;
#[path = "planted/mysql.rs"]
mod mysql;
#[path = "planted/paths.rs"]
mod paths;
#[path = "planted/php.rs"]
mod php;
#[path = "planted/postgres.rs"]
mod postgres;
#[path = "planted/redis.rs"]
mod redis;
#[path = "planted/sound.rs"]
mod sound;
