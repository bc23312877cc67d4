//! `migrate:`: sessions move from the old store to the new one when they are used, and none is
//! lost, logged out or brought back on the way.

#![cfg(all(feature = "migrate", feature = "sqlite", feature = "memory", feature = "redis"))]

#[cfg(test)]
mod moves;
#[cfg(test)]
mod php_redis;
#[cfg(test)]
mod php_redis_back;
#[cfg(test)]
mod php_redis_names;
#[cfg(test)]
mod php_redis_replaced;
#[cfg(test)]
mod races;
#[cfg(test)]
mod setup;
#[cfg(test)]
mod turning_round;
