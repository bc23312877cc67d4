//! The C interface: opened stores, leases, records, for handlers in other languages.
//!
//! Invariants: no panic crosses it (it becomes [`sessile_code::SESSILE_PANIC`]); each pointer that it hands out is freed
//! by exactly one function, which its comment names; errors are text in memory of the caller, so that none has to be
//! freed. It holds no logic of its own: the rules are those of `sessile_core::Sessions`.
//!
//! `include/sessile.h` is made from these files, and a test compares them.

#![deny(unsafe_code)]
#![allow(
    unsafe_code,
    reason = "every function here is called from C: docs/decisions/0015-unsafe-in-the-c-interface.md"
)]
#![allow(non_camel_case_types, reason = "the names are those of the C header")]

mod call;
mod error;
mod lease;
mod logging;
mod store;
mod types;

pub use error::{SESSILE_MESSAGE_BYTES, sessile_code, sessile_error};
pub use lease::{
    sessile_lease, sessile_lease_commit, sessile_lease_regenerate, sessile_lease_release, sessile_lease_touch,
};
pub use logging::{sessile_level, sessile_log_to, sessile_logger};
pub use store::{
    sessile_begin, sessile_close, sessile_counter, sessile_create, sessile_destroy, sessile_expires_by_itself,
    sessile_label, sessile_open, sessile_peek, sessile_redact, sessile_store, sessile_sweep, sessile_touch,
    sessile_version,
};
pub use types::{
    SESSILE_TTL_MAX_MS, sessile_bytes, sessile_key, sessile_record, sessile_record_free, sessile_swept, sessile_ttl,
};
