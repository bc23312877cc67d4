//! The options of each experiment, in groups that several experiments share.
//!
//! Invariant: an experiment offers an option only if it changes what is measured, so help shows
//! what applies, and the parser refuses the rest.

use std::path::{Path, PathBuf};

use clap::Args;
use sessile_bench::Options;
use sessile_core::Durability;
use sessile_results::{CycleOp, Workload};

use super::durability;
use crate::units;

/// The options of every experiment.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// Names, variants (files#shm) or URLs, with commas [default: all installed]
    #[arg(long, value_delimiter = ',', value_name = "NAME|URL")]
    pub stores: Vec<String>,
    /// Rounds of one sample for each contender
    #[arg(long, value_name = "N")]
    pub rounds: Option<usize>,
    /// Seed of ids, payloads, choices and order
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// A short preset; other options override parts of it
    #[arg(long)]
    pub quick: bool,
    /// What commits survive at least: none, 1s or commit
    #[arg(long, default_value = "none", value_parser = durability, value_name = "TIER")]
    pub durability: Durability,
    /// Write the result as JSON to a file, or to standard output (-)
    #[arg(long = "export-json", value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write tables, command and machine as Markdown, for an issue
    #[arg(long = "export-markdown", value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write the result as one HTML page
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// A part of the options of an experiment.
trait OptionGroup {
    fn set(&self, options: &mut Options);

    fn profile(&self) -> Option<&Path> {
        None
    }

    fn baseline(&self) -> Option<&BaselineArguments> {
        None
    }
}

/// What the benchmark needs of the options of any experiment.
pub trait ExperimentArguments {
    fn run(&self) -> &RunArguments;
    /// Without the profile, which is a file.
    fn options(&self) -> Options;
    fn profile(&self) -> Option<&Path>;
    fn baseline(&self) -> Option<&BaselineArguments>;
}

