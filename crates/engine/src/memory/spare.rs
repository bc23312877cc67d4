//! Memory for payloads that is used again: each thread keeps that of its last payload.
//!
//! A payload is larger than the pieces that allocators keep at hand, and a request needs its memory
//! for microseconds. Nothing depends on it.

use std::cell::Cell;

/// More than almost all sessions have, and little for each thread.
const BYTES_MAX: usize = 64 << 10;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// An empty vector with room for this many bytes.
pub fn take(bytes: usize) -> Vec<u8> {
    let mut spare = SPARE.try_with(Cell::take).unwrap_or_default();
    spare.clear();
    spare.reserve(bytes);
    spare
}

/// Keeps the memory of a payload that was read.
pub fn give(payload: Vec<u8>) {
    if payload.capacity() <= BYTES_MAX {
        // While the thread ends there is no place for it.
        let _ = SPARE.try_with(|spare| spare.set(payload));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_what_was_in_it_is_not_seen() {
        let mut first = take(100);
        first.extend_from_slice(b"secret");
        let place = first.as_ptr();
        give(first);
        let second = take(50);
        assert_eq!((second.as_ptr(), second.len()), (place, 0));
        assert!(take(50).capacity() >= 50, "there is one piece only");
    }

    #[test]
    fn what_is_large_is_not_kept() {
        let large = Vec::with_capacity(BYTES_MAX + 1);
        give(large);
        assert!(take(0).capacity() <= BYTES_MAX);
    }
}
