//! One line of progress on a terminal; nothing elsewhere.

use std::fmt::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::all::Position;

/// The line.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Of an experiment alone, or at its place in a series.
    pub(crate) fn new(position: Option<Position>) -> Progress {
        // Draws on standard error, and only if that is a terminal: figures go to standard output.
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let Ok(style) = ProgressStyle::with_template("[{elapsed}] {series}{bar:24} {pos}/{len} {msg}") else {
            return Progress(bar);
        };
        let series = move |state: &ProgressState, line: &mut dyn Write| {
            if let Some(position) = &position {
                // A line that cannot be drawn is no reason to stop.
                let _ = line.write_str(&in_words(position, state.elapsed()));
            }
        };
        bar.set_style(style.with_key("series", series));
        Progress(bar)
    }

    /// How many more steps there will be.
    pub(crate) fn expect_more(&self, steps: usize) {
        self.0.inc_length(steps as u64);
    }

    pub(crate) fn say(&self, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.tick();
    }

    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    /// Does something that has lines of its own to show.
    pub(crate) fn aside(&self, what: impl FnOnce()) {
        self.0.suspend(what);
    }
}

/// `3 of 8 contention, about 12 min left `.
fn in_words(Position { title, number, of, left }: &Position, elapsed: Duration) -> String {
    let left = left.saturating_sub(elapsed).as_secs();
    let left = if left < 60 { "less than a minute".to_owned() } else { format!("about {} min", left.div_ceil(60)) };
    format!("{number} of {of} {title}, {left} left ")
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
