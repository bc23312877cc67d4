//! `sessile bench setup`: what this machine lacks for the experiments, and its installation.
//!
//! Installing is the business of scripts/deps.sh, which `make test` uses too: no service is started, now or at the next boot.

use std::io::{IsTerminal, stdin, stdout};
use std::process::{Command, Stdio};

use sessile_bench::needs::{Need, needs, packages};
use sessile_fixtures::PrivateDir;

use crate::arguments::SetupArguments;
use crate::outcome::{Failure, Outcome};
use crate::terminal;

const SCRIPT: &str = include_str!("../../../scripts/deps.sh");

/// Lists, and installs if that is wanted.
pub fn run(arguments: &SetupArguments) -> Outcome {
    let before = needs();
    let missing = packages(&before);
    if !arguments.install {
        return terminal::print(&if arguments.json { json(&before)? } else { text(&before) });
    }
    if !missing.is_empty() {
        install(&missing, arguments)?;
    }
    let after = needs();
    terminal::print(&if arguments.json { json(&after)? } else { text(&after) })?;
    match packages(&after).as_slice() {
        [] => Ok(()),
        left => Err(Failure::unavailable(format!("not installed: {}", left.join(", ")))),
    }
}

fn install(packages: &[&str], arguments: &SetupArguments) -> Outcome {
    if !has_apt() {
        let list = packages.join(", ");
        return Err(Failure::unavailable(format!(
            "no apt-get here: install with your own package manager what Debian has in {list}"
        )));
    }
    let can_ask = stdin().is_terminal() && stdout().is_terminal();
    if !arguments.yes && !can_ask {
        return Err(Failure::usage("there is no terminal to ask on: give --yes, or leave --install out for the list"));
    }
    let failed = |error: std::io::Error| Failure::unavailable(format!("packages cannot be installed: {error}"));
    let dir = PrivateDir::on_disk().map_err(failed)?;
    let script = dir.path().join("deps.sh");
    std::fs::write(&script, SCRIPT).map_err(failed)?;
    // The script ends by itself on Ctrl-C, and cleans up; this process then removes the script.
    ctrlc::set_handler(|| ()).map_err(|error| Failure::unavailable(format!("signals cannot be heard: {error}")))?;
    let mut command = Command::new("/bin/sh");
    command.arg(&script).arg("install").args(packages);
    if arguments.yes {
        command.env("SESSILE_YES", "1").stdin(Stdio::null());
    }
    if arguments.json {
        command.stdout(std::io::stderr()); // standard output is for the JSON
    }
    let status = command.status().map_err(failed)?;
    if status.success() { Ok(()) } else { Err(Failure::unavailable(format!("packages cannot be installed: {status}"))) }
}

fn has_apt() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join("apt-get").is_file())
}

fn json(needs: &[Need]) -> Result<String, Failure> {
    let value = serde_json::json!({ "schema": 1, "needs": needs, "packages": packages(needs) });
    let text = serde_json::to_string_pretty(&value)
        .map_err(|error| Failure::unavailable(format!("the list cannot be written: {error}")))?;
    Ok(format!("{text}\n"))
}

fn text(needs: &[Need]) -> String {
    let missing: Vec<&Need> = needs.iter().filter(|need| !need.present).collect();
    if missing.is_empty() {
        return format!("all {} programs, extensions and modules are there\n", needs.len());
    }
    let mut text = String::new();
    for need in &missing {
        let how = match (&need.package, &need.remedy) {
            (Some(package), _) => format!("Debian package {package}"),
            (None, Some(remedy)) => remedy.clone(),
            (None, None) => String::new(),
        };
        text.push_str(&format!("missing: {} ({how})\n    for {}\n", need.name, need.wanted_by.join(", ")));
    }
    let packages = packages(needs);
    if !packages.is_empty() {
        let how = if has_apt() { "`sessile bench setup --install` installs" } else { "install what Debian has in" };
        text.push_str(&format!("{how}: {}\n", packages.join(" ")));
    }
    text
}
