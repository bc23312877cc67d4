//! Notes on differences between results that make figures less comparable.
//!
//! Of rows only the tiers are looked at, because they decide the command lines of servers.

use std::collections::BTreeSet;

use crate::Report;

/// All results are compared with the first; each note uses the given names.
pub fn comparability_notes<S: AsRef<str>>(results: &[(S, &Report)]) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(((name, first), others)) = results.split_first() {
        for (other, report) in others {
            notes.extend(differences(name.as_ref(), first, other.as_ref(), report));
        }
    }
    if results.iter().any(|(_, report)| report.environment.build != "release") {
        notes.push("a debug build: the figures mean nothing".to_owned());
    }
    let interrupted = results.iter().filter(|(_, report)| report.interrupted);
    notes.extend(
        interrupted.map(|(name, _)| format!("{} was interrupted: rows are missing", name.as_ref())),
    );
    notes
}

fn tiers(report: &Report) -> BTreeSet<&str> {
    report.results.iter().map(|row| row.question.durability.as_str()).collect()
}

fn differences(old_name: &str, old: &Report, new_name: &str, new: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let (was, is) = (&old.environment, &new.environment);
    let mut others = was.differences(is);
    if tiers(old) == tiers(new) {
        others.extend(was.differences_of_servers(is));
    }
    let others = others.iter().map(|(what, was, is)| {
        format!("{what} is another one: {was} in {old_name}, {is} in {new_name}")
    });
    let others: Vec<String> = others.collect();
    if !others.is_empty() {
        notes.push(others.join("; "));
    }
    for (name, version) in &was.versions {
        if let Some(other) = is.versions.get(name).filter(|other| *other != version) {
            notes.push(format!("{name} is {version} in {old_name} and {other} in {new_name}"));
        }
    }
    let (was, is) = (old.settings.seconds, new.settings.seconds);
    if was != is {
        notes.push(format!("samples are {was} s long in {old_name} and {is} s in {new_name}"));
    }
    notes
}
