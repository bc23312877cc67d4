//! The databases in which tables of other programs may be, and how each is opened for reading.

use sessile_core::{Error, ErrorKind, Result};

use super::table::Rows;
use crate::registry::OptionHelp;
use crate::store_url::StoreUrl;

/// Opens the database that a URL names.
pub(crate) fn open(url: &StoreUrl) -> Result<Box<dyn Rows>> {
    match url.scheme() {
        #[cfg(feature = "sqlite")]
        "sqlite" => crate::sqlite::foreign::open(url),
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" | "mysql+unix" => crate::mysql::foreign::open(url),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" | "postgres+unix" => crate::postgres::foreign::open(url),
        _ => Err(Error::new(ErrorKind::InvalidUrl, "no database of this build has this scheme")),
    }
}

/// The URL options of a connection to the database of a scheme.
pub(crate) fn options(scheme: &str) -> &'static [OptionHelp] {
    match scheme {
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" | "mysql+unix" => crate::mysql::foreign::OPTIONS,
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" | "postgres+unix" => crate::postgres::foreign::OPTIONS,
        _ => &[],
    }
}
