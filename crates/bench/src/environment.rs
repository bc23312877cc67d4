//! The machine and the programs of a run. Never contains a host name, user, absolute path or kernel
//! build suffix.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use sessile_fixtures::{ServerKind, ServerOptions, file_system, mount_options, server_flags};
use sessile_results::Environment;

use crate::cluster::ClusterContender;
use crate::selection::{Choice, ContenderSource};
use crate::worker::memory;

/// Libraries whose version changes the figures.
const LIBRARIES: [&str; 8] = [
    "mysql",
    "postgres-protocol",
    "redis",
    "rusqlite",
    "libsqlite3-sys",
    "heed",
    "lmdb-master-sys",
    "hdrhistogram",
];
/// Library versions at build time.
const LOCK: &str = include_str!("../../../Cargo.lock");

/// This machine and this program, the programs and the private servers of a run.
pub fn detect(programs: &BTreeMap<String, String>, choices: &[Choice]) -> Environment {
    let disk = std::env::var_os("SESSILE_DISK")
        .map_or_else(|| "/var/tmp".into(), std::path::PathBuf::from);
    let mut versions = versions();
    versions.extend(programs.clone());
    Environment {
        cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".into()),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: memory::field(&read("/proc/meminfo"), "MemTotal:"),
        kernel: format!("Linux {}", numbers(read("/proc/sys/kernel/osrelease").trim())),
        system: field_of_os_release("PRETTY_NAME").unwrap_or_else(|| "unknown".into()),
        disk_file_system: file_system(&disk),
        disk_mount_options: mount_options(&disk),
        sessile: env!("CARGO_PKG_VERSION").to_owned(),
        build: build_of_this_program().to_owned(),
        commit: env!("SESSILE_COMMIT").to_owned(),
        build_flags: env!("SESSILE_BUILD_FLAGS").to_owned(),
        servers: choices.iter().filter_map(flags).collect(),
        versions,
    }
}

pub(crate) fn build_of_this_program() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}

/// The private server of a contender, and its flags. Variants of a store may have others.
fn flags(choice: &Choice) -> Option<(String, String)> {
    match choice.target {
        ContenderSource::Cluster(_) => return Some((choice.title(), ClusterContender::flags()?)),
        ContenderSource::Standby(it) => return Some((choice.title(), it.flags(choice.tier())?)),
        _ => {}
    }
    let (server, arguments) = (choice.server?, choice.server_arguments);
    let name = if arguments.is_empty() { server.to_owned() } else { choice.title() };
    let extra = arguments.iter().map(OsString::from).collect();
    let options = ServerOptions { durability: choice.tier(), measured: true, extra };
    Some((name, server_flags(ServerKind::by_name(server)?, &options)))
}

/// In ticks since boot.
pub(crate) struct ProcessorTime {
    stolen: u64,
    all: u64,
}

impl ProcessorTime {
    pub(crate) fn so_far() -> ProcessorTime {
        ProcessorTime::parse(&read("/proc/stat"))
    }

    fn parse(stat: &str) -> ProcessorTime {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        // user nice system idle iowait irq softirq steal; guest time is already in the first two.
        let ticks: Vec<u64> =
            line.split_whitespace().take(8).filter_map(|ticks| ticks.parse().ok()).collect();
        ProcessorTime { stolen: ticks.get(7).copied().unwrap_or(0), all: ticks.iter().sum() }
    }

    pub(crate) fn stolen_since(&self, then: &ProcessorTime) -> f64 {
        let all = self.all.saturating_sub(then.all).max(1);
        self.stolen.saturating_sub(then.stolen) as f64 / all as f64
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn field_of_os_release(name: &str) -> Option<String> {
    let text = read("/etc/os-release");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
    Some(line.trim_matches('"').to_owned())
}

/// The leading numbers of a kernel release. Its suffix can name the builder.
fn numbers(release: &str) -> &str {
    let end = release.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(release.len());
    release.get(..end).unwrap_or(release).trim_end_matches('.')
}

fn versions() -> BTreeMap<String, String> {
    let mut versions: BTreeMap<String, String> = LIBRARIES
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), locked(LOCK, name)?)))
        .collect();
    for kind in ServerKind::all() {
        if let Some(version) = kind.find().and_then(|it| program_version(&it, "--version")) {
            versions.insert(kind.name.to_owned(), version);
        }
    }
    versions
}

fn locked(lock: &str, name: &str) -> Option<String> {
    let start = lock.find(&format!("name = \"{name}\"\n"))?;
    let version = lock.get(start..)?.lines().nth(1)?;
    Some(version.strip_prefix("version = ")?.trim_matches('"').to_owned())
}

/// The version that a program tells.
pub(crate) fn program_version(program: &Path, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).stdin(Stdio::null()).output().ok()?;
    let text = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    let text = text.concat();
    // nginx writes `nginx/1.22.1`; others may write the path of the program.
    let words = text.split([' ', '\n']).map(|word| word.trim_start_matches("v="));
    let words = words.map(|word| word.strip_prefix("nginx/").unwrap_or(word));
    let mut versions =
        words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'));
    versions.next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use sessile_core::Durability;

    use super::*;
    use sessile_results::experiment::Experiment;

    #[test]
    fn a_kernel_release_loses_its_build_suffix() {
        assert_eq!(numbers("6.1.0-18-amd64"), "6.1.0");
        assert_eq!(numbers("6.18.44-company-v445"), "6.18.44");
    }

    /// MariaDB had 4 GiB for its pages and PostgreSQL its default of 128 MB, and no result said so.
    #[test]
    fn the_flags_of_each_measured_server_are_told_without_its_directory() {
        let named = ["postgres-two-trips", "postgres#stock", "mysql", "memory"].map(str::to_owned);
        let tier = Durability::Second;
        let Ok(selection) = crate::selection::select(&named, Experiment::Cycle, tier) else {
            assert!(std::env::var_os("CI").is_none(), "no server is installed");
            return println!("skipped: no server is installed");
        };
        let servers = detect(&BTreeMap::new(), &selection.choices).servers;
        if let (Some(ours), Some(stock)) = (servers.get("postgres"), servers.get("postgres#stock"))
        {
            assert!(ours.contains("-D <disk>/data"), "{ours}");
            assert!(ours.ends_with("shared_buffers=4GB"), "{ours}");
            assert!(stock.ends_with("shared_buffers=128MB"), "{stock}");
            assert!(ours.contains("fsync=on") && ours.contains("synchronous_commit=off"));
        }
        if let Some(flags) = servers.get("mariadbd") {
            assert!(flags.contains("buffer-pool-size=4G"), "{flags}");
        }
    }

    #[test]
    fn what_a_hypervisor_takes_is_a_part_of_all_time() {
        let at = |stat: &str| ProcessorTime::parse(stat);
        let (then, now) = (
            at("cpu  10 0 10 70 0 0 0 10 5 0\ncpu0 1"),
            at("cpu  60 0 10 100 0 0 0 30 9 0\ncpu0 1"),
        );
        assert!((now.stolen_since(&then) - 0.2).abs() < 1e-9);
        assert_eq!(at("").stolen_since(&at("nonsense")), 0.0);
    }

    #[test]
    fn versions_come_from_the_lock_file() {
        let lock = "[[package]]\nname = \"redis\"\nversion = \"1.2.3\"\n";
        assert_eq!(locked(lock, "redis").as_deref(), Some("1.2.3"));
        assert_eq!(locked(lock, "rusqlite"), None);
        assert!(locked(LOCK, "hdrhistogram").is_some());
    }
}
