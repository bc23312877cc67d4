//! `sessile top`: a store each second. Changes nothing.

use std::io::IsTerminal;
use std::thread::sleep;
use std::time::{Duration, Instant};

use sessile_core::Clock;
use sessile_watch::{Sample, Sampler, frame};

use crate::arguments::TopArguments;
use crate::command_result::CommandResult;
use crate::existing_store;
use crate::interrupted;
use crate::terminal::print_unless_closed;

const SECOND: Duration = Duration::from_secs(1);
const LOOK_FOR_SIGNAL: Duration = Duration::from_millis(50);
/// To the upper left, and erase all below.
const CLEAR: &str = "\x1b[H\x1b[J";

pub fn run(arguments: &TopArguments) -> CommandResult {
    let store = existing_store::open_to_look(&arguments.url)?;
    let mut sampler = Sampler::new(store, Clock::system());
    interrupted::watch();
    let clear = if std::io::stdout().is_terminal() && !arguments.once { CLEAR } else { "" };
    let mut before: Option<Sample> = None;
    while !interrupted::is_so() {
        let start = Instant::now();
        let sample = sampler.sample();
        let text = frame(&sample, before.as_ref());
        let goes_on = print_unless_closed(&format!("{clear}{text}\n"))?;
        if arguments.once || !goes_on {
            break;
        }
        before = Some(sample);
        while start.elapsed() < SECOND && !interrupted::is_so() {
            sleep(LOOK_FOR_SIGNAL);
        }
    }
    Ok(())
}
