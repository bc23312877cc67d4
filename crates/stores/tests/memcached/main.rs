//! What is particular to `memcached:`; the contract itself is tested by the conformance suite.

#![cfg(feature = "memcached")]

#[cfg(test)]
mod failures;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod round_trips;
#[cfg(test)]
mod setup;
#[cfg(test)]
mod several;
