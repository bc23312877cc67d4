//! Tests that look inside the engine, and what they share.
//!
//! Not here: what a public operation shows, which the tests beside `src` and the conformance suite
//! check.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

#[cfg_attr(sessile_model, allow(dead_code, reason = "models cut no power"))]
pub mod disk;
#[cfg(not(sessile_model))]
mod powercut;
