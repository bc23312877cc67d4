//! The declared command line: source of the parser, help and completions.

mod all;
mod experiments;
mod operation;
mod recommend;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use sessile_core::Durability;
use sessile_scan::Pause;
use sessile_stores::registry::STORES;

use crate::units;

pub use all::{AllArguments, SetupArguments};
pub use experiments::{
    ContentionArguments, CycleArguments, ExperimentArguments, FaultsArguments, GcBenchArguments,
    LanguagesArguments, LifecycleArguments, OpsArguments, OversizeArguments, RebuildArguments,
    ScaleArguments,
};
pub use operation::{
    DOCTOR_CODES, DoctorArguments, LocksArguments, MetricsArguments, ServeArguments, TopArguments,
};
pub use recommend::{RecommendArguments, SiteAnswers, percent, requests_per_second, yes_or_no};

/// Keeps the sessions of web applications, and measures every way to keep them.
#[derive(Debug, Parser)]
#[command(name = "sessile", version, max_term_width = 100)]
#[command(disable_help_subcommand = true)]
pub struct Arguments {
    /// The verb; none on a terminal shows what is here.
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show what each store can do, and how its URL is written
    Stores(StoresArguments),
    /// Measure stores on this machine: a first answer in half a minute, or an experiment
    Bench(Box<BenchArguments>),
    /// Recommend stores for a site, with reasons, from measured results
    Recommend(RecommendArguments),
    /// Show the counts of a store, and details of its kind
    Stat(StatArguments),
    /// Show large, old or idle entries of a store, or of what other programs keep
    Analyze(AnalyzeArguments),
    /// Check everything in a store; changes no session
    Check(CheckArguments),
    /// Find what will go wrong with a store, each with its fix; changes no session
    Doctor(DoctorArguments),
    /// Show the locks that are held: session, holder, since when
    Locks(LocksArguments),
    /// Show requests, waits, sizes and locks of a store, each second
    Top(TopArguments),
    /// Print metrics of a store for Prometheus, or serve them
    Metrics(MetricsArguments),
    /// Show a store in the browser: charts of the last hour, locks, check and doctor
    Serve(ServeArguments),
    /// Remove all expired sessions, in small steps
    Gc(GcArguments),
    /// Copy the sessions of one store into another, or move them; safe to repeat
    Copy(CopyArguments),
    /// Make all acknowledged changes survive a power cut
    Sync(SyncArguments),
    /// Remove a store whole, with all its sessions
    Drop(DropArguments),
    /// List the sessions of one user, or end them
    Sessions(SessionsArguments),
    /// Print completions for a shell
    Completion(CompletionArguments),
    /// Write the manual pages into a directory, for packages
    #[command(hide = true)]
    Manual(ManualArguments),
    /// Show the help of a verb
    #[command(hide = true)]
    Help(HelpArguments),
}

/// `sessile help`. Clap's own verb would be a line of the help, which is to fit a terminal.
#[derive(Args, Debug)]
pub struct HelpArguments {
    /// The verb, for example gc, or bench cycle
    #[arg(value_name = "VERB")]
    pub verbs: Vec<String>,
}

/// The help of `--pause`, which means the same in each verb that works through a store.
const PAUSE: &str =
    "Pause after each batch: 4x its time (at most 1s), 10ms (or its time, if longer), or 0";

/// The verb of a worker. Not part of the parser, so that help and completions do not offer it.
pub const WORKER_VERB: &str = "bench-worker";

/// `sessile stores`.
#[derive(Args, Debug)]
pub struct StoresArguments {
    /// The store, for its options and what it can do [default: a list of all]
    #[arg(value_name = "NAME", value_parser = store_names(), hide_possible_values = true)]
    #[arg(conflicts_with = "all")]
    pub name: Option<String>,
    /// Show all stores side by side, with all options
    #[arg(long)]
    pub all: bool,
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

/// `sessile analyze`.
#[derive(Args, Debug)]
pub struct AnalyzeArguments {
    /// The store, for example files:/var/lib/sessile, or another program's storage: see below. It
    /// must exist
    pub url: String,
    /// List only entries of at least this size, for example 1M, and count them
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub larger_than: Option<u64>,
    /// Number of largest entries to list
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = at_most(0..=1_000))]
    pub top: usize,
    /// Entries per batch
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = at_most(1..=10_000))]
    pub batch: usize,
    #[arg(long, default_value = "10ms", value_name = "PAUSE", value_parser = units::parse_pause)]
    #[arg(help = PAUSE)]
    pub pause: Pause,
    /// Stop after this time, for example 30s or 10min [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    pub stop_after: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write histograms of sizes, ages and idle times to a file, without ids, keys and names;
    /// `sessile bench scale --profile` draws payload sizes from it
    #[arg(long, value_name = "FILE")]
    pub export_profile: Option<PathBuf>,
}

