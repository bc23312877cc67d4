//! Output: results on standard output, progress on standard error if it is a terminal.

use std::io::{ErrorKind, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use crate::command_result::{CommandFailure, CommandResult};

/// Prints a result. A closed pipe (`| head`) is no failure.
pub fn print(text: &str) -> CommandResult {
    print_unless_closed(text).map(drop)
}

/// Prints a result as JSON, or for people.
pub fn print_as(
    is_json: bool,
    json: impl FnOnce() -> Value,
    text: impl FnOnce() -> String,
) -> CommandResult {
    print(&if is_json { format!("{:#}\n", json()) } else { text() })
}

/// As `print`; false if nobody reads any more.
pub fn print_unless_closed(text: &str) -> Result<bool, CommandFailure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            Err(CommandFailure::unavailable(format!("cannot write to standard output: {error}")))
        }
    }
}

/// A bar with rate and time left, or with the rate alone if the total is unknown; silent if
/// standard error is not a terminal.
pub fn bar(total: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    let template = match total {
        Some(_) => "[{elapsed}] {wide_bar} {human_pos} of {human_len}, {per_sec}, {eta} left",
        None => "[{elapsed}] {spinner} {human_pos}, {per_sec}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// A spinner with a message; silent if standard error is not a terminal.
pub struct Spinner(ProgressBar);

impl Spinner {
    pub fn new() -> Spinner {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("[{elapsed}] {spinner} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Spinner(bar)
    }

    pub fn set_message(&self, what: String) {
        self.0.set_message(what);
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
