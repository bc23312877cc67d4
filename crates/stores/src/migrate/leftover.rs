//! Whether the old store still has sessions.
//!
//! A process looks once a minute. It forgets the old store after two looks in a row that found
//! nothing: workers with the old configuration may still end their requests, and begin sessions
//! there, when the first worker with the new one looks.

use std::time::{Duration, Instant};

use sessile_core::{Filter, Sessions};

use crate::locks::process_local::ProcessLocal;

const BETWEEN_LOOKS: Duration = Duration::from_secs(60);
/// Pages without a session that a look follows.
const PAGES_MAX: usize = 20;

#[derive(Default)]
pub struct Leftover(ProcessLocal<Looks>);

#[derive(Clone, Copy, Default)]
struct Looks {
    last: Option<Instant>,
    was_empty: bool,
    is_over: bool,
}

impl Leftover {
    /// True once nothing is left; then it stays true in this process.
    pub fn is_none(&self, from: &Sessions) -> bool {
        let now = Instant::now();
        let due = self.0.with(|looks| {
            let due = looks.last.is_none_or(|last| now - last >= BETWEEN_LOOKS);
            if due {
                looks.last = Some(now);
            }
            (looks.is_over, due && !looks.is_over)
        });
        let Some((is_over, true)) = due else { return due.is_some_and(|(is_over, _)| is_over) };
        let is_empty = is_empty(from);
        let over = self.0.with(|looks| {
            looks.is_over |= is_empty && looks.was_empty;
            looks.was_empty = is_empty;
            looks.is_over
        });
        let over = over.unwrap_or(is_over);
        if over {
            log::info!("nothing is left in {}: use the new store alone", from.label());
        }
        over
    }
}

/// A store that cannot be listed in a few pages, or fails, may have sessions.
fn is_empty(from: &Sessions) -> bool {
    let mut cursor = None;
    for _ in 0..PAGES_MAX {
        match from.list(cursor.as_ref(), &Filter::default()) {
            Ok(page) if page.entries.is_empty() && page.next.is_none() => return true,
            Ok(page) if page.entries.is_empty() => cursor = page.next,
            _ => return false,
        }
    }
    false
}
