//! Random bytes for tokens, marks and nonces. Not session ids: applications make those.

use sessile_core::{Error, ErrorKind, Result};

/// Random bytes from the kernel, so that parent and child never draw the same.
pub fn bytes<const BYTES: usize>() -> Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::new(ErrorKind::Io, "the kernel gives no random bytes").source(error)
    })?;
    Ok(bytes)
}
