//! The command line, as data: parser, help and completion come from here.

mod all;
mod recommend;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use sessile_bench::{Bound, CycleOp, Spread, Workload};
use sessile_core::{Durability, Rest};

use crate::outcome::EXIT_CODES;
use crate::units;

pub use all::{AllArguments, SetupArguments};
pub use recommend::{Answers, RecommendArguments, percent, requests_per_second, yes_or_no};

/// Keeps the sessions of web applications, and measures every way to keep them.
#[derive(Debug, Parser)]
#[command(name = "sessile", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show what each store can do, and how its URL is written
    Stores(StoresArguments),
    /// Measure stores on this machine
    Bench(Box<BenchArguments>),
    /// Say which store to use: a ranking for a site, with the reasons, from measured results
    #[command(after_help = EXIT_CODES)]
    Recommend(RecommendArguments),
    /// Show what is in a store: sessions, bytes, and what only this kind of store can tell
    #[command(after_help = EXIT_CODES)]
    Stat(StatArguments),
    /// Show what is large, old or idle in a store, or in what PHP or an application keeps; changes nothing
    Scan(ScanArguments),
    /// Check everything that a store holds; changes nothing
    #[command(after_help = EXIT_CODES)]
    Verify(VerifyArguments),
    /// Remove expired sessions, all of them, in small steps
    #[command(after_help = EXIT_CODES)]
    Gc(GcArguments),
    /// Make everything that was acknowledged so far survive a power cut
    #[command(after_help = EXIT_CODES)]
    Sync(SyncArguments),
    /// Print completions for a shell
    Completion(CompletionArguments),
}

/// The verb under which this program is its own worker. Not part of the parser, so that neither help nor
/// completions offer it.
pub const WORKER_VERB: &str = "bench-worker";

/// `sessile stores`.
#[derive(Args, Debug)]
pub struct StoresArguments {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `sessile stat`.
#[derive(Args, Debug)]
pub struct StatArguments {
    /// The store, for example files:/var/lib/sessile
    pub url: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `sessile scan`.
#[derive(Args, Debug)]
pub struct ScanArguments {
    /// The store, for example files:/var/lib/sessile, or what another program keeps: see below. It must exist: none is
    /// made
    pub url: String,
    /// List only entries of at least this size, for example 1M, and say how many there are
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub larger_than: Option<u64>,
    /// How many of the largest entries are listed
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = at_most(0..=1_000))]
    pub top: usize,
    /// Entries that are asked for at once
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = at_most(1..=10_000))]
    pub page: usize,
    /// Shortest pause between pages in milliseconds; it lasts at least as long as the page took. 0: no pauses
    #[arg(long, default_value_t = 10, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pub pause: u64,
    /// Stop after this many seconds even if not everything was seen [default: no limit]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write the histograms of sizes, ages and idle times without ids, keys and names to a file; `sessile bench scale --profile`
    /// draws from its sizes only
    #[arg(long, value_name = "FILE")]
    pub export_profile: Option<PathBuf>,
}