/// Declares groups whose options have the names and types of those of the benchmark.
macro_rules! groups {
    ($($(#[$about:meta])* $name:ident {
        $($(#[$option:meta])* $field:ident: $kind:ty => $into:ident,)*
    })*) => {$(
        $(#[$about])*
        #[derive(Args, Debug)]
        struct $name {
            $($(#[$option])* $field: $kind,)*
        }

        impl OptionGroup for $name {
            fn set(&self, options: &mut Options) {
                $(options.$into = self.$field.clone();)*
            }
        }
    )*};
}

groups! {
    Workers {
        /// Numbers of worker processes, with commas
        #[arg(long, value_delimiter = ',', value_name = "N")]
        workers: Option<Vec<usize>> => workers,
    }
    Sessions {
        /// Sessions in the store
        #[arg(long, value_delimiter = ',', value_name = "N")]
        sessions: Option<Vec<usize>> => sessions,
    }
    Payload {
        /// Fixed payload size in bytes [default: 1500]
        #[arg(long, value_name = "BYTES")]
        payload: Option<usize> => payload_bytes,
    }
    Seconds {
        /// Length of a sample, for example 600ms or 3s
        #[arg(long = "duration", value_name = "TIME", value_parser = units::parse_seconds)]
        seconds: Option<f64> => seconds,
    }
    RoundTrip {
        /// Round trip to private servers: 0.1ms to 0.5ms in one data centre
        #[arg(long, value_name = "TIME", value_parser = units::parse_milliseconds)]
        round_trip: Option<f64> => round_trip_ms,
    }
    Pace {
        /// Requests per second of each worker, timed from when each is due
        #[arg(long, value_name = "N")]
        rate: Option<f64> => rate,
        /// Let processors sleep between requests: latency includes waking up
        #[arg(long)]
        let_sleep: bool => let_sleep,
    }
    Published {
        /// Measure as a published benchmark did: payloads drawn in the timed part, a new connection
        /// for each operation, sessions of a minute
        #[arg(long)]
        as_published: bool => as_published,
    }
    DrupalCopy {
        /// Measure pages of Drupal 7 instead, from this copy of it: with its sessions and with ours
        #[arg(long, value_name = "DIR")]
        drupal: Option<PathBuf> => drupal,
    }
    Operation {
        /// Measure cycle, peek (a read without lock) or both [default: cycle]
        #[arg(long, value_delimiter = ',', value_parser = cycle_op, value_name = "OP")]
        op: Option<Vec<CycleOp>> => ops,
    }
    Mix {
        /// Mix of requests: shop, bots or profile [default: change any one]
        #[arg(long, value_parser = workload, value_name = "NAME")]
        #[arg(conflicts_with_all = ["payload", "op"], requires_if("profile", "profile"))]
        workload: Option<Workload> => workload,
    }
    FillTime {
        /// Time to fill one contender at each number of sessions; slower ones are left out
        #[arg(long, value_name = "TIME", value_parser = units::parse_seconds)]
        fill_max: Option<f64> => fill_max,
    }
}

/// Payload sizes of a store that was scanned.
#[derive(Args, Debug)]
struct ProfileFile {
    /// Payload sizes, a file of `sessile analyze --export-profile`
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

impl OptionGroup for ProfileFile {
    fn set(&self, _options: &mut Options) {}

    fn profile(&self) -> Option<&Path> {
        self.profile.as_deref()
    }
}

/// Another program in the same rounds.
#[derive(Args, Debug)]
pub struct BaselineArguments {
    /// Another build of sessile, measured in the same, shorter rounds
    #[arg(long, value_name = "PROGRAM")]
    pub baseline: Option<PathBuf>,
    /// Write the other build's result as JSON, for `bench compare`
    #[arg(long, value_name = "FILE", requires = "baseline")]
    pub export_baseline: Option<PathBuf>,
}

impl OptionGroup for BaselineArguments {
    fn set(&self, _options: &mut Options) {}

    fn baseline(&self) -> Option<&BaselineArguments> {
        Some(self)
    }
}

/// Declares the options of experiments as lists of groups.
macro_rules! experiments {
    ($($name:ident { $($field:ident: $group:ty),* $(,)? })*) => {$(
        #[derive(Args, Debug)]
        pub struct $name {
            #[command(flatten)]
            run: RunArguments,
            $(#[command(flatten)] $field: $group,)*
        }

        impl ExperimentArguments for $name {
            fn run(&self) -> &RunArguments {
                &self.run
            }

            fn options(&self) -> Options {
                let mut options = self.run.options();
                $(self.$field.set(&mut options);)*
                options
            }

            fn profile(&self) -> Option<&Path> {
                [$(self.$field.profile()),*].into_iter().flatten().next()
            }

            fn baseline(&self) -> Option<&BaselineArguments> {
                [$(self.$field.baseline()),*].into_iter().flatten().next()
            }
        }
    )*};
}

experiments! {
    OpsArguments {
        workers: Workers, sessions: Sessions, payload: Payload, seconds: Seconds,
        round_trip: RoundTrip, published: Published, baseline: BaselineArguments,
    }
    CycleArguments {
        workers: Workers, sessions: Sessions, payload: Payload, seconds: Seconds,
        round_trip: RoundTrip, pace: Pace, operation: Operation, mix: Mix, profile: ProfileFile,
        baseline: BaselineArguments,
    }
    ContentionArguments {
        workers: Workers, payload: Payload, seconds: Seconds, round_trip: RoundTrip, pace: Pace,
    }
    GcBenchArguments {
        sessions: Sessions, payload: Payload, seconds: Seconds, round_trip: RoundTrip, pace: Pace,
    }
    ScaleArguments {
        workers: Workers, sessions: Sessions, payload: Payload, seconds: Seconds,
        round_trip: RoundTrip, operation: Operation, profile: ProfileFile, fill: FillTime,
    }
    LifecycleArguments { workers: Workers, sessions: Sessions, drupal: DrupalCopy }
    LanguagesArguments { sessions: Sessions }
    OversizeArguments { round_trip: RoundTrip }
    FaultsArguments { workers: Workers, payload: Payload, seconds: Seconds, round_trip: RoundTrip }
    RebuildArguments { workers: Workers, sessions: Sessions, payload: Payload }
}

impl RunArguments {
    fn options(&self) -> Options {
        Options {
            stores: self.stores.clone(),
            rounds: self.rounds,
            seed: self.seed,
            quick: self.quick,
            durability: self.durability,
            command: crate::bench::command(),
            ..Options::default()
        }
    }
}

fn workload(text: &str) -> Result<Workload, String> {
    let names: Vec<&str> = Workload::ALL.iter().map(|workload| workload.name()).collect();
    Workload::from_name(text).ok_or_else(|| format!("it must be one of {}", names.join(", ")))
}

fn cycle_op(text: &str) -> Result<CycleOp, String> {
    CycleOp::from_name(text).ok_or_else(|| "it must be cycle or peek".to_owned())
}
