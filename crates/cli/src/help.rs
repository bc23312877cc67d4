//! `sessile help VERB`: the same text as `sessile VERB --help`.

use crate::arguments::HelpArguments;
use crate::command_line;
use crate::command_result::{CommandFailure, CommandResult};
use crate::terminal::print;

pub fn run(arguments: &HelpArguments) -> CommandResult {
    let mut command = command_line::complete();
    // Built, each verb knows the words before it.
    command.build();
    let mut verb = &mut command;
    for word in &arguments.verbs {
        verb = verb.find_subcommand_mut(word).ok_or_else(|| {
            CommandFailure::usage(format!("there is no verb {word:?}; sessile --help lists them"))
        })?;
    }
    print(&format!("{}\n", verb.render_long_help().to_string().trim_end()))
}
