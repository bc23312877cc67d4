//! What a verb prints: results on standard output, progress on standard error if that is a terminal.

use std::io::{ErrorKind, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::outcome::{Failure, Outcome};

/// Prints a result. A reader that has seen enough (`| head`) is no failure.
pub fn print(text: &str) -> Outcome {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::unavailable(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// A line that moves while something of unknown length goes on; nothing where standard error is no terminal.
pub struct Progress(ProgressBar);

impl Progress {
    /// Begins.
    pub fn new() -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("[{elapsed}] {spinner} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(bar)
    }

    /// Says how far it is.
    pub fn say(&self, what: String) {
        self.0.set_message(what);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
