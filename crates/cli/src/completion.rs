//! `sessile completion`: completions for a shell, from the same declaration as the parser.

use crate::arguments::CompletionArguments;
use crate::command_line;
use crate::outcome::Outcome;

/// Prints the completions.
pub fn run(arguments: &CompletionArguments) -> Outcome {
    clap_complete::generate(arguments.shell, &mut command_line::complete(), "sessile", &mut std::io::stdout());
    Ok(())
}
