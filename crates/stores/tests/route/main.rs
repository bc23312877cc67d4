//! What is particular to `route:`; the contract itself is tested by the conformance suite, over
//! several pairs.

#![cfg(all(feature = "route", feature = "memory", feature = "memcached"))]

#[cfg(test)]
mod bins;
#[cfg(test)]
mod crashes;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod lives;
#[cfg(test)]
mod setup;
#[cfg(test)]
mod stubs;
