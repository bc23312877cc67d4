//! The complete command line: the declaration of arguments.rs with the presets of each experiment.
//!
//! The benchmark owns the presets, so the help asks it for them.

use std::ffi::OsString;
use std::io::IsTerminal;

use clap::builder::UnknownArgumentValueParser;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command, CommandFactory, Error, FromArgMatches};
use sessile_bench::describe_default;
use sessile_results::{Experiment, Workload};
use sessile_stores::layouts::LAYOUTS;

use crate::arguments::{Arguments, DOCTOR_CODES};
use crate::command_result::EXIT_CODES;
use crate::examples;

const MORE: &str = "--help has examples and the exit codes.";
/// For every verb but `doctor`: they are told once.
const WHERE_EXIT_CODES_ARE: &str = "Exit codes: those of `sessile --help`.";
/// The help of `sessile`. Clap itself takes two lines and a half for each of these options.
const TEMPLATE: &str = "\
{about}

{usage-heading} {usage}

Commands:
{subcommands}

Options:
  -h, --help     Print help; -h is a summary
  -V, --version  Print version{after-help}";

/// Words for verbs that other programs have, and for which clap suggests nothing or a hidden verb.
const OTHER_WORDS: [(&str, &str); 3] =
    [("scan", "analyze"), ("analyse", "analyze"), ("verify", "check")];

/// Parses the command line. Prints errors and help, and ends the process then.
pub fn parse() -> Arguments {
    let words: Vec<OsString> = std::env::args_os().collect();
    let matches =
        parser(&words).try_get_matches_from(words).unwrap_or_else(|error| suggesting(error).exit());
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// A script that forgets the verb gets an error, a person at a terminal an overview.
///
/// The words decide on the help of the experiments: clap's own long help takes three lines for each
/// option, and so would not fit a terminal.
pub fn parser(words: &[OsString]) -> Command {
    let needs_verb = !std::io::stdout().is_terminal();
    let is_long = words.iter().any(|word| word == "--help");
    let command = of_each_of_bench(complete(), |name, experiment, verb| {
        let verb = if is_long { verb } else { verb.after_help(MORE) };
        let writes_files = experiment.is_some() || name == "all";
        if writes_files { with_hint_at_file(verb) } else { verb }
    });
    command.subcommand_required(needs_verb).arg_required_else_help(needs_verb)
}

/// The flag `--json` of the other verbs is answered with the one that names a file.
fn with_hint_at_file(verb: Command) -> Command {
    let parser = UnknownArgumentValueParser::suggest_arg("--export-json");
    let flag = Arg::new("json of other verbs").long("json").hide(true);
    verb.arg(flag.num_args(0..=1).default_missing_value("").value_parser(parser))
}

/// Adds the verb that is meant to the message about one that is not known.
fn suggesting(mut error: Error) -> Error {
    let own_word = |given: &ContextValue| {
        let ContextValue::String(given) = given else { return None };
        OTHER_WORDS.iter().find(|(other, _)| other == given).map(|(_, own)| (*own).to_owned())
    };
    if let Some(own) = error.get(ContextKind::InvalidSubcommand).and_then(own_word) {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![own]));
    }
    error
}

pub fn complete() -> Command {
    let command = with_examples(Arguments::command()).help_template(TEMPLATE);
    let command =
        command.mut_subcommand("analyze", |analyze| analyze.after_long_help(help_of_layouts()));
    of_each_of_bench(command, |name, experiment, verb| {
        let verb = match experiment {
            Some(experiment) => with_words_of(experiment, verb),
            None => verb,
        };
        let workloads =
            if experiment == Some(Experiment::Cycle) { workloads() } else { String::new() };
        let examples = listed(examples::of_bench(name));
        verb.after_help(format!("{workloads}{examples}\n{WHERE_EXIT_CODES_ARE}"))
    })
}

/// Changes each verb of `bench`; the tools are no experiments.
fn of_each_of_bench(
    command: Command,
    change: impl Fn(&str, Option<Experiment>, Command) -> Command,
) -> Command {
    command.mut_subcommand("bench", |bench| {
        bench.mut_subcommands(|verb| {
            let name = verb.get_name().to_owned();
            change(&name, experiment_of(&name), verb)
        })
    })
}

/// `perl` is a part of `languages`.
fn experiment_of(verb: &str) -> Option<Experiment> {
    if verb == "perl" { Some(Experiment::Languages) } else { Experiment::from_name(verb) }
}

/// `--help` has examples and the exit codes, `-h` is short.
fn with_examples(command: Command) -> Command {
    let command = command.after_help(MORE).after_long_help(with_exit_codes("sessile"));
    command.mut_subcommands(|verb| {
        let long = with_exit_codes(verb.get_name());
        verb.after_help(MORE).after_long_help(long)
    })
}

