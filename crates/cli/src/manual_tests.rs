//! The page `docs/command-line.md` is generated from the declaration of the command line.
//!
//! `UPDATE_MANUAL=1 cargo test -p sessile-cli --bin sessile manual` rewrites it.

use std::path::Path;

use clap::{Arg, Command, CommandFactory};

use crate::arguments::Arguments;

const PAGE: &str = "docs/command-line.md";
const OPEN: &str = "<!-- command line, generated -->\n";
const CLOSE: &str = "<!-- end command line, generated -->";
/// The verb with verbs of its own, whose flags are shown in one table.
const BENCH: &str = "bench";

fn page() -> String {
    let command = Arguments::command();
    let mut text = String::from("\n");
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        text.push_str(&format!("## sessile {}\n\n{}.\n\n", verb.get_name(), about(verb)));
        let own = flags([verb]);
        if !own.is_empty() {
            text.push_str("| argument | meaning |\n| --- | --- |\n");
            own.iter().for_each(|flag| text.push_str(&format!("| {} | {} |\n", flag.0, flag.1)));
            text.push('\n');
        }
        if verb.get_name() == BENCH {
            text.push_str(&experiments(verb));
        }
    }
    text
}

fn experiments(bench: &Command) -> String {
    let mut text = String::from("| verb | what it does |\n| --- | --- |\n");
    let verbs: Vec<&Command> = bench.get_subcommands().filter(|verb| !verb.is_hide_set()).collect();
    for verb in &verbs {
        text.push_str(&format!("| `bench {}` | {} |\n", verb.get_name(), about(verb)));
    }
    text.push_str("\n| argument | meaning | verbs of bench |\n| --- | --- | --- |\n");
    for (flag, meaning, names) in flags(verbs.iter().copied()) {
        let names =
            if names.len() * 2 > verbs.len() { "most".to_owned() } else { names.join(", ") };
        text.push_str(&format!("| {flag} | {meaning} | {names} |\n"));
    }
    text + "\n"
}

/// The arguments of these verbs, each once: how it is written, what it means, and the verbs.
fn flags<'a>(verbs: impl IntoIterator<Item = &'a Command>) -> Vec<(String, String, Vec<String>)> {
    let mut flags: Vec<(String, String, Vec<String>)> = Vec::new();
    for verb in verbs {
        for argument in verb.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let written = written(argument);
            let name = verb.get_name().to_owned();
            match flags.iter_mut().find(|(known, _, _)| *known == written) {
                Some((_, _, names)) => names.push(name),
                None => flags.push((written, meaning(argument), vec![name])),
            }
        }
    }
    flags
}

fn written(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let values: Vec<String> = names.iter().map(|name| one_line(name.as_str())).collect();
    let takes_value = argument.get_action().takes_values();
    match argument.get_long() {
        Some(long) if takes_value => format!("`--{long} {}`", values.join(" ")),
        Some(long) => format!("`--{long}`"),
        None => format!("`{}`", values.join(" ")),
    }
}

fn meaning(argument: &Arg) -> String {
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let defaults = argument.get_default_values().iter().map(|value| value.to_string_lossy());
    let defaults = defaults.collect::<Vec<_>>().join(",");
    let default = match defaults.as_str() {
        "" | "false" => String::new(),
        value => format!(" (default {value})"),
    };
    format!("{}{default}", one_line(&help))
}

fn about(command: &Command) -> String {
    one_line(&command.get_about().map(ToString::to_string).unwrap_or_default())
}

/// Fit for a cell of a table. Commands without their values, as a help names them, are no examples.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('`', "")
}

#[test]
fn the_manual_has_every_verb_and_flag() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let text = std::fs::read_to_string(&path).unwrap();
    let start = text.find(OPEN).unwrap() + OPEN.len();
    let end = text.find(CLOSE).unwrap();
    let wanted = page();
    assert!(wanted.contains("## sessile stat\n") && wanted.contains("`--quick`"), "{wanted}");
    if std::env::var_os("UPDATE_MANUAL").is_some_and(|value| value == "1") {
        std::fs::write(&path, format!("{}{wanted}{}", &text[..start], &text[end..])).unwrap();
        return;
    }
    assert!(
        text[start..end] == wanted,
        "{PAGE} is not what the command declares; run `UPDATE_MANUAL=1 cargo test -p sessile-cli \
         --bin sessile manual`"
    );
}