/// `sessile verify`.
#[derive(Args, Debug)]
pub struct VerifyArguments {
    /// The store, for example sqlite:/var/lib/sessile.db
    pub url: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `sessile gc`.
#[derive(Args, Debug)]
pub struct GcArguments {
    /// The store, for example files:/var/lib/sessile
    pub url: String,
    /// Most records to look at in one step
    #[arg(long, default_value_t = 1_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub records: u64,
    /// Longest time of one step in milliseconds
    #[arg(long, default_value_t = 20, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub step_ms: u64,
    /// Rest N times as long as each step took, so that others hardly notice; 0 for no rest
    #[arg(long, default_value_t = Rest::default().0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub rest: u32,
    /// Stop after this many seconds even if not everything was looked at [default: no limit]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `sessile sync`.
#[derive(Args, Debug)]
pub struct SyncArguments {
    /// The store, for example sqlite:/var/lib/sessile.db
    pub url: String,
}

/// `sessile completion`.
#[derive(Args, Debug)]
pub struct CompletionArguments {
    /// The shell
    pub shell: Shell,
}

/// `sessile bench`.
#[derive(Args, Debug)]
pub struct BenchArguments {
    /// What to measure
    #[command(subcommand)]
    pub experiment: ExperimentVerb,
}

/// `sessile bench EXPERIMENT`.
#[derive(Debug, Subcommand)]
pub enum ExperimentVerb {
    /// Create, read and change sessions, each on its own
    #[command(after_help = EXIT_CODES)]
    Ops(RunArguments),
    /// One locked request after the other: begin, read, change, commit
    #[command(after_help = EXIT_CODES)]
    Cycle(RunArguments),
    /// Parallel requests of one page: all workers on one session, lost updates counted
    #[command(after_help = EXIT_CODES)]
    Contention(RunArguments),
    /// What removing expired sessions does to requests, with histograms
    #[command(after_help = EXIT_CODES)]
    Gc(RunArguments),
    /// The cycle with 10 thousand to 5 million sessions, on each store with as many as it is filled in time: speed, space and memory
    #[command(after_help = EXIT_CODES)]
    Scale(RunArguments),
    /// What it costs a steady stream of requests that some meet an expired session
    #[command(after_help = EXIT_CODES)]
    Expiry(RunArguments),
    /// The whole life of a session in one request to nginx and php-fpm, for each session handler of PHP
    #[command(after_help = EXIT_CODES)]
    Lifecycle(RunArguments),
    /// Open a session in Perl, ten reads and ten writes, close: for Apache::Session and Cache::FastMmap, with what they lock
    #[command(after_help = EXIT_CODES)]
    Perl(RunArguments),
    /// Payloads of half a megabyte to eight on every store: stored, refused loudly, or lost
    #[command(after_help = EXIT_CODES)]
    Oversize(RunArguments),
    /// Workers and servers killed with SIGKILL: what is lost, what is stuck, how long until it works again
    #[command(after_help = EXIT_CODES)]
    Faults(RunArguments),
    /// A page whose cache entry exceeds memcached's limit and is built on each view, before and after it is routed elsewhere
    #[command(after_help = EXIT_CODES)]
    Rebuild(RunArguments),
    /// Every experiment, one after the other, with results that are written after each of them
    #[command(after_help = EXIT_CODES)]
    All(AllArguments),
    /// List what this machine lacks for the experiments, and install it on Debian and Ubuntu
    #[command(after_help = EXIT_CODES)]
    Setup(SetupArguments),
    /// Compare two results, of one experiment or of all: which rows have become slower by more than the noise
    #[command(after_help = EXIT_CODES)]
    Compare(CompareArguments),
    /// Draw results as one page of HTML that needs nothing else: charts, tables, and what to use where
    #[command(after_help = EXIT_CODES)]
    Report(PageArguments),
    /// Print what a result says of this machine, as JSON, for measurements outside of this command
    #[command(after_help = EXIT_CODES)]
    Environment,
}

/// `sessile bench report`.
#[derive(Args, Debug)]
pub struct PageArguments {
    /// Results of one or several experiments, as --json wrote them
    #[arg(value_name = "RESULT", required = true)]
    pub results: Vec<PathBuf>,
    /// The page, or standard output (-)
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
}

/// `sessile bench compare`.
#[derive(Args, Debug)]
pub struct CompareArguments {
    /// The result before, as --json wrote it, of one experiment or of `bench all`
    #[arg(value_name = "OLD")]
    pub old: PathBuf,
    /// The result after
    #[arg(value_name = "NEW")]
    pub new: PathBuf,
    /// The smallest slowdown that counts
    #[arg(long, default_value = "5%", value_name = "PERCENT", value_parser = threshold)]
    pub threshold: f64,
    /// Fail too when something cannot be judged: a row or an experiment is missing, or the two runs were too noisy or too short
    #[arg(long)]
    pub strict: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The options of every experiment.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// Stores, variants (files#shm), reference rows or URLs, separated by commas; for lifecycle handlers of PHP (phpredis#lock),
    /// for perl keepers of sessions in Perl (apache-file#shm)
    /// [default: all that can run]
    #[arg(long, value_delimiter = ',', value_name = "NAME|URL")]
    pub stores: Vec<String>,
    /// Numbers of worker processes, for example 1,8; for lifecycle of parallel requests
    #[arg(long, value_delimiter = ',', value_name = "N")]
    pub workers: Option<Vec<usize>>,
    /// Sessions in the store; for scale several numbers, for example 10000,550000; for lifecycle those that a sample adds,
    /// one a request; for perl those that are made and opened again, several numbers for who depends on how many there are
    #[arg(long, value_delimiter = ',', value_name = "N")]
    pub sessions: Option<Vec<usize>>,
    /// Payload size in bytes, where all have one [default: 1500]
    #[arg(long, value_name = "BYTES")]
    pub payload: Option<usize>,
    /// Length of a sample in seconds
    #[arg(long, value_name = "S")]
    pub seconds: Option<f64>,
    /// Rounds: each contender gets one sample a round, in random order; for faults kills
    #[arg(long, value_name = "N")]
    pub rounds: Option<usize>,
    /// Requests a second of each worker, latency from the moment when a request was due (cycle, contention, gc, expiry)
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// Lets processors sleep between requests: how long this machine takes to wake up is measured too (contention, gc, expiry,
    /// cycle --rate, --round-trip)
    #[arg(long)]
    pub let_sleep: bool,
    /// Puts a network before private servers, on which a round trip takes MS milliseconds: 0.1 to 0.5 in one data centre
    #[arg(long, value_name = "MS")]
    pub round_trip: Option<f64>,
    /// Before the rounds the workers rewrite N times as many sessions as there are, with no sweep (cycle, scale) [default: 0]
    #[arg(long, value_name = "N")]
    pub churn: Option<usize>,
    /// Times besides the stores what a published measurement timed: payloads drawn in the timed part, databases connected to
    /// anew for each operation, sessions that live for a minute (ops)
    #[arg(long)]
    pub as_published: bool,
    /// What is measured: cycle, peek (the read alone, without a lock) or both (cycle, scale) [default: cycle]
    #[arg(long, value_delimiter = ',', value_parser = cycle_op, value_name = "OP")]
    pub op: Option<Vec<CycleOp>>,
    /// How payload sizes differ: fixed, lognormal (median 1 KiB, up to 1 MiB) or both (scale) [default: both]
    #[arg(long, value_delimiter = ',', value_parser = spread, value_name = "SPREAD")]
    pub spread: Option<Vec<Spread>>,
    /// Payload sizes as in a store that `sessile scan --export-profile` has seen, and nothing but the sizes (scale, and cycle
    /// --workload profile) [default: --spread]
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// What requests do, which sessions they ask for and how large those are: ycsb-a, shop, bots, big-admin or profile (with
    /// --profile); in place of a change each of all sessions alike (cycle)
    #[arg(long, value_parser = workload, value_name = "NAME")]
    pub workload: Option<Workload>,
    /// How many seconds filling one contender may take at each number of sessions; what would take longer is left out (scale)
    #[arg(long, value_name = "S")]
    pub fill_max: Option<f64>,
    /// Another build of sessile that is measured in the same rounds, turn by turn, and compared with this one: what a machine does
    /// to both falls out. Many short rounds in ten setups, with 10,000 sessions, unless --rounds, --seconds and --sessions say
    /// otherwise (cycle, ops)
    #[arg(long, value_name = "PROGRAM")]
    pub against: Option<PathBuf>,
    /// Write the result of that build as JSON to a file, for `bench compare`
    #[arg(long, value_name = "FILE", requires = "against")]
    pub against_json: Option<PathBuf>,
    /// Seed of ids, payloads, choices and order
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// A short preset: up to four minutes with all servers installed, less with --stores; other options override parts of it
    #[arg(long)]
    pub quick: bool,
    /// What every commit must survive: none, 1s (all but the last second) or commit
    #[arg(long, default_value = "none", value_parser = durability, value_name = "TIER")]
    pub durability: Durability,
    /// Ends with 1 when a figure of a store's row is beyond a bound: `[STORE:]FIGURE>NUMBER` or `<`, for example p99_us>5000;
    /// may be given several times
    #[arg(long, value_name = "BOUND", value_parser = bound)]
    pub fail_if: Vec<Bound>,
    /// Write the result as JSON to a file, or to standard output in place of the table (-)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the rows as CSV to a file, or to standard output in place of the table (-)
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write the tables, the command and the machine as Markdown, for an issue, to a file, or to standard output (-)
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Draw the result as one page of HTML to a file, or to standard output in place of the table (-)
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// A number of entries within a range.
fn at_most(range: std::ops::RangeInclusive<usize>) -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync {
    move |text| {
        let number = text.parse::<usize>().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("it must be a whole number from {} to {}", range.start(), range.end()))
    }
}

/// A part, given in percent; less than a thousandth is below what any clock of a run can tell.
fn threshold(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    let percent = percent.filter(|percent| (0.1..=90.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| "it must be 0.1% to 90%, for example 5%".to_owned())
}

fn durability(text: &str) -> Result<Durability, String> {
    Durability::from_name(text).ok_or_else(|| "it must be none, 1s or commit".to_owned())
}

fn bound(text: &str) -> Result<Bound, String> {
    text.parse::<Bound>().map_err(|error| error.to_string())
}

fn spread(text: &str) -> Result<Spread, String> {
    Spread::from_name(text).ok_or_else(|| "it must be fixed or lognormal".to_owned())
}

fn workload(text: &str) -> Result<Workload, String> {
    let names: Vec<&str> = Workload::ALL.iter().map(|workload| workload.name()).collect();
    Workload::from_name(text).ok_or_else(|| format!("it must be one of {}", names.join(", ")))
}

fn cycle_op(text: &str) -> Result<CycleOp, String> {
    CycleOp::from_name(text).ok_or_else(|| "it must be cycle or peek".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
