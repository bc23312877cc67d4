//! One line of progress on a terminal; nothing elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The line.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new() -> Progress {
        // Draws on standard error, and only if that is a terminal: figures go to standard output.
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("[{elapsed}] {bar:24} {pos}/{len} {msg}") {
            bar.set_style(style);
        }
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
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
