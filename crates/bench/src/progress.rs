//! A line of progress on a terminal; nothing elsewhere.

use std::fmt::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::all::SeriesPosition;

pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// `position`: the place of the experiment in a series.
    pub(crate) fn new(position: Option<SeriesPosition>) -> Progress {
        // Draws on standard error if that is a terminal; figures go to standard output.
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let Ok(style) =
            ProgressStyle::with_template("[{elapsed}] {series}{bar:24} {pos}/{len} {msg}")
        else {
            return Progress(bar);
        };
        let series = move |state: &ProgressState, line: &mut dyn Write| {
            if let Some(position) = &position {
                // A failure to draw is ignored.
                let _ = line.write_str(&position_text(position, state.elapsed()));
            }
        };
        bar.set_style(style.with_key("series", series));
        Progress(bar)
    }

    pub(crate) fn expect_more(&self, steps: usize) {
        self.0.inc_length(steps as u64);
    }

    pub(crate) fn set_message(&self, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.tick();
    }

    pub(crate) fn advance(&self) {
        self.0.inc(1);
    }

    /// Hides the line while `what` prints.
    pub(crate) fn suspend(&self, what: impl FnOnce()) {
        self.0.suspend(what);
    }
}

/// `3 of 8 contention, about 12 min left `.
fn position_text(
    SeriesPosition { title, number, of, left }: &SeriesPosition,
    elapsed: Duration,
) -> String {
    let left = left.saturating_sub(elapsed).as_secs();
    let left = if left < 60 {
        "less than a minute".to_owned()
    } else {
        format!("about {} min", left.div_ceil(60))
    };
    format!("{number} of {of} {title}, {left} left ")
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
