//! `sessile sessions`: lists the sessions of one user, or ends them all.
//!
//! Invariant: no id is printed, nor what a store shows in its place.

use serde_json::{Value, json};
use sessile_core::{Clock, Listed, Owner, Timestamp};

use crate::arguments::SessionsArguments;
use crate::command_result::{CommandFailure, CommandResult};
use crate::drop::is_confirmed;
use crate::existing_store;
use crate::terminal::print;
use crate::units;

pub fn run(arguments: &SessionsArguments) -> CommandResult {
    let failure = |error| existing_store::failure(&error);
    let owner = Owner::new(arguments.owner.as_bytes()).map_err(failure)?;
    let store = existing_store::open(&arguments.url)?;
    let label = store.label();
    if !arguments.revoke {
        let listed = store.sessions_of(owner).map_err(failure)?;
        return print(&if arguments.json { as_json(label, &listed) } else { as_text(&listed) });
    }
    if !arguments.yes {
        // Not kept in memory: a program may have set one owner for all its visitors.
        let mut count = 0;
        let counted = store.each_of(owner, |_| {
            count += 1;
            Ok(())
        });
        counted.map_err(failure)?;
        let count = units::with_noun(count, "session", "sessions");
        if !is_confirmed(&format!("End {count} of this user in {label}"))? {
            return Err(CommandFailure::usage("nothing was ended"));
        }
    }
    let ended = store.revoke(owner, None).map_err(failure)?;
    if arguments.json {
        print(&format!("{:#}\n", json!({ "schema": 1, "store": label, "ended": ended })))
    } else {
        print(&format!("{} ended\n", units::with_noun(ended, "session", "sessions")))
    }
}

fn as_text(listed: &[Listed]) -> String {
    let now = Clock::system().now();
    let ms = |later: Timestamp, earlier: Timestamp| {
        units::milliseconds(u64::try_from(later.since(earlier).as_millis()).unwrap_or(u64::MAX))
    };
    let mut text = format!("{}\n", units::with_noun(listed.len() as u64, "session", "sessions"));
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

fn as_json(label: &str, listed: &[Listed]) -> String {
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
    format!("{:#}\n", json!({ "schema": 1, "store": label, "sessions": sessions }))
}
