//! The session handlers of PHP, as contenders: the table, this machine's installation, and
//! versions.
//!
//! Handlers live in PHP's own processes, so our workers do not open them.

mod handler;
mod installation;
mod versions;

pub(crate) use handler::{DRUPAL, MAGENTO_VARIABLE, PHP_MEMCACHED, named};
pub use handler::{HANDLERS, Handler};
pub(crate) use installation::{MODULE_VARIABLE, PhpInstallation};
pub(crate) use versions::versions;
