//! The command lines of `sessile bench all` and `sessile bench setup`.

use std::path::PathBuf;

use clap::Args;
use sessile_core::Durability;
use sessile_results::Experiment;

/// `sessile bench all`.
#[derive(Args, Debug)]
pub struct AllArguments {
    /// Only these experiments, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_parser = experiment, value_name = "EXPERIMENT")]
    pub only: Vec<Experiment>,
    /// Not these experiments
    #[arg(long, value_delimiter = ',', value_parser = experiment, value_name = "EXPERIMENT")]
    #[arg(conflicts_with = "only")]
    pub skip: Vec<Experiment>,
    /// Stores, variants, reference rows, URLs, handlers of PHP and languages, separated by
    /// commas; each experiment takes those that it knows [default: all installed]
    #[arg(long, value_delimiter = ',', value_name = "NAME|URL")]
    pub stores: Vec<String>,
    /// Seed of ids, payloads, choices and order
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Shorter, with fewer sessions: about ten minutes on two processors instead of an hour
    #[arg(long)]
    pub quick: bool,
    /// Failures that commits survive: none, 1s (all but the last second) or commit
    #[arg(long, default_value = "none", value_parser = super::durability, value_name = "TIER")]
    pub durability: Durability,
    /// Write the results as JSON to a file after each experiment, or to standard output at the end
    /// (-)
    #[arg(long = "export-json", value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Go on with the interrupted series in the --export-json file, by the same command; complete
    /// experiments stay
    #[arg(long, requires = "json")]
    pub resume: bool,
    /// Write the tables as Markdown, for an issue, to a file after each experiment, or to standard
    /// output at the end (-)
    #[arg(long = "export-markdown", value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write the results as one HTML page to a file after each experiment
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// `sessile bench setup`.
#[derive(Args, Debug)]
pub struct SetupArguments {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn experiment(text: &str) -> Result<Experiment, String> {
    Experiment::from_name(text).ok_or_else(|| {
        let known: Vec<&str> = Experiment::ALL.iter().map(|experiment| experiment.name()).collect();
        format!("it must be one of {}", known.join(", "))
    })
}
