//! `sessile help VERB`: what `sessile VERB --help` prints.

use crate::arguments::HelpArguments;
use crate::command_line;
use crate::command_result::CommandResult;

pub fn run(arguments: &HelpArguments) -> CommandResult {
    let verbs = arguments.verbs.iter().map(String::as_str);
    let words = std::iter::once("sessile").chain(verbs).chain(std::iter::once("--help"));
    match command_line::parser().try_get_matches_from(words) {
        Err(help) => help.exit(),
        Ok(_) => Ok(()),
    }
}
