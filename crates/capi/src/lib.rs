//! The C interface: stores, leases and records for handlers in other languages.
//!
//! Invariants: no panic crosses it (it becomes [`sessile_code::SESSILE_PANIC`]); each pointer that
//! it returns is freed by exactly one function, which its comment names; errors are text in the
//! caller's memory. It has no logic: the rules are those of `sessile_core::Sessions` and
//! `sessile_handler::Request`.
//!
//! A test compares `include/sessile.h` with these files. The rules that its first comment states
//! (cbindgen.toml) are the safety conditions of every function.

#![deny(unsafe_code)]
#![allow(
    unsafe_code,
    reason = "every function here is called from C: \
              docs/decisions/0015-unsafe-in-the-c-interface.md"
)]
#![allow(
    clippy::missing_safety_doc,
    reason = "the rules in the first comment of the header hold for every function"
)]
#![allow(non_camel_case_types, reason = "the names are those of the C header")]

mod call;
mod error;
mod lease;
mod logging;
mod request;
mod store;
mod types;

pub use {error::*, lease::*, logging::*, request::*, store::*, types::*};
