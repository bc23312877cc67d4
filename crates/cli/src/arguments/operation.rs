//! The arguments of the verbs that look at a store in use: doctor, locks, top, metrics, serve.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use sessile_core::Durability;

use super::durability;

/// The exit codes of `sessile doctor`: those of monitoring programs.
pub const DOCTOR_CODES: &str = "\
Exit codes, as Nagios and its successors expect them:
  0    sound
  1    warnings
  2    a critical finding, for example a store that cannot be opened; or usage
  3    unknown: the URL is malformed";

/// `sessile doctor`.
#[derive(Args, Debug)]
pub struct DoctorArguments {
    /// The store, as the workers open it
    pub url: String,
    /// Failures that commits must survive: none, 1s (all but the last second) or commit
    #[arg(long, value_parser = durability, value_name = "TIER")]
    pub keep: Option<Durability>,
    /// The user of the workers
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// The number of workers on all hosts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub workers: Option<u64>,
    /// The program that tells PHP's settings [default: php, if it uses sessile]
    #[arg(long, value_name = "PROGRAM")]
    pub php: Option<PathBuf>,
    /// The php.ini of the workers, for example /etc/php/8.2/fpm/php.ini
    #[arg(long, value_name = "FILE")]
    pub php_ini: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `sessile locks`.
#[derive(Args, Debug)]
pub struct LocksArguments {
    /// The store, for example sessile:/dev/shm/shop
    pub url: String,
    /// The most locks that are shown
    #[arg(long, default_value_t = 100, value_name = "N")]
    #[arg(value_parser = super::at_most(1..=10_000))]
    pub limit: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `sessile top`.
#[derive(Args, Debug)]
pub struct TopArguments {
    /// The store, for example sessile:/dev/shm/shop
    pub url: String,
    /// Show one frame and end
    #[arg(long)]
    pub once: bool,
}

/// `sessile metrics`.
#[derive(Args, Debug)]
pub struct MetricsArguments {
    /// The store, for example sessile:/dev/shm/shop
    pub url: String,
    /// Serve /metrics on this address in place of printing it once, for example 127.0.0.1:9899
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
}

/// `sessile serve`.
#[derive(Args, Debug)]
pub struct ServeArguments {
    /// The store, for example sessile:/dev/shm/shop
    pub url: String,
    /// The address to listen on; port 0: a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// A file with the secret part of the address, at least 16 characters [default: a random one]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}
