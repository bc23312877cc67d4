//! What a ranking rests on, in words: no results, unsuitable results, or results that are not quite
//! comparable.
//!
//! Does not change the ranking.

use std::collections::BTreeMap;

use sessile_core::Durability;
use sessile_results::grouping::grouped;
use sessile_results::number::count;
use sessile_results::{Environment, Report, comparability_notes};

use crate::candidate::{Candidate, Conditions, cycles};
use crate::site::Site;

pub(crate) fn basis(site: &Site, question: Option<&Conditions>, results: &[Report]) -> Vec<String> {
    match question {
        None if results.is_empty() => vec![
            "nothing was measured: this ranks by what the stores declare only. To rank by speed on \
             this machine: sessile bench cycle --export-json cycle.json, then --results cycle.json"
                .to_owned(),
        ],
        None => {
            let why = why_not_by_speed(site, results);
            vec![format!("not ranked by speed, by what the stores declare only: {why}")]
        }
        Some(question) => comparability(question, results),
    }
}

/// A warning if the results come from several machines: only those of the chosen machine count, or
/// all of them if no row can be ranked by speed.
pub(crate) fn machines(question: Option<&Conditions>, results: &[Report]) -> Option<String> {
    let sound = results.iter().filter(|report| !report.results.is_empty());
    let machines = grouped(sound.map(|report| (machine(&report.environment), report)));
    if machines.len() < 2 {
        return None;
    }
    let counted = match question {
        Some(question) => {
            let of_machine = results.iter().find(|report| question.is_same_machine(report));
            let machine = of_machine.map(|report| machine(&report.environment));
            format!("judged by those of {}, and by none of another", machine.unwrap_or_default())
        }
        None => "what they say of space, sizes, sweeps and failures counts together".to_owned(),
    };
    let count = machines.len();
    let words =
        machines.iter().map(|(machine, results)| format!("{machine} (results: {})", results.len()));
    let words: Vec<String> = words.collect();
    Some(format!("the results are of {count} machines, {}; {counted}", words.join("; ")))
}

fn machine(machine: &Environment) -> String {
    let Environment { cpu, cores, memory_bytes, disk_file_system, disk_mount_options, .. } =
        machine;
    let memory = count(*memory_bytes as f64);
    let disk = format!("{disk_file_system} {disk_mount_options}");
    format!("{cpu} with {cores} processors, {memory} bytes of memory and {}", disk.trim_end())
}

/// What the measured servers sync and cache, for it decides their figures.
pub(crate) fn servers(candidates: &[Candidate]) -> Option<String> {
    let servers: BTreeMap<&str, &str> = candidates
        .iter()
        .filter_map(|it| Some((it.capabilities.server?, it.measured.server_flags.as_deref()?)))
        .collect();
    let servers: Vec<String> =
        servers.iter().map(|(name, flags)| format!("{name}: {}", settings(flags))).collect();
    let syncs_less = |it: &Candidate| {
        it.capabilities.server == Some("mariadbd")
            && it.measured.server_flags.is_some()
            && it.tier.is_some_and(|tier| tier < Durability::Commit)
    };
    let shared = match candidates.iter().any(syncs_less) {
        true => {
            "; this setting of MariaDB is that of the whole server: orders in it lose their last \
             second, too"
        }
        false => "",
    };
    (!servers.is_empty())
        .then(|| format!("servers were measured with {}{shared}", servers.join("; ")))
}

/// The settings in a command line that say what is synced and how much is cached.
fn settings(flags: &str) -> String {
    const ABOUT: [&str; 4] = ["append", "sync", "flush", "buffer"];
    let mut words = flags.split_whitespace();
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        if word == "-m" || ABOUT.iter().any(|about| word.contains(about)) {
            let value = if word.contains('=') { None } else { words.next() };
            settings.extend([Some(word), value].into_iter().flatten());
        }
    }
    settings.join(" ")
}

fn comparability(question: &Conditions, results: &[Report]) -> Vec<String> {
    let numbered = results.iter().enumerate().filter(|(_, report)| question.is_met_by(report));
    let named: Vec<(String, &Report)> =
        numbered.map(|(index, report)| (format!("result {}", index + 1), report)).collect();
    comparability_notes(&named)
}

/// Why results cannot be ranked by speed, and the command that helps.
fn why_not_by_speed(site: &Site, results: &[Report]) -> String {
    let tier = site.durability.name();
    let rows = || results.iter().flat_map(|report| cycles(report).map(move |row| (report, row)));
    let sound = || rows().filter(|(report, row)| !row.is_bad() && report.settings.rate.is_none());
    let mut tiers: Vec<&str> = sound().map(|(_, row)| row.question.durability.as_str()).collect();
    tiers.sort_unstable();
    tiers.dedup();
    let (why, network) = if tiers.contains(&tier) && site.needs_shared_store() {
        ("its rows are of no store that several hosts can share".to_owned(), " --round-trip 0.3ms")
    } else if tiers.contains(&tier) {
        ("its rows are of no store".to_owned(), "")
    } else if !tiers.is_empty() {
        // A server that was measured by its URL is as it is configured.
        (format!("the results are of tier {}", tiers.join(", ")), "")
    } else if rows().any(|(_, row)| !row.is_bad()) {
        ("at a fixed rate all stores are as fast as the rate".to_owned(), "")
    } else {
        ("the results have no sound row of cycle or scale".to_owned(), "")
    };
    format!("in tier {tier} {why}: measure sessile bench cycle --durability {tier}{network}")
}
