//! Payloads and their verification.
//!
//! A payload is the number of its session, a counter, and a body: a window into one random text
//! that all workers derive from the seed. Session and counter determine the window. So payloads
//! differ, nothing is generated in the timed loop, and every byte of every hit is verified. Each
//! commit adds one to the counter, so the sum of counters shows how many acknowledged updates were
//! lost.

use crate::worker::protocol::OpenRequest;

/// Session number and counter, little-endian.
const HEADER_BYTES: usize = 16;
/// Smallest payload: a header, and enough body to detect a torn payload.
pub(crate) const PAYLOAD_BYTES_MIN: usize = 32;
/// Number of windows, a power of two. The text fits into a level 2 cache.
const WINDOWS: usize = 1 << 14;

pub(crate) struct Payloads {
    text: Vec<u8>,
    payload_bytes: usize,
    /// The size of each session; empty if all have one.
    sizes: Vec<u32>,
}

impl Payloads {
    /// For as many sessions as there are ids; with a fixed size, for any number.
    pub(crate) fn new(opening: &OpenRequest) -> Payloads {
        let (seed, payload_bytes) = (opening.seed, opening.payload_bytes);
        let sizes = opening.spread.sizes(seed, opening.ids);
        let body_bytes = opening.spread.largest(payload_bytes).saturating_sub(HEADER_BYTES);
        let mut random = fastrand::Rng::with_seed(seed);
        let text = std::iter::repeat_with(|| u8::try_from(random.alphanumeric()).unwrap_or(b'x'));
        Payloads { text: text.take(WINDOWS + body_bytes).collect(), payload_bytes, sizes }
    }

    fn body_bytes(&self, session: u64) -> usize {
        let size = usize::try_from(session).ok().and_then(|session| self.sizes.get(session));
        size.map_or(self.payload_bytes, |size| *size as usize).saturating_sub(HEADER_BYTES)
    }

    fn body(&self, session: u64, counter: u64) -> &[u8] {
        // Fibonacci hashing spreads neighbours over all windows; the top bits are the best.
        let mixed = (session ^ counter.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let window = usize::try_from(mixed >> (64 - WINDOWS.ilog2())).unwrap_or(0);
        self.text.get(window..window + self.body_bytes(session)).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn compose(&self, session: u64, counter: u64, into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(&session.to_le_bytes());
        into.extend_from_slice(&counter.to_le_bytes());
        into.extend_from_slice(self.body(session, counter));
    }

    /// The counter of a payload, if it is exactly what was written for this session.
    #[inline]
    pub(crate) fn check(&self, session: u64, payload: &[u8]) -> Option<u64> {
        let (number, rest) = payload.split_first_chunk::<8>()?;
        let (counter, body) = rest.split_first_chunk::<8>()?;
        let counter = u64::from_le_bytes(*counter);
        let intact = u64::from_le_bytes(*number) == session && body == self.body(session, counter);
        intact.then_some(counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload_spread::PayloadSpread;
    use crate::worker::protocol::ContenderSpec;
    use std::time::Duration;

    fn payloads(payload_bytes: usize, spread: PayloadSpread) -> Payloads {
        let what = ContenderSpec::Store { url: String::new(), reconnects: false };
        Payloads::new(&OpenRequest {
            contender: what,
            worker: 0,
            seed: 7,
            ids: 1_000,
            payload_bytes,
            spread,
            ttl: Duration::MAX,
            lock_ttl: None,
        })
    }

    #[test]
    fn a_foreign_torn_or_short_payload_is_not_accepted() {
        let payloads = payloads(1_500, PayloadSpread::Fixed);
        let (mut old, mut new) = (Vec::new(), Vec::new());
        payloads.compose(3, 10, &mut old);
        payloads.compose(3, 11, &mut new);
        assert_eq!(new.len(), 1_500);
        assert_eq!(payloads.check(3, &new), Some(11));
        assert_eq!(payloads.check(4, &new), None, "another session's payload");
        let torn: Vec<u8> = new[..700].iter().chain(&old[700..]).copied().collect();
        assert_eq!(payloads.check(3, &torn), None, "half new, half old");
        assert_eq!(payloads.check(3, &new[..1_499]), None, "cut");
        assert_eq!(payloads.check(3, b""), None);
    }

    #[test]
    fn neighbouring_sessions_and_counters_have_different_bodies() {
        let payloads = payloads(100, PayloadSpread::Fixed);
        let bodies: std::collections::BTreeSet<&[u8]> = (0..50)
            .flat_map(|session| (0..4).map(move |counter| (session, counter)))
            .map(|(session, counter)| payloads.body(session, counter))
            .collect();
        assert!(bodies.len() > 190, "{} of 200 differ", bodies.len());
    }

    #[test]
    fn where_sizes_differ_a_session_keeps_its_own() {
        let payloads = payloads(1_500, PayloadSpread::LogNormal);
        let mut buffer = Vec::new();
        let mut size = |session, counter| {
            payloads.compose(session, counter, &mut buffer);
            assert_eq!(payloads.check(session, &buffer), Some(counter));
            assert_eq!(payloads.check(session, &buffer[..buffer.len() - 1]), None, "cut");
            buffer.len()
        };
        let sizes: Vec<usize> = (0..1_000).map(|session| size(session, 0)).collect();
        assert!((0..1_000).all(|session| size(session, 9) == sizes[session as usize]));
        assert!(sizes.iter().max() > Some(&20_000) && sizes.iter().min() < Some(&100), "{sizes:?}");
    }
}
