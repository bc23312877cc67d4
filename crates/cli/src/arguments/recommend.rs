//! The flags of `sessile recommend`: the site, as answers that may also be asked for, and what to judge it by.

use std::path::PathBuf;

use clap::Args;
use sessile_core::Durability;

use super::durability;

/// What is asked for on a terminal unless a flag says it; elsewhere it takes its default.
#[derive(Args, Clone, Debug, Default)]
pub struct Answers {
    /// Hosts that run the application [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub web_servers: Option<u32>,
    /// A visitor always gets to the same web server
    #[arg(long)]
    pub affinity: bool,
    /// Sessions that live at the same time [default: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    pub sessions: Option<u64>,
    /// Requests a second with a session, at the busiest time [default: 50]
    #[arg(long, value_name = "N", value_parser = requests_per_second)]
    pub requests_per_second: Option<f64>,
    /// Percent of visitors for whom nothing has to be remembered [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub anonymous: Option<f64>,
    /// Percent of sessions that are one request of a robot [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub bots: Option<f64>,
    /// May a restart log everybody out: yes or no [default: no]
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no)]
    pub restart_may_log_out: Option<bool>,
}

/// `sessile recommend`.
#[derive(Args, Debug)]
pub struct RecommendArguments {
    /// The site.
    #[command(flatten)]
    pub answers: Answers,
    /// Mean size of a session in bytes [default: 1500]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub payload: Option<u64>,
    /// What must survive a power cut: none, 1s (all but the last second) or commit
    #[arg(long, default_value = "none", value_parser = durability, value_name = "TIER")]
    pub durability: Durability,
    /// Stores whose server is there anyway, or none [default: those whose server is installed here]
    #[arg(long, value_delimiter = ',', value_name = "STORE")]
    pub installed: Option<Vec<String>>,
    /// Results of sessile bench --json to rank by; may be given several times
    #[arg(long, value_name = "FILE")]
    pub results: Vec<PathBuf>,
    /// Show instead what fits five kinds of sites
    #[arg(long, conflicts_with_all = ["web_servers", "affinity", "sessions", "requests_per_second", "anonymous", "bots",
        "restart_may_log_out", "payload", "json"])]
    pub table: bool,
    /// Print JSON; nothing is asked
    #[arg(long)]
    pub json: bool,
}

pub fn percent(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    percent.filter(|percent| (0.0..=100.0).contains(percent)).ok_or_else(|| "it must be 0 to 100".to_owned())
}

pub fn requests_per_second(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.0..=1e9).contains(rate));
    rate.ok_or_else(|| "it must be a number, 0 or more".to_owned())
}

pub fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "y" => Ok(true),
        "no" | "n" => Ok(false),
        _ => Err("it must be yes or no".to_owned()),
    }
}
