//! `sessile serve`: a store in the browser. Changes nothing.

use std::path::Path;

use sessile_doctor::Examination;
use sessile_watch::{ServeOptions, serve_page};

use crate::arguments::ServeArguments;
use crate::command_result::{CommandFailure, CommandResult};
use crate::existing_store;
use crate::interrupted;
use crate::terminal::print;

const TOKEN_BYTES_MIN: usize = 16;

pub fn run(arguments: &ServeArguments) -> CommandResult {
    let token = arguments.token_file.as_deref().map(read_token).transpose()?;
    let store = existing_store::open_to_look(&arguments.url)?;
    let examination = Examination::new(&arguments.url);
    let options = ServeOptions { address: arguments.listen, token, examination };
    if !arguments.listen.ip().is_loopback() {
        eprintln!(
            "sessile serve: warning: {} can be reached from other hosts, and the page is not \
             encrypted: whoever sees the address in the network can read the page; prefer ssh -L",
            arguments.listen
        );
    }
    interrupted::watch();
    let told = |served: &sessile_watch::Served, token: &str| {
        let _ = print(&format!("http://{}/{token}/\n", served.address()));
    };
    Ok(serve_page(&store, &options, told, interrupted::is_so)?)
}

fn read_token(path: &Path) -> Result<String, CommandFailure> {
    let read = std::fs::read_to_string(path).map_err(|error| {
        CommandFailure::unavailable(format!("{} cannot be read: {error}", path.display()))
    })?;
    let token = read.trim();
    let sound = token.len() >= TOKEN_BYTES_MIN && token.bytes().all(|b| b.is_ascii_alphanumeric());
    sound.then(|| token.to_owned()).ok_or_else(|| {
        let why = format!("at least {TOKEN_BYTES_MIN} characters of A-Z a-z 0-9 are needed");
        CommandFailure::usage(format!("{} has no token: {why}", path.display()))
    })
}
