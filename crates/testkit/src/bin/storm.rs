//! `sessile-storm`: kills and stops processes that work on one store, and checks what is left.
//!
//! This program is also its own worker. It needs no privileges, only the right to signal its own children.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use sessile_testkit::Failure;
use sessile_testkit::storm::{self, Plan, Target, Weather};

/// Kills and stops processes that work on one store, and checks that nothing acknowledged is lost
#[derive(Debug, Parser)]
#[command(name = "sessile-storm", version, after_help = EXIT_CODES, max_term_width = 100)]
struct Arguments {
    /// A fixture (files#shm) or a store URL; a URL is left as empty as it was found [default: sessile, or files#shm]
    #[arg(long, value_name = "NAME|URL")]
    url: Option<String>,
    /// Length of the storm in seconds
    #[arg(long, default_value_t = 600.0, value_name = "S", value_parser = seconds)]
    seconds: f64,
    /// Worker processes at any time
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
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
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with_all = ["kills", "stops", "seconds", "stuck_ms"])]
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
    if let Some(code) = storm::worked(&given) {
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
    let target = Target::of(arguments.url.as_deref().unwrap_or(Target::default_name()))?;
    if let Some(stop_seconds) = arguments.stop_one {
        let program = std::env::current_exe()?;
        let result = storm::stop_one(&program, &target, arguments.processes.into(), stop_seconds, STOPS)?;
        println!("{}", if arguments.json { format!("{:#}", result.json()) } else { result.to_string() });
        return Ok(result.exit_code());
    }
    let plan = Plan {
        program: std::env::current_exe()?,
        seconds: arguments.seconds,
        seed: arguments.seed.unwrap_or_else(|| fastrand::u64(..)),
        weather: Weather {
            processes: arguments.processes.into(),
            kills_per_second: arguments.kills,
            stops_per_second: arguments.stops,
        },
        stuck_ms_max: arguments.stuck_ms,
        least: storm::least(arguments.seconds),
    };
    let verdict = storm::run(&plan, &target)?;
    if arguments.json {
        println!("{:#}", verdict.json());
    } else {
        println!("{verdict}");
    }
    Ok(verdict.exit_code())
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