fn with_exit_codes(name: &str) -> String {
    let codes = match name {
        "sessile" => EXIT_CODES,
        "doctor" => DOCTOR_CODES,
        _ => WHERE_EXIT_CODES_ARE,
    };
    format!("{}\n{codes}", listed(examples::of(name)))
}

fn listed(examples: &[&str]) -> String {
    let heading = "Examples:\n".to_owned();
    examples.iter().fold(heading, |text, example| format!("{text}  sessile {example}\n"))
}

/// The help of the foreign layouts that can be analyzed.
fn help_of_layouts() -> String {
    let mut text =
        "Besides the stores of `sessile stores`, read-only, with the same options of the \
         connection:\n"
            .to_owned();
    for layout in LAYOUTS {
        text.push_str(&format!("  {}\n      {}\n", layout.example, layout.reads));
        for option in layout.options {
            text.push_str(&format!("      ?{}=  {}\n", option.name, option.help));
        }
    }
    format!("{text}\n{}", with_exit_codes("analyze"))
}

fn workloads() -> String {
    let mut text =
        "Workloads (each an assumption about visitors; compare within one only):\n".to_owned();
    for workload in Workload::ALL {
        text.push_str(&format!("  {}\n      {}\n", workload.name(), workload.description()));
    }
    text + "\n"
}

/// What an option means in an experiment, where it is not what the others mean.
fn meaning(experiment: Experiment, option: &str) -> Option<&'static str> {
    use Experiment::{Faults, Languages, Lifecycle, Rebuild, Scale};
    Some(match (experiment, option) {
        (Faults, "rounds") => "Kills of each contender",
        (Lifecycle | Rebuild, "stores") => {
            "Handlers of PHP (phpredis#lock), with commas [default: all installed]"
        }
        (Languages, "sessions") => "Sessions of PHP's collector",
        (Languages, "stores") => "Languages (node), with commas [default: all installed]",
        (Lifecycle, "workers") => "Numbers of parallel requests, with commas",
        (Scale, "sessions") => "Sessions in the store, several numbers with commas",
        (Lifecycle, "sessions") => "Sessions added by a sample, one a request",
        (Rebuild, "sessions") => "Views of pages",
        (Rebuild, "payload") => "Size of a page's data in bytes [default: 2 MiB]",
        _ => return None,
    })
}

