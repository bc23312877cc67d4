//! `sessile manual`: a manual page for each verb, from the parser's declaration.
//!
//! For those who make packages; help and completions do not offer it.

use clap::Command;
use clap_mangen::Man;

use crate::arguments::ManualArguments;
use crate::command_line;
use crate::command_result::{CommandFailure, CommandResult};

pub fn run(arguments: &ManualArguments) -> CommandResult {
    for (name, page) in pages(command_line::complete()) {
        let file = arguments.directory.join(format!("{name}.1"));
        std::fs::write(&file, page).map_err(|error| {
            CommandFailure::unavailable(format!("cannot write {}: {error}", file.display()))
        })?;
    }
    Ok(())
}

/// `sessile`, `sessile-gc`, `sessile-bench-cycle` and so on, without the verbs that help hides.
fn pages(command: Command) -> Vec<(String, Vec<u8>)> {
    // Built, each verb knows the words before it.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    let mut open = vec![(command.get_name().to_owned(), command)];
    while let Some((name, command)) = open.pop() {
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        open.extend(verbs.map(|verb| (format!("{name}-{}", verb.get_name()), verb.clone())));
        let version = env!("CARGO_PKG_VERSION");
        let mut page = Vec::new();
        // A vector takes every byte.
        let _ = Man::new(command.display_name(&name))
            .title(name.to_uppercase())
            .source(format!("Sessile {version}"))
            .manual("Sessile")
            .date("")
            .render(&mut page);
        pages.push((name, page));
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_a_page_and_the_hidden_ones_have_none() {
        let pages = pages(command_line::complete());
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in ["sessile", "sessile-stores", "sessile-gc", "sessile-bench-cycle"] {
            assert!(names.contains(&name), "{names:?}");
        }
        assert!(!names.contains(&"sessile-manual"), "{names:?}");
        for (name, page) in &pages {
            let text = String::from_utf8_lossy(page);
            assert!(text.contains("SYNOPSIS") && text.contains(".TH"), "{name}: {text}");
        }
    }
}
