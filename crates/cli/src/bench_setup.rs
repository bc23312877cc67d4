//! `sessile bench setup`: lists and installs missing programs for the experiments.
//!
//! scripts/deps.sh installs, as for `make test`: no service is started, now or at boot.

use std::io::{IsTerminal, stdin, stdout};
use std::process::{Command, Stdio};

use sessile_bench::requirements::{Requirement, missing_packages, requirements};
use sessile_fixtures::PrivateDir;

use crate::arguments::SetupArguments;
use crate::command_result::{CommandFailure, CommandResult};
use crate::terminal;

const SCRIPT: &str = include_str!("../../../scripts/deps.sh");

pub fn run(arguments: &SetupArguments) -> CommandResult {
    let before = requirements();
    let missing = missing_packages(&before);
    if !arguments.install {
        return terminal::print(&if arguments.json { json(&before)? } else { text(&before) });
    }
    if !missing.is_empty() {
        install(&missing, arguments)?;
    }
    let after = requirements();
    terminal::print(&if arguments.json { json(&after)? } else { text(&after) })?;
    match missing_packages(&after).as_slice() {
        [] => Ok(()),
        left => Err(CommandFailure::unavailable(format!("not installed: {}", left.join(", ")))),
    }
}

fn install(missing_packages: &[&str], arguments: &SetupArguments) -> CommandResult {
    if !has_apt() {
        let list = missing_packages.join(", ");
        return Err(CommandFailure::unavailable(format!(
            "no apt-get here: install with your own package manager what Debian has in {list}"
        )));
    }
    let can_ask = stdin().is_terminal() && stdout().is_terminal();
    if !arguments.yes && !can_ask {
        return Err(CommandFailure::usage(
            "there is no terminal to ask on: give --yes, or leave --install out for the list",
        ));
    }
    let failed = |error: std::io::Error| {
        CommandFailure::unavailable(format!("packages cannot be installed: {error}"))
    };
    let dir = PrivateDir::on_disk().map_err(failed)?;
    let script = dir.path().join("deps.sh");
    std::fs::write(&script, SCRIPT).map_err(failed)?;
    // On Ctrl-C the script cleans up and ends; then this process removes the script.
    ctrlc::set_handler(|| ()).map_err(|error| {
        CommandFailure::unavailable(format!("signals cannot be heard: {error}"))
    })?;
    let mut command = Command::new("/bin/sh");
    command.arg(&script).arg("install").args(missing_packages);
    if arguments.yes {
        command.env("SESSILE_YES", "1").stdin(Stdio::null());
    }
    if arguments.json {
        command.stdout(std::io::stderr()); // standard output is for the JSON
    }
    let status = command.status().map_err(failed)?;
    if status.success() {
        Ok(())
    } else {
        Err(CommandFailure::unavailable(format!("packages cannot be installed: {status}")))
    }
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
            "`sessile bench setup --install` installs"
        } else {
            "install what Debian has in"
        };
        text.push_str(&format!("{how}: {}\n", missing_packages.join(" ")));
    }
    text
}
