//! `sessile locks`: the locks that are held. Changes nothing.

use serde_json::{Value, json};
use sessile_core::{Clock, HeldLock, Timestamp};
use sessile_watch::{lock_line, session_digest};

use crate::arguments::LocksArguments;
use crate::command_result::CommandResult;
use crate::existing_store;
use crate::terminal::print;
use crate::units;

pub fn run(arguments: &LocksArguments) -> CommandResult {
    let store = existing_store::open_to_look(&arguments.url)?;
    let locks = store.locks(arguments.limit).map_err(|error| existing_store::failure(&error))?;
    let now = Clock::system().now();
    if arguments.json {
        let locks: Vec<Value> = locks.iter().map(as_json).collect();
        return print(&format!(
            "{:#}\n",
            json!({ "schema": 1, "store": store.label(), "locks": locks })
        ));
    }
    let mut text = format!("{} held\n", units::with_noun(locks.len() as u64, "lock", "locks"));
    for lock in &locks {
        text.push_str(&format!("  {}\n", lock_line(lock, now)));
    }
    print(&text)
}

fn as_json(lock: &HeldLock) -> Value {
    json!({
        "session": session_digest(lock.key.as_ref()),
        "pid": lock.holder.pid,
        "host": lock.holder.host,
        "since_ms": lock.holder.since.map(Timestamp::as_ms),
        "others_wait": lock.has_waiters,
    })
}
