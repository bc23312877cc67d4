//! What sessions hold, and whether what was read is that.
//!
//! A value begins with the number of its session and of its generation, which grows with each write, and goes on with a window
//! into a random text, chosen by both and by the value's name. All of it exists before anything is timed.

use crate::perl::VALUES;

/// Ten values of so many bytes that no two sessions and generations have the same.
pub(crate) const PAYLOAD_BYTES_MIN: usize = 20 * VALUES;
/// Number of different windows.
const WINDOWS: usize = 1 << 14;

/// Composes values.
pub(super) struct Values {
    text: String,
    bytes: usize,
}

/// Sessions that were not what they had to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wrong {
    /// Nothing was in them.
    pub missing: u64,
    /// Something else was in them.
    pub other: u64,
}

impl Values {
    /// Ten of them are a payload.
    pub(super) fn new(seed: u64, payload_bytes: usize) -> Values {
        let bytes = payload_bytes / VALUES;
        let mut random = fastrand::Rng::with_seed(seed);
        Values { text: std::iter::repeat_with(|| random.alphanumeric()).take(WINDOWS + bytes).collect(), bytes }
    }

    /// Those of the first sessions, ten for each.
    pub(super) fn of(&self, sessions: usize, generation: usize) -> Vec<String> {
        let names = |session| (0..VALUES).map(move |name| (session, name));
        (0..sessions).flat_map(names).map(|(session, name)| self.value(session, name, generation)).collect()
    }

    fn value(&self, session: usize, name: usize, generation: usize) -> String {
        let head = format!("{session}.{generation}.");
        // An odd multiplier spreads neighbours over all windows (Fibonacci hashing); the top bits are the best.
        let mixed = ((session * VALUES + name) as u64 ^ (generation as u64).rotate_left(32))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let window = usize::try_from(mixed >> (64 - WINDOWS.ilog2())).unwrap_or(0);
        let body = self.text.get(window..window + self.bytes.saturating_sub(head.len())).unwrap_or_default();
        head + body
    }
}

impl Wrong {
    /// Compares what was read of sessions with what must be there, ten values for each.
    pub(super) fn among(read: &[Option<String>], expected: Option<&[String]>) -> Wrong {
        let mut wrong = Wrong::default();
        for (number, values) in read.chunks(VALUES).enumerate() {
            let wanted = |name: usize| expected.and_then(|all| all.get(number * VALUES + name));
            if values.iter().enumerate().all(|(name, value)| value.as_ref() == wanted(name)) {
                continue;
            }
            let empty = values.iter().all(Option::is_none);
            *if empty { &mut wrong.missing } else { &mut wrong.other } += 1;
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_differ_by_session_name_and_generation_and_have_their_length() {
        let values = Values::new(3, PAYLOAD_BYTES_MIN);
        let (first, second) = (values.of(500, 0), values.of(500, 1));
        let mut all: Vec<&String> = first.iter().chain(&second).collect();
        assert!(all.iter().all(|value| value.len() == PAYLOAD_BYTES_MIN / VALUES));
        all.sort();
        all.dedup();
        // Two names of one session and generation may have the same window, rarely.
        assert!(all.len() > 9_950, "{}", all.len());
        assert!(values.of(100_000, 999).iter().all(|value| value.len() == PAYLOAD_BYTES_MIN / VALUES));
    }

    #[test]
    fn one_wrong_value_is_another_session_and_none_at_all_a_missing_one() {
        let written = Values::new(3, 500).of(3, 1);
        let mut read: Vec<Option<String>> = written.iter().cloned().map(Some).collect();
        assert_eq!(Wrong::among(&read, Some(&written)), Wrong::default());
        read[7] = None;
        assert_eq!(Wrong::among(&read, Some(&written)), Wrong { missing: 0, other: 1 });
        read[10..20].fill(None);
        read[20] = Some("foreign".to_owned());
        assert_eq!(Wrong::among(&read, Some(&written)), Wrong { missing: 1, other: 2 });
        assert_eq!(Wrong::among(&vec![None; 20], None), Wrong::default());
        assert_eq!(Wrong::among(&read[..10], None), Wrong { missing: 0, other: 1 });
    }
}
