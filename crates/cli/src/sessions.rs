//! `sessile sessions`: lists the sessions of one user, or ends them all.
//!
//! Invariant: no id is printed, nor what a store shows in its place.

use serde_json::{Value, json};
use sessile_core::{Clock, Listed, Owner, Timestamp};

use crate::arguments::SessionsArguments;
use crate::command_result::{CommandFailure, CommandResult};
use crate::drop::is_confirmed;
use crate::existing_store;
use crate::terminal::print_as;
use crate::units;

pub fn run(arguments: &SessionsArguments) -> CommandResult {
    let owner = Owner::new(arguments.owner.as_bytes())?;
    let store = existing_store::open(&arguments.url)?;
    let label = store.label();
    if !arguments.revoke {
        let listed = store.sessions_of(owner)?;
        return print_as(arguments.json, || as_json(label, &listed), || as_text(&listed));
    }
    if !arguments.yes {
        // Not kept in memory: a program may have set one owner for all its visitors.
        let mut count = 0;
        store.each_of(owner, |_| {
            count += 1;
            Ok(())
        })?;
        let count = units::with_noun(count, "session");
        if !is_confirmed(&format!("End {count} of this user in {label}"))? {
            return Err(CommandFailure::usage("nothing was ended"));
        }
    }
    let ended = store.revoke(owner, None)?;
    let json = || json!({ "schema": 1, "store": label, "ended": ended });
    let text = || format!("{} ended\n", units::with_noun(ended, "session"));
    print_as(arguments.json, json, text)
}

fn as_text(listed: &[Listed]) -> String {
    let now = Clock::system().now();
    let ms = |later: Timestamp, earlier: Timestamp| units::duration(later.since(earlier));
    let mut text = format!("{}\n", units::with_noun(listed.len() as u64, "session"));
    for Listed { payload_bytes, head, .. } in listed {
        text.push_str(&format!(
            "  begun {} ago, saved {} ago, expires in {}, {}\n",
            ms(now, head.created),
            ms(now, head.written),
            ms(head.expires, now),
            units::bytes(*payload_bytes)
        ));
    }
    text
}

fn as_json(label: &str, listed: &[Listed]) -> Value {
    let sessions: Vec<Value> = listed
        .iter()
        .map(|Listed { payload_bytes, head, .. }| {
            json!({
                "created_ms": head.created.as_ms(),
                "written_ms": head.written.as_ms(),
                "expires_ms": head.expires.as_ms(),
                "payload_bytes": payload_bytes,
            })
        })
        .collect();
    json!({ "schema": 1, "store": label, "sessions": sessions })
}
