//! A line of progress on a terminal; nothing elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::all::SeriesPosition;

pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// `position`: the place of the experiment in a series.
    pub(crate) fn new(position: Option<SeriesPosition>) -> Progress {
        // Draws on standard error if that is a terminal; figures go to standard output.
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let Ok(style) =
            ProgressStyle::with_template("[{elapsed}] {prefix}{bar:24} {pos}/{len} {msg}")
        else {
            return Progress(bar);
        };
        bar.set_style(style);
        // `3 of 8 contention`.
        if let Some(SeriesPosition { title, number, of }) = position {
            bar.set_prefix(format!("{number} of {of} {title} "));
        }
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

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
