//! `sessile drop`: removes a store whole, with all its sessions.

use std::io::{BufRead, IsTerminal, Write, stderr, stdin};

use serde_json::json;
use sessile_stores::registry::PreparedDrop;

use crate::arguments::{DropArguments, yes_or_no};
use crate::command_result::{CommandFailure, CommandResult};
use crate::terminal::print_as;

pub fn run(arguments: &DropArguments) -> CommandResult {
    let store = PreparedDrop::new(&arguments.url)?;
    let label = &store.label;
    if !arguments.yes && !is_confirmed(&format!("Drop {label} with all its sessions"))? {
        return Err(CommandFailure::usage("nothing was dropped"));
    }
    store.carry_out()?;
    let json = || json!({ "schema": 1, "store": label, "dropped": true });
    print_as(arguments.json, json, || format!("{label} is dropped\n"))
}

/// Asks on the terminal.
pub fn is_confirmed(question: &str) -> Result<bool, CommandFailure> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return Err(CommandFailure::usage("there is no terminal to ask on: add --yes"));
    }
    let mut answer = String::new();
    let asked = write!(stderr(), "{question} (yes or no)? [no] ")
        .and_then(|()| stderr().flush())
        .and_then(|()| stdin().lock().read_line(&mut answer));
    asked.map_err(|error| {
        CommandFailure::unavailable(format!("the question cannot be asked: {error}; add --yes"))
    })?;
    Ok(yes_or_no(answer.trim()).unwrap_or(false))
}
