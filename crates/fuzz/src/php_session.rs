//! Payloads of PHP's serialisers, merged.

use sessile_handler::Format;
use sessile_handler::fuzzing::merged;

/// Bytes as three payloads: what a request has read, what it saves, and what another one has
/// stored. Without a change of one side the merge is the other.
pub fn php_session(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let format = if choice & 1 == 0 { Format::Php } else { Format::PhpSerialize };
    let mut parts = data.split(|byte| *byte == 0xff);
    let mut part = || parts.next().unwrap_or_default();
    let (base, mine, theirs) = (part(), part(), part());
    if let Some(merged) = merged(format, base, mine, theirs) {
        // What was split can be split again.
        assert!(self::merged(format, &merged, &merged, &merged).is_some());
    }
    for other in [mine, theirs] {
        assert_is(format, merged(format, base, other, base), other);
        assert_is(format, merged(format, base, base, other), other);
    }
}

fn assert_is(format: Format, found: Option<Vec<u8>>, expected: &[u8]) {
    let Some(found) = found else { return };
    let canonical = merged(format, expected, expected, expected);
    assert_eq!(Some(found), canonical, "of {}", expected.escape_ascii());
}
