//! The flags of `sessile recommend`: the site, and the results to rank by.

use std::path::PathBuf;

use clap::Args;
use sessile_core::Durability;

use super::durability;

/// The site. A terminal asks for what no flag says; elsewhere defaults apply.
#[derive(Args, Clone, Debug, Default)]
pub struct SiteAnswers {
    /// Hosts that run the application [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub web_servers: Option<u32>,
    /// A visitor always gets to the same web server
    #[arg(long)]
    pub affinity: bool,
    /// Simultaneous sessions [default: 10000]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    pub sessions: Option<u64>,
    /// Requests per second with a session, at peak [default: 50]
    #[arg(long, value_name = "N", value_parser = requests_per_second)]
    pub requests_per_second: Option<f64>,
    /// Percent of visitors without data to remember [default: 0]
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
    pub answers: SiteAnswers,
    /// Mean size of a session in bytes [default: 1500]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub payload: Option<u64>,
    /// Locked requests to the store for each request of the site
    #[arg(long, default_value = "1", value_parser = requests_per_second, value_name = "N")]
    pub cycles_per_request: f64,
    /// Failures that commits survive: none, 1s (all but the last second) or commit; 1s at least,
    /// unless a restart may log out
    #[arg(long, default_value = "none", value_parser = durability, value_name = "TIER")]
    pub durability: Durability,
    /// Stores with a running server, or none [default: those whose server is installed]
    #[arg(long, value_delimiter = ',', value_name = "STORE")]
    pub installed: Option<Vec<String>>,
    /// Results of `sessile bench --export-json` to rank by; repeatable
    #[arg(long, value_name = "FILE")]
    pub results: Vec<PathBuf>,
    /// Show the stores for seven kinds of sites instead
    #[arg(long, conflicts_with_all = ["web_servers", "affinity", "sessions"])]
    #[arg(conflicts_with_all = ["requests_per_second", "cycles_per_request"])]
    #[arg(conflicts_with_all = ["anonymous", "bots", "restart_may_log_out", "payload", "json"])]
    pub table: bool,
    /// Print JSON; nothing is asked
    #[arg(long)]
    pub json: bool,
}

pub fn percent(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    percent
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| "it must be 0 to 100".to_owned())
}

pub fn requests_per_second(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.0..=1e9).contains(rate));
    rate.ok_or_else(|| "it must be a number from 0 to 1000000000".to_owned())
}

pub fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "y" => Ok(true),
        "no" | "n" => Ok(false),
        _ => Err("it must be yes or no".to_owned()),
    }
}
