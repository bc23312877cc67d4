//! The formats of payloads that can be split into values, behind one interface.

use crate::merge::{Map, Path, Removals, merge};
use crate::rules::Format;
use crate::{json_format, php_format};

/// A merged payload, and the paths in conflict.
pub(crate) type MergedPayload<'a> = (Vec<u8>, Vec<Path<'a>>);

/// Whether a payload can be split.
pub(crate) fn can_split(format: Format, payload: &[u8]) -> bool {
    match format {
        Format::Php | Format::PhpSerialize => php_format::can_split(format, payload),
        Format::Json => json_format::can_split(payload),
    }
}

/// Applies the changes from `base` to `mine` to `theirs`; `None` if one cannot be split.
pub(crate) fn merge_payloads<'a>(
    format: Format,
    [base, mine, theirs]: [&'a [u8]; 3],
    removals: Removals,
) -> Option<MergedPayload<'a>> {
    match format {
        Format::Php | Format::PhpSerialize => {
            let split = |payload| php_format::split(format, payload);
            let maps = (split(base)?, split(mine)?, split(theirs)?);
            Some(merge_maps(maps, |map| php_format::join(format, map), removals))
        }
        Format::Json => {
            let split = json_format::split;
            let maps = (split(base)?, split(mine)?, split(theirs)?);
            Some(merge_maps(maps, json_format::join, removals))
        }
    }
}

fn merge_maps<'a, L: Clone + PartialEq>(
    (base, mine, theirs): (Map<'a, L>, Map<'a, L>, Map<'a, L>),
    join: impl Fn(&Map<'a, L>) -> Vec<u8>,
    removals: Removals,
) -> MergedPayload<'a> {
    let (map, conflicts) = merge(&base, &mine, &theirs, removals);
    (join(&map), conflicts)
}
