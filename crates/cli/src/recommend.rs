//! `sessile recommend`: recommends a store for a site, with reasons.

use std::io::{IsTerminal, stderr, stdin};

use sessile_advice::{Site, recommend, site_kinds, table};
use sessile_fixtures::ServerKind;
use sessile_results::{Collection, Report};
use sessile_stores::registry::{self, STORES};

use crate::arguments::RecommendArguments;
use crate::command_result::{CommandFailure, CommandResult};
use crate::{compare, questions, terminal};

pub fn run(given: &RecommendArguments) -> CommandResult {
    let read = given.results.iter().map(|path| compare::read_collection(path));
    let collections = read.collect::<Result<Vec<Collection>, CommandFailure>>()?;
    let results: Vec<Report> =
        collections.into_iter().flat_map(|collection| collection.runs).collect();
    let installed = installed(given.installed.as_deref())?;
    if given.table {
        return terminal::print(&table(
            &site_kinds(&installed, given.durability),
            &results,
            STORES,
        ));
    }
    let site = site(given, installed)?;
    let recommendation = recommend(&site, &results, STORES);
    if given.json {
        let text = serde_json::to_string_pretty(&recommendation).map_err(|error| {
            CommandFailure::unavailable(format!("the recommendation cannot be written: {error}"))
        })?;
        return terminal::print(&format!("{text}\n"));
    }
    terminal::print(&recommendation.to_string())
}

fn site(given: &RecommendArguments, installed: Vec<String>) -> Result<Site, CommandFailure> {
    let mut answers = given.answers.clone();
    if !given.json && stdin().is_terminal() && stderr().is_terminal() {
        questions::ask(&mut answers, &mut stdin().lock(), &mut stderr()).map_err(|error| {
            CommandFailure::unavailable(format!(
                "the questions cannot be asked: {error}; use flags"
            ))
        })?;
    }
    let default = Site::default();
    Ok(Site {
        web_servers: answers.web_servers.unwrap_or(default.web_servers),
        affinity: answers.affinity,
        sessions: answers.sessions.unwrap_or(default.sessions),
        requests_per_second: answers.requests_per_second.unwrap_or(default.requests_per_second),
        cycles_per_request: given.cycles_per_request,
        anonymous_percent: answers.anonymous.unwrap_or(default.anonymous_percent),
        bots_percent: answers.bots.unwrap_or(default.bots_percent),
        restart_may_log_out: answers.restart_may_log_out.unwrap_or(default.restart_may_log_out),
        payload_bytes: given.payload.unwrap_or(default.payload_bytes),
        durability: given.durability,
        installed,
        servers: default.servers,
        handlers: default.handlers,
    })
}

/// The installed servers, by their names in capabilities.
fn installed(stores: Option<&[String]>) -> Result<Vec<String>, CommandFailure> {
    let servers = || STORES.iter().filter_map(|entry| entry.capabilities.server);
    match stores {
        None => {
            let here = |server: &&str| {
                ServerKind::by_name(server).is_some_and(|kind| kind.find().is_some())
            };
            Ok(servers().filter(here).map(str::to_owned).collect())
        }
        Some(names) => {
            let server = |name: &String| match registry::by_name(name)
                .and_then(|entry| entry.capabilities.server)
            {
                Some(server) => Ok(server.to_owned()),
                None => Err(unknown_server(name)),
            };
            names.iter().filter(|name| *name != "none").map(server).collect()
        }
    }
}

fn unknown_server(name: &str) -> CommandFailure {
    let known =
        STORES.iter().filter(|entry| entry.capabilities.server.is_some()).map(|entry| entry.name);
    let known: Vec<&str> = known.collect();
    CommandFailure::usage(format!(
        "--installed: {name:?} is no store with a server; known: {}, or none",
        known.join(", ")
    ))
}
