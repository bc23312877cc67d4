//! `sessile completion`: shell completions from the parser's declaration.

use crate::arguments::CompletionArguments;
use crate::command_line;
use crate::command_result::CommandResult;
use crate::terminal::print;

pub fn run(arguments: &CompletionArguments) -> CommandResult {
    // Not to standard output: the generator panics if the pipe is closed.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command_line::complete(), "sessile", &mut script);
    print(&String::from_utf8_lossy(&script))
}