/// What each option means in an experiment, and its default there.
fn with_words_of(experiment: Experiment, verb: Command) -> Command {
    verb.mut_args(|argument| {
        let option = argument.get_id().to_string();
        let argument = match meaning(experiment, &option) {
            Some(words) => argument.help(words),
            None => argument,
        };
        match describe_default(experiment, &option) {
            Some(words) => {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                argument.help(format!("{help} [default: {words}]"))
            }
            None => argument,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help_of(experiment: &str) -> String {
        let mut command = complete();
        let bench = command.find_subcommand_mut("bench").unwrap();
        let help = bench.find_subcommand_mut(experiment).unwrap().render_long_help().to_string();
        help.split_whitespace().collect::<Vec<&str>>().join(" ") // without line breaks
    }

    #[test]
    fn the_help_of_all_fits_a_terminal_and_is_complete() {
        let help = complete().render_long_help().to_string();
        assert!(help.lines().count() <= 40, "{} lines:\n{help}", help.lines().count());
        assert!(help.contains("Exit codes") && help.contains("Examples"), "{help}");
    }

    #[test]
    fn every_verb_has_three_examples_which_are_understood() {
        let names: Vec<String> = complete()
            .get_subcommands()
            .filter(|verb| !verb.is_hide_set())
            .map(|verb| verb.get_name().to_owned())
            .collect();
        let complete_line = complete();
        let bench = complete_line.find_subcommand("bench").unwrap();
        let of_bench = bench.get_subcommands().map(|verb| examples::of_bench(verb.get_name()));
        let all: Vec<(&str, &[&str])> = (names.iter().map(String::as_str).chain(["sessile"]))
            .map(|name| (name, examples::of(name)))
            .chain(of_bench.map(|examples| ("bench", examples)))
            .collect();
        for (name, examples) in all {
            assert_eq!(examples.len(), 3, "{name}: {examples:?}");
            for example in examples {
                let quoted: Vec<String> = example
                    .split(' ')
                    .take_while(|word| *word != "|" && *word != ">")
                    .map(|word| word.trim_matches('\'').to_owned())
                    .collect();
                assert!(name == "sessile" || quoted.first().map(String::as_str) == Some(name));
                let words = std::iter::once("sessile".to_owned()).chain(quoted);
                let parsed = complete().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{example}: {}", parsed.err().unwrap());
            }
        }
    }

    #[test]
    fn the_short_help_of_a_verb_has_no_exit_codes() {
        let mut command = complete();
        for name in ["gc", "copy", "analyze"] {
            let verb = command.find_subcommand_mut(name).unwrap();
            let (short, long) = (verb.render_help(), verb.render_long_help());
            assert!(!short.to_string().contains("Exit codes"), "{short}");
            assert!(long.to_string().contains("Exit codes"), "{long}");
        }
    }

    #[test]
    fn a_verb_of_another_program_is_answered_with_the_own_one() {
        for (other, own) in OTHER_WORDS {
            let error = complete().try_get_matches_from(["sessile", other]).unwrap_err();
            let text = suggesting(error).to_string();
            assert!(text.contains(&format!("a similar subcommand exists: '{own}'\n")), "{text}");
            assert!(complete().find_subcommand(own).is_some(), "{own}");
        }
        let error = complete().try_get_matches_from(["sessile", "chek"]).unwrap_err();
        assert!(suggesting(error).to_string().contains("'check'"), "clap finds it by itself");
    }

    #[test]
    fn the_flag_for_json_of_other_verbs_is_answered_with_the_one_for_a_file() {
        for words in
            [&["cycle", "--json", "x"][..], &["cycle", "--json"], &["all", "--json=x", "--quick"]]
        {
            let words = [&["sessile", "bench"], words].concat();
            let text = parser(&[]).try_get_matches_from(words).unwrap_err().to_string();
            assert!(text.contains("a similar argument exists: '--export-json'"), "{text}");
        }
        let help = parser(&[]).try_get_matches_from(["sessile", "bench", "cycle", "--help"]);
        assert!(!help.unwrap_err().to_string().contains(" --json"));
    }

    #[test]
    fn the_short_help_of_an_experiment_is_shorter_and_leads_to_the_long_one() {
        for verb in ["cycle", "compare"] {
            let help = |flag: &str| {
                let words = ["sessile", "bench", verb, flag].map(OsString::from);
                parser(&words).try_get_matches_from(words).unwrap_err().to_string()
            };
            let (short, long) = (help("-h"), help("--help"));
            assert!(short.contains(MORE) && !short.contains("Examples"), "{short}");
            assert!(long.contains("Examples") && long.contains("Exit codes"), "{long}");
        }
    }

    #[test]
    fn the_exit_codes_are_told_once() {
        let with_codes = |verb: &Command| {
            let text = verb.clone().render_long_help().to_string();
            text.contains("Exit codes:\n").then(|| verb.get_name().to_owned())
        };
        let command = complete();
        let bench = command.find_subcommand("bench").unwrap();
        let verbs = command.get_subcommands().chain(bench.get_subcommands()).chain([&command]);
        assert_eq!(verbs.filter_map(with_codes).collect::<Vec<String>>(), ["sessile"]);
    }

    #[test]
    fn doctor_tells_the_exit_codes_of_monitoring() {
        let help = complete().find_subcommand_mut("doctor").unwrap().render_long_help();
        assert!(help.to_string().contains("  1    warnings"), "{help}");
    }

    #[test]
    fn the_help_of_analyze_names_every_layout() {
        let help =
            complete().find_subcommand_mut("analyze").unwrap().render_long_help().to_string();
        assert!(
            LAYOUTS.iter().all(|layout| help.contains(layout.example))
                && help.contains("Exit codes"),
            "{help}"
        );
    }

    #[test]
    fn the_manual_has_every_layout() {
        let manual = include_str!("../../../docs/operations.md");
        for layout in LAYOUTS {
            assert!(
                manual.contains(&format!("| `{}` | {} |", layout.example, layout.reads)),
                "{}",
                layout.example
            );
        }
    }

    #[test]
    fn the_help_of_an_experiment_fits_a_terminal() {
        for experiment in Experiment::ALL {
            let words = ["sessile", "bench", experiment.name(), "--help"];
            let help = complete().try_get_matches_from(words).unwrap_err().to_string();
            assert!(help.contains("--stores"), "{help}");
            assert!(help.lines().count() <= 45, "{} lines:\n{help}", help.lines().count());
        }
    }

    #[test]
    fn the_help_of_an_experiment_names_its_own_presets() {
        complete().debug_assert();
        let gc = help_of("gc");
        assert!(
            gc.contains("[default: 550000; with --quick 22000]") && gc.contains("[default: 500]"),
            "{gc}"
        );
        let cycle = help_of("cycle");
        assert!(cycle.contains("[default: 3s; with --quick 600ms]"), "{cycle}");
        assert!(cycle.contains("[default: 100000; with --quick 10000]"), "{cycle}");
        assert!(cycle.contains("[default: 1,8]") && !cycle.contains("[default: 500]"), "{cycle}");
        assert!(
            Workload::ALL.iter().all(|it| cycle.contains(it.description()))
                && cycle.contains("Exit codes"),
            "{cycle}"
        );
        assert!(
            help_of("scale").contains("left out [default: 120s; with --quick 1.5s]"),
            "{}",
            help_of("scale")
        );
    }
}
