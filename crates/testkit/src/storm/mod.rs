//! The kill storm: processes that work on one store, die and stop at random instructions, and a checker that
//! believes none of them.
//!
//! Reading order: `event` (what is reported before and after each call), `work` (what a process does),
//! `history` (when a read is legal), `checker` (all sessions and processes), `crew` (who is killed and
//! stopped, and when), `prober` (is the lock of a dead holder free?), `run` (all of it, and the verdict).
//! `stop_one` asks another question: does one stopped process stall the sessions of the others?
//!
//! The checker knows only what was reported through pipes and what the store answers; it knows nothing of a
//! store's inside, so that it can be wrong about no store in particular.

mod actor;
mod checker;
mod crew;
mod event;
mod history;
mod listener;
mod names;
mod payload;
mod prober;
mod run;
mod space;
mod stop_one;
mod tally;
mod target;
mod verdict;
mod work;

pub use crew::{WORKER_WORD, Weather};
pub use run::{Plan, run};
pub use stop_one::{StopOne, stop_one};
pub use target::Target;
pub use verdict::Verdict;

use std::time::Duration;

use work::{Orders, Pools};

/// The kills and take-overs below which a run of this length proves nothing: 1,000 and 100 in ten minutes.
pub fn least(seconds: f64) -> (u64, u64) {
    let share = seconds / 600.0;
    ((1_000.0 * share).ceil() as u64, (100.0 * share).ceil() as u64)
}

/// Whether this process is a worker; if so, works until it is killed and gives the exit code.
pub fn worked(arguments: &[String]) -> Option<u8> {
    let (word, rest) = arguments.split_first()?;
    if ![WORKER_WORD, stop_one::CYCLER_WORD].contains(&word.as_str()) {
        return None;
    }
    // A worker never outlives the storm, however that ends.
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
    let (url, numbers) = rest.split_first()?;
    let numbers: Vec<u64> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
    let worked = match *numbers.as_slice() {
        [nonce, incarnation, seed, lasting, short, wandering] if word == WORKER_WORD => {
            let pools = Pools { lasting, short, wandering };
            work::work(&Orders { url: url.clone(), nonce, incarnation, seed, pools })
        }
        [nonce, number, pace_us] => stop_one::cycle(url, nonce, number, Duration::from_micros(pace_us)),
        _ => {
            eprintln!("the orders of a worker are malformed");
            return Some(2);
        }
    };
    match worked {
        Ok(()) => Some(0),
        Err(error) => {
            eprintln!("a worker cannot work: {error:#}");
            Some(3)
        }
    }
}
