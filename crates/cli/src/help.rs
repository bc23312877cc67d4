//! `sessile help VERB`: what `sessile VERB --help` prints.

use std::ffi::OsString;

use crate::arguments::HelpArguments;
use crate::command_line;
use crate::command_result::CommandResult;

pub fn run(arguments: &HelpArguments) -> CommandResult {
    let verbs = arguments.verbs.iter().map(String::as_str);
    let words = std::iter::once("sessile").chain(verbs).chain(std::iter::once("--help"));
    let words: Vec<OsString> = words.map(OsString::from).collect();
    match command_line::parser(&words).try_get_matches_from(words) {
        Err(help) => help.exit(),
        Ok(_) => Ok(()),
    }
}
