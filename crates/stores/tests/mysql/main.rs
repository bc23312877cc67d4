//! What is particular to `mysql:`; the contract itself is tested by the conformance suite.

#![cfg(feature = "mysql")]

#[cfg(test)]
mod crashes;
#[cfg(test)]
mod galera;
#[cfg(test)]
mod hosts;
#[cfg(test)]
mod impostor;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod locks;
#[cfg(test)]
mod owners;
#[cfg(test)]
mod prepared;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod round_trips;
#[cfg(test)]
mod setup;
#[cfg(test)]
mod transactions;
#[cfg(test)]
mod waits;
