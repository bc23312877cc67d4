//! Connections to servers: what a URL says of the way there, and how requests share connections.

#![cfg_attr(not(feature = "default"), allow(dead_code, reason = "some stores are left out"))]

pub(crate) mod failure;
mod idle;
pub(crate) mod key_value;
pub(crate) mod options;
pub(crate) mod pool;
pub(crate) mod retry;
pub(crate) mod stream;
#[cfg(feature = "tls")]
pub(crate) mod tls;
