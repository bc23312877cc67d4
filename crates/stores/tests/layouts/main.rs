//! What other programs keep, as they keep it: everything is seen once, nothing is changed, no id is
//! shown.

#![cfg(all(
    feature = "memcached",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "sqlite"
))]

#[cfg(test)]
mod contents;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod pooled;
#[cfg(test)]
mod setup;
#[cfg(test)]
mod sqlite;
#[cfg(test)]
mod tables;