/// `sessile check`.
#[derive(Args, Debug)]
pub struct CheckArguments {
    /// The store, for example sqlite:/var/lib/sessile.db
    pub url: String,
    /// Entries per batch, rounded up to multiples of 256
    #[arg(long, default_value_t = 1_024, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub batch: u64,
    #[arg(long, default_value = "1x", value_name = "PAUSE", value_parser = units::parse_pause)]
    #[arg(help = PAUSE)]
    pub pause: Pause,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `sessile gc`.
#[derive(Args, Debug)]
pub struct GcArguments {
    /// The store, for example files:/var/lib/sessile
    pub url: String,
    /// Most records examined per batch
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub batch: u64,
    /// Longest batch
    #[arg(long, default_value = "20ms", value_name = "TIME", value_parser = units::parse_duration)]
    pub step: Duration,
    #[arg(long, default_value = "4x", value_name = "PAUSE", value_parser = units::parse_pause)]
    #[arg(help = PAUSE)]
    pub pause: Pause,
    /// Stop after this time, for example 30s or 10min [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    pub stop_after: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `sessile copy`.
#[derive(Args, Debug)]
pub struct CopyArguments {
    /// The store that has the sessions, which must list them; or the storage of another program:
    /// php+redis:, symfony+mysql:, drupal+mysql: (Drupal 7), django+postgres: and the like, as in
    /// `sessile analyze --help`
    pub from: String,
    /// The store that gets them, created if it does not exist; with --move also php+redis:
    pub to: String,
    /// Move them, under the locks of both stores: for a site in use whose workers have
    /// migrate:?from=FROM&to=TO
    #[arg(long = "move", conflicts_with_all = ["dry_run", "verify"])]
    pub moves: bool,
    /// Count what a copy would do, and change nothing
    #[arg(long, conflicts_with = "verify")]
    pub dry_run: bool,
    /// Compare each session in both stores, and change nothing; exit code 1 if one is missing or
    /// older in the new one
    #[arg(long)]
    pub verify: bool,
    /// Sessions per batch
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = at_most(1..=10_000))]
    pub batch: usize,
    #[arg(long, default_value = "1x", value_name = "PAUSE", value_parser = units::parse_pause)]
    #[arg(help = PAUSE)]
    pub pause: Pause,
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

/// `sessile drop`.
#[derive(Args, Debug)]
pub struct DropArguments {
    /// The store, for example sessile:/dev/shm/shop
    pub url: String,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `sessile sessions`.
#[derive(Args, Debug)]
pub struct SessionsArguments {
    /// The store, for example sessile:/dev/shm/shop
    pub url: String,
    /// The user, as the application names the owner of a session: for example 17
    #[arg(long, value_name = "NAME")]
    pub owner: String,
    /// End them all: the user is logged out everywhere
    #[arg(long)]
    pub revoke: bool,
    /// Do not ask
    #[arg(long, requires = "revoke")]
    pub yes: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `sessile completion`.
#[derive(Args, Debug)]
pub struct CompletionArguments {
    /// The shell
    pub shell: Shell,
}

/// `sessile manual`.
#[derive(Args, Debug)]
pub struct ManualArguments {
    /// The directory; it must exist
    pub directory: PathBuf,
}

/// `sessile bench`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArguments {
    /// The experiment; without one, a first answer about the stores that are there, in half a
    /// minute
    #[command(subcommand)]
    pub experiment: Option<ExperimentVerb>,
    /// Failures that commits survive: none, 1s (all but the last second) or commit
    #[arg(long, default_value = "none", value_parser = durability, value_name = "TIER")]
    pub durability: Durability,
}

/// The experiments and their tools.
#[derive(Debug, Subcommand)]
pub enum ExperimentVerb {
    /// Create, read and change single sessions
    Ops(OpsArguments),
    /// Locked requests: begin, read, change, commit
    Cycle(CycleArguments),
    /// Parallel requests of one page: all workers use one session; counts lost updates
    Contention(ContentionArguments),
    /// The effect of garbage collection on requests, with histograms
    Gc(GcBenchArguments),
    /// The cycle with 10 thousand to 5 million sessions, as many as each store takes in time:
    /// speed, space and memory
    Scale(ScaleArguments),
    /// The life of a session in one request to nginx and php-fpm, for each session handler of PHP
    Lifecycle(LifecycleArguments),
    /// Sessions in Perl: open, ten reads and ten writes, close; a part of `languages`
    Perl(LanguagesArguments),
    /// Sessions of PHP, Django, Flask, Express and Apache::Session, each in its own runtime
    Languages(LanguagesArguments),
    /// Payloads of half a megabyte to eight: stored, refused with an error, or lost
    Oversize(OversizeArguments),
    /// Workers and servers killed with SIGKILL: losses, stuck locks, time to recovery
    Faults(FaultsArguments),
    /// A page whose cache entry exceeds memcached's limit and is rebuilt on each view, before and
    /// after it is routed to another store
    Rebuild(RebuildArguments),
    /// Every experiment; results are written after each
    All(AllArguments),
    /// List programs missing for the experiments, and the line that installs them
    Setup(SetupArguments),
    /// Print the ratios of two results; --baseline of cycle and ops tells whether one is slower
    Compare(CompareArguments),
    /// Draw results as one self-contained HTML page: charts, tables, recommendations
    Report(PageArguments),
    /// Print the description of this machine as JSON, for measurements by other programs
    Environment,
}

/// `sessile bench report`.
#[derive(Args, Debug)]
pub struct PageArguments {
    /// Results of experiments, from --export-json
    #[arg(value_name = "RESULT", required = true)]
    pub results: Vec<PathBuf>,
    /// The page, or standard output (-)
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
}

/// `sessile bench compare`.
#[derive(Args, Debug)]
pub struct CompareArguments {
    /// The old result, from --export-json of one experiment or of `bench all`
    #[arg(value_name = "OLD")]
    pub old: PathBuf,
    /// The new result
    #[arg(value_name = "NEW")]
    pub new: PathBuf,
}

/// Parses a whole number within a range.
fn at_most(
    range: std::ops::RangeInclusive<usize>,
) -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync {
    move |text| {
        let number = text.parse::<usize>().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            format!("it must be a whole number from {} to {}", range.start(), range.end())
        })
    }
}

fn store_names() -> PossibleValuesParser {
    PossibleValuesParser::new(STORES.iter().map(|entry| entry.name))
}

fn durability(text: &str) -> Result<Durability, String> {
    Durability::from_name(text).ok_or_else(|| "it must be none, 1s or commit".to_owned())
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
