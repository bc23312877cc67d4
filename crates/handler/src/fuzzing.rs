//! Access for the fuzz targets to private functions.

use crate::Format;
use crate::format::merge_payloads;
use crate::merge::Removals;

/// Three payloads merged; `None` if one of them cannot be split.
pub fn merged(format: Format, base: &[u8], mine: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
    Some(merge_payloads(format, [base, mine, theirs], Removals::Lose)?.0)
}
