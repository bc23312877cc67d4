//! Connections to servers: what a URL says of the way there, and how requests share connections.

#![cfg_attr(not(feature = "default"), allow(dead_code, reason = "some stores are left out"))]

pub mod bounded;
pub mod breaker;
pub mod deadline;
pub mod doubt;
pub mod failure;
pub mod hosts;
mod idle;
pub mod key_value;
pub mod options;
pub mod pool;
mod resolve;
pub mod retry;
pub mod stream;
#[cfg(feature = "tls")]
pub mod tls;
