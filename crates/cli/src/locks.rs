//! `sessile locks`: the locks that are held. Changes nothing.

use serde_json::{Value, json};
use sessile_core::{Clock, HeldLock, Timestamp};
use sessile_watch::{lock_line, session_digest};

use crate::arguments::LocksArguments;
use crate::command_result::CommandResult;
use crate::existing_store;
use crate::terminal::print_as;
use crate::units;

pub fn run(arguments: &LocksArguments) -> CommandResult {
    let store = existing_store::open_to_look(&arguments.url)?;
    let locks = store.locks(arguments.limit)?;
    let now = Clock::system().now();
    let json = || {
        let locks: Vec<Value> = locks.iter().map(as_json).collect();
        json!({ "schema": 1, "store": store.label(), "locks": locks })
    };
    let text = || {
        let held = format!("{} held\n", units::with_noun(locks.len() as u64, "lock"));
        locks.iter().fold(held, |text, lock| format!("{text}  {}\n", lock_line(lock, now)))
    };
    print_as(arguments.json, json, text)
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
