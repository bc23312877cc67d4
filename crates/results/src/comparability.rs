//! Notes on differences between results that make figures less comparable.
//!
//! Rows are not looked at; the caller compares machines.

use crate::Report;

/// All results are compared with the first; each note uses the given names.
pub fn comparability_notes(results: &[(&str, &Report)]) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(((name, first), others)) = results.split_first() {
        for (other, report) in others {
            notes.extend(differences(name, first, other, report));
        }
    }
    if results.iter().any(|(_, report)| report.environment.build != "release") {
        notes.push("a debug build: the figures mean nothing".to_owned());
    }
    let interrupted = results.iter().filter(|(_, report)| report.interrupted);
    notes.extend(interrupted.map(|(name, _)| format!("{name} was interrupted: rows are missing")));
    notes
}

fn differences(old_name: &str, old: &Report, new_name: &str, new: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let (was, is) = (&old.environment, &new.environment);
    if was.kernel != is.kernel {
        notes.push(format!(
            "the kernel is another one: {} in {old_name}, {} in {new_name}",
            was.kernel, is.kernel
        ));
    }
    if was.disk_file_system != is.disk_file_system {
        let (was, is) = (&was.disk_file_system, &is.disk_file_system);
        notes.push(format!(
            "the file system of the disk is another one: {was} in {old_name}, {is} in {new_name}"
        ));
    }
    for (name, version) in &was.versions {
        match is.versions.get(name) {
            Some(other) if other != version => {
                notes.push(format!("{name} is {version} in {old_name} and {other} in {new_name}"));
            }
            _ => {}
        }
    }
    let (was, is) = (old.settings.seconds, new.settings.seconds);
    if was != is {
        notes.push(format!("samples are {was} s long in {old_name} and {is} s in {new_name}"));
    }
    notes
}
