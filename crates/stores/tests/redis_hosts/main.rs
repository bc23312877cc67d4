//! What is particular to `redis+cluster:` and `redis+sentinel:`: slots that move, primaries that
//! die, ids in two slots. The contract itself is tested by the conformance suite.

#![cfg(feature = "redis")]

#[cfg(test)]
mod cluster;
#[cfg(test)]
mod deaths;
#[cfg(test)]
mod failovers;
#[cfg(test)]
mod measure;
#[cfg(test)]
mod observe;
#[cfg(test)]
mod partition;
#[cfg(test)]
mod sentinel;
#[cfg(test)]
mod setup;
#[cfg(test)]
mod tls;
