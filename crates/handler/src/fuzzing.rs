//! Access for the fuzz targets to private functions.

use crate::Format;
use crate::merge::{Removals, merge};
use crate::php_format::{join, split};

/// Three payloads merged; `None` if one of them cannot be split.
pub fn merged(format: Format, base: &[u8], mine: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
    let (base, mine, theirs) = (split(format, base)?, split(format, mine)?, split(format, theirs)?);
    Some(join(format, &merge(&base, &mine, &theirs, Removals::Lose).0))
}
