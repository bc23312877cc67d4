//! `sessile-storm`: kills and stops processes that work on one store, and checks what is left.
//!
//! This program is also its own worker. It needs no privileges, only the right to signal its own
//! children.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use sessile_testkit::Failure;
use sessile_testkit::storm::{self, StormOptions, StormTarget};

/// Kills and stops processes that work on one store, and checks that nothing acknowledged is lost
#[derive(Debug, Parser)]
#[command(name = "sessile-storm", version, after_help = EXIT_CODES, max_term_width = 100)]
struct Arguments {
    /// A fixture (files#shm) or a store URL; a URL is left as empty as it was found [default:
    /// sessile, or files#shm]
    #[arg(long, value_name = "NAME|URL")]
    url: Option<String>,
    /// Length of the storm in seconds
    #[arg(long, default_value_t = 600.0, value_name = "S", value_parser = seconds)]
    seconds: f64,
    /// Worker processes at any time
    #[arg(long, default_value_t = 8, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    processes: u16,
    /// Kills a second, on average
    #[arg(long, default_value_t = 5.0, value_name = "N", value_parser = rate)]
    kills: f64,
    /// Stops (SIGSTOP, then SIGCONT) a second, on average
    #[arg(long, default_value_t = 5.0, value_name = "N", value_parser = rate)]
    stops: f64,
    /// Longest time in milliseconds for which a lock may stay taken after its holder's death
    #[arg(long, default_value_t = 200, value_name = "MS")]
    stuck_ms: u64,
    /// Seed of all choices; what the kernel makes of them differs from run to run [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Instead of a storm: stop one process for this many seconds, three times, and time the others
    #[arg(long, value_name = "S", value_parser = seconds)]
    #[arg(conflicts_with_all = ["kills", "stops", "seconds", "stuck_ms"])]
    stop_one: Option<f64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Stops of one process in the mode of that name.
const STOPS: usize = 3;

const EXIT_CODES: &str = "\
Exit codes:
  0  passed
  1  a violation was found, or others were stalled by a stopped process
  2  usage
  3  the storm could not be run
  4  void: fewer than 1,000 kills and 100 take-overs in ten minutes, or in proportion";

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = storm::run_as_worker(&given) {
        return ExitCode::from(code);
    }
    match run(&Arguments::parse()) {
        Ok(code) => ExitCode::from(code),
        Err(Failure(why)) => {
            eprintln!("sessile-storm: {why}");
            ExitCode::from(3)
        }
    }
}

fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let name = arguments.url.as_deref().unwrap_or(StormTarget::default_name());
    let target = StormTarget::parse(name)?;
    let (program, processes) = (std::env::current_exe()?, arguments.processes.into());
    let (json, text, code) = if let Some(stop_seconds) = arguments.stop_one {
        let report = storm::stop_one(&program, &target, processes, stop_seconds, STOPS)?;
        (report.json(), report.to_string(), report.exit_code())
    } else {
        let options = StormOptions {
            program,
            seconds: arguments.seconds,
            seed: arguments.seed.unwrap_or_else(|| fastrand::u64(..)),
            processes,
            kills_per_second: arguments.kills,
            stops_per_second: arguments.stops,
            stuck_ms_max: arguments.stuck_ms,
        };
        let report = storm::run(&options, &target)?;
        (report.json(), report.to_string(), report.exit_code())
    };
    println!("{}", if arguments.json { format!("{json:#}") } else { text });
    Ok(code)
}

fn seconds(text: &str) -> Result<f64, String> {
    in_range(text, 0.5, 86_400.0)
}

fn rate(text: &str) -> Result<f64, String> {
    in_range(text, 0.0, 1_000.0)
}

fn in_range(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("a number from {least} to {most} is wanted"))
}
