//! `sessile completion`: completions for a shell, from the same declaration as the parser.

use clap::CommandFactory;

use crate::arguments::{Arguments, CompletionArguments};
use crate::outcome::Outcome;

/// Prints the completions.
pub fn run(arguments: &CompletionArguments) -> Outcome {
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "sessile", &mut std::io::stdout());
    Ok(())
}
