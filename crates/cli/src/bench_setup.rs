//! `sessile bench setup`: lists missing programs for the experiments, and the line that installs
//! them.

use sessile_bench::requirements::{Requirement, missing_packages, requirements};

use crate::arguments::SetupArguments;
use crate::command_result::{CommandFailure, CommandResult};
use crate::terminal;

pub fn run(arguments: &SetupArguments) -> CommandResult {
    let found = requirements();
    terminal::print(&if arguments.json { json(&found)? } else { text(&found) })
}

fn has_apt() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join("apt-get").is_file())
}

fn json(requirements: &[Requirement]) -> Result<String, CommandFailure> {
    let packages = missing_packages(requirements);
    let value = serde_json::json!({ "schema": 1, "needs": requirements, "packages": packages });
    let text = serde_json::to_string_pretty(&value).map_err(|error| {
        CommandFailure::unavailable(format!("the list cannot be written: {error}"))
    })?;
    Ok(format!("{text}\n"))
}

fn text(requirements: &[Requirement]) -> String {
    let missing: Vec<&Requirement> =
        requirements.iter().filter(|requirement| !requirement.present).collect();
    if missing.is_empty() {
        return format!("all {} programs, extensions and modules are there\n", requirements.len());
    }
    let mut text = String::new();
    for requirement in &missing {
        let how = match (&requirement.package, &requirement.remedy) {
            (Some(package), _) => format!("Debian package {package}"),
            (None, Some(remedy)) => remedy.clone(),
            (None, None) => String::new(),
        };
        text.push_str(&format!(
            "missing: {} ({how})\n    for {}\n",
            requirement.name,
            requirement.wanted_by.join(", ")
        ));
    }
    let missing_packages = missing_packages(requirements);
    if !missing_packages.is_empty() {
        let how = if has_apt() {
            "to install them: sudo apt-get install --no-install-recommends"
        } else {
            "install what Debian has in:"
        };
        text.push_str(
            "note: Debian starts a server that it installs; the benchmark needs only the program\n",
        );
        text.push_str(&format!("{how} {}\n", missing_packages.join(" ")));
    }
    text
}
