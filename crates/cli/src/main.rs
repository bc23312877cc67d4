//! The `sessile` command, with one file for each verb.
//!
//! Parses, runs the verb, and turns its result into an exit code.

#![forbid(unsafe_code)]

mod analyze;
mod arguments;
mod bench;
mod bench_all;
mod bench_baseline;
mod bench_setup;
mod check;
mod command_line;
mod command_result;
mod compare;
mod completion;
mod copy;
mod doctor;
mod drop;
mod examples;
mod existing_store;
mod gc;
mod help;
mod interrupted;
mod locks;
mod logger;
mod manual;
#[cfg(test)]
mod manual_tests;
mod metrics;
mod overview;
mod page;
mod questions;
mod recommend;
mod result_file;
mod serve;
mod sessions;
mod stat;
mod stores;
mod sync;
mod terminal;
mod top;
mod units;
mod worker;

use std::process::ExitCode;

use arguments::Verb;
use command_result::CommandResult;

fn main() -> ExitCode {
    let is_worker = worker::is_asked_for();
    logger::install(is_worker);
    let result = if is_worker { worker::run() } else { run(command_line::parse().verb.as_ref()) };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(verb: Option<&Verb>) -> CommandResult {
    let Some(verb) = verb else { return overview::run() };
    match verb {
        Verb::Stores(arguments) => stores::run(arguments),
        Verb::Bench(arguments) => bench::run(arguments),
        Verb::Recommend(arguments) => recommend::run(arguments),
        Verb::Stat(arguments) => stat::run(arguments),
        Verb::Analyze(arguments) => analyze::run(arguments),
        Verb::Check(arguments) => check::run(arguments),
        Verb::Doctor(arguments) => doctor::run(arguments),
        Verb::Locks(arguments) => locks::run(arguments),
        Verb::Top(arguments) => top::run(arguments),
        Verb::Metrics(arguments) => metrics::run(arguments),
        Verb::Serve(arguments) => serve::run(arguments),
        Verb::Gc(arguments) => gc::run(arguments),
        Verb::Copy(arguments) => copy::run(arguments),
        Verb::Sync(arguments) => sync::run(arguments),
        Verb::Drop(arguments) => drop::run(arguments),
        Verb::Sessions(arguments) => sessions::run(arguments),
        Verb::Completion(arguments) => completion::run(arguments),
        Verb::Manual(arguments) => manual::run(arguments),
        Verb::Help(arguments) => help::run(arguments),
    }
}
