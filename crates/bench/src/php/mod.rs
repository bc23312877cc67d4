//! The session handlers of PHP, as contenders: what there is, what of it this machine has, and how it is configured.
//!
//! Not here: what is measured with them. They live in PHP's own processes, so no worker of ours opens them.

mod handler;
mod installation;
mod versions;

pub use handler::{HANDLERS, Handler, locks};
pub(crate) use handler::{SESSILE, named};
pub(crate) use installation::{Installation, MODULE_VARIABLE};
pub(crate) use versions::versions;
