//! Opens the stores of the registry, and the broken ones, which no production registry knows.
//!
//! `broken-FAULT:URL` is the store of `URL` behind a decorator with that fault.

use sessile_core::{Clock, Error, ErrorKind, Result, Sessions};
use sessile_stores::Context;

use crate::broken::{Broken, Fault};

const PREFIX: &str = "broken-";

/// Opens a store by URL.
///
/// # Errors
///
/// Whatever the registry says; `InvalidUrl` for an unknown fault.
pub fn open(url: &str, clock: Clock) -> Result<Sessions> {
    let Some((fault, inner)) = url.strip_prefix(PREFIX).and_then(|rest| rest.split_once(':')) else {
        return sessile_stores::open(url, &Context { clock });
    };
    let fault = Fault::by_name(fault).ok_or_else(|| Error::new(ErrorKind::InvalidUrl, "unknown fault"))?;
    let inner = sessile_stores::open(inner, &Context { clock: clock.clone() })?;
    Ok(Broken::wrap(fault, inner, clock))
}

/// The URL of a store behind a fault.
pub fn broken_url(fault: Fault, url: &str) -> String {
    format!("{PREFIX}{}:{url}", fault.name())
}
