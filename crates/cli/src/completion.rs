//! `sessile completion`: shell completions from the parser's declaration.

use crate::arguments::CompletionArguments;
use crate::command_line;
use crate::command_result::CommandResult;

pub fn run(arguments: &CompletionArguments) -> CommandResult {
    clap_complete::generate(
        arguments.shell,
        &mut command_line::complete(),
        "sessile",
        &mut std::io::stdout(),
    );
    Ok(())
}
