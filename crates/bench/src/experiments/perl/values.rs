//! The values of sessions, and their verification.
//!
//! A value begins with the number of its session and of its generation, which each write increases.
//! The rest is a window into a random text, chosen by both and the value's name. All values exist
//! before anything is timed.

use crate::perl::VALUES;

/// With fewer, two sessions or generations could have the same values.
pub(crate) const PAYLOAD_BYTES_MIN: usize = 20 * VALUES;
const WINDOWS: usize = 1 << 14;

pub(super) struct SessionValues {
    text: String,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WrongSessions {
    /// Empty.
    pub missing: u64,
    /// Not empty.
    pub other: u64,
}

impl SessionValues {
    /// Ten values make a payload.
    pub(super) fn new(seed: u64, payload_bytes: usize) -> SessionValues {
        let bytes = payload_bytes / VALUES;
        let mut random = fastrand::Rng::with_seed(seed);
        SessionValues {
            text: std::iter::repeat_with(|| random.alphanumeric()).take(WINDOWS + bytes).collect(),
            bytes,
        }
    }

    /// Ten values for each of the first sessions.
    pub(super) fn for_sessions(&self, sessions: usize, generation: usize) -> Vec<String> {
        let names = |session| (0..VALUES).map(move |name| (session, name));
        (0..sessions)
            .flat_map(names)
            .map(|(session, name)| self.value(session, name, generation))
            .collect()
    }

    fn value(&self, session: usize, name: usize, generation: usize) -> String {
        let head = format!("{session}.{generation}.");
        // An odd multiplier spreads neighbours over all windows (Fibonacci hashing), the top bits
        // best.
        let mixed = ((session * VALUES + name) as u64 ^ (generation as u64).rotate_left(32))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let window = usize::try_from(mixed >> (64 - WINDOWS.ilog2())).unwrap_or(0);
        let body = self
            .text
            .get(window..window + self.bytes.saturating_sub(head.len()))
            .unwrap_or_default();
        head + body
    }
}

impl WrongSessions {
    /// Both slices have ten values for each session.
    pub(super) fn count(read: &[Option<String>], expected: Option<&[String]>) -> WrongSessions {
        let mut wrong = WrongSessions::default();
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
        let values = SessionValues::new(3, PAYLOAD_BYTES_MIN);
        let (first, second) = (values.for_sessions(500, 0), values.for_sessions(500, 1));
        let mut all: Vec<&String> = first.iter().chain(&second).collect();
        assert!(all.iter().all(|value| value.len() == PAYLOAD_BYTES_MIN / VALUES));
        all.sort();
        all.dedup();
        // Two names of one session and generation may have the same window, rarely.
        assert!(all.len() > 9_950, "{}", all.len());
        assert!(
            values
                .for_sessions(100_000, 999)
                .iter()
                .all(|value| value.len() == PAYLOAD_BYTES_MIN / VALUES)
        );
    }

    #[test]
    fn one_wrong_value_is_another_session_and_none_at_all_a_missing_one() {
        let written = SessionValues::new(3, 500).for_sessions(3, 1);
        let mut read: Vec<Option<String>> = written.iter().cloned().map(Some).collect();
        assert_eq!(WrongSessions::count(&read, Some(&written)), WrongSessions::default());
        read[7] = None;
        assert_eq!(
            WrongSessions::count(&read, Some(&written)),
            WrongSessions { missing: 0, other: 1 }
        );
        read[10..20].fill(None);
        read[20] = Some("foreign".to_owned());
        assert_eq!(
            WrongSessions::count(&read, Some(&written)),
            WrongSessions { missing: 1, other: 2 }
        );
        assert_eq!(WrongSessions::count(&vec![None; 20], None), WrongSessions::default());
        assert_eq!(WrongSessions::count(&read[..10], None), WrongSessions { missing: 0, other: 1 });
    }
}
