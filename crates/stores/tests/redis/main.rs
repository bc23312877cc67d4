//! What is particular to `redis:`; the contract itself is tested by the conformance suite.

#![cfg(feature = "redis")]

#[cfg(test)]
mod failures;
#[cfg(test)]
mod measure;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod protocol;
#[cfg(test)]
mod setup;
