//! What is particular to `postgres:`; the contract itself is tested by the conformance suite.

#![cfg(feature = "postgres")]

#[cfg(test)]
mod connections;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod impostor;
#[cfg(test)]
mod owners;
#[cfg(test)]
mod pgbouncer;
#[cfg(test)]
mod pretence;
#[cfg(test)]
mod protocol;
#[cfg(test)]
mod races;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod setup;
#[cfg(test)]
mod standby;
